"""The tables of states, and the roster under any order of events."""

from itertools import product

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from riprap.runtime.coordination.element_states import (
    FINAL,
    SYSTEM_TRANSITIONS,
    WORKER_TRANSITIONS,
    IllegalTransition,
    SystemState,
    WorkerState,
    check_worker,
    next_system,
)
from riprap.runtime.coordination.roster import ElementFenced, Roster


def test_every_state_is_in_the_tables_and_can_be_reached():
    for table, states, start in (
        (WORKER_TRANSITIONS, WorkerState, WorkerState.STARTING),
        (SYSTEM_TRANSITIONS, SystemState, SystemState.STARTING),
    ):
        assert set(table) == set(states)
        reached, todo = set(), [start]
        while todo:
            state = todo.pop()
            if state not in reached:
                reached.add(state)
                todo += table[state]
        assert reached == set(states)


def test_only_what_the_table_has_is_allowed():
    for now, then in product(WorkerState, WorkerState):
        if then in WORKER_TRANSITIONS[now]:
            check_worker("A", now, then)
        else:
            with pytest.raises(IllegalTransition, match=f"A is {now} and cannot become {then}"):
                check_worker("A", now, then)


@pytest.mark.parametrize(
    ("now", "workers", "stopping", "then"),
    [
        ("starting", "starting running", False, "starting"),
        ("starting", "running running", False, "running"),
        ("starting", "running down", False, "starting"),
        ("running", "running down", False, "degraded"),
        ("running", "running catching_up", False, "degraded"),
        ("running", "running ended", False, "running"),
        ("degraded", "running running", False, "running"),
        ("degraded", "down failed", False, "failed"),
        ("running", "ended ended", False, "ended"),
        ("running", "running running", True, "stopping"),
        ("stopping", "ended down", True, "stopping"),
        ("stopping", "ended ended", True, "ended"),
        ("failed", "ended ended", True, "failed"),
        ("ended", "ended ended", True, "ended"),
    ],
)
def test_the_state_of_the_run_follows_from_those_of_its_elements(now, workers, stopping, then):
    states = [WorkerState(worker) for worker in workers.split()]
    assert next_system(SystemState(now), states, stopping=stopping) == then


PES = ("A", "B")


class RosterMachine(RuleBasedStateMachine):
    """Processes of two elements register, speak, die, hang and come back as zombies, in any order."""

    pes = st.sampled_from(PES)

    @initialize(epochs=st.fixed_dictionaries(dict.fromkeys(PES, st.integers(0, 3))))
    def start(self, epochs):
        self.roster = Roster(PES, epochs)
        self.highest = dict(epochs)
        self.attempts = dict.fromkeys(PES, -1)
        self.alive = dict.fromkeys(PES, False)
        self.deaths = dict.fromkeys(PES, 0)
        self.time = 0.0

    def now(self):
        self.time += 1.0
        return self.time, int(self.time * 1e6)

    def state(self, pe):
        return self.roster.element_status(pe, self.time).state

    @rule(pe=pes)
    def register(self, pe):
        if self.roster.final:
            with pytest.raises(ElementFenced, match="nothing is left to do"):
                self.roster.register(pe, self.attempts[pe] + 1, "host", 1, 2, *self.now())
            return
        if self.alive[pe] and self.state(pe) is not WorkerState.ENDED:
            self.deaths[pe] += 1
        self.attempts[pe] += 1
        epoch = self.roster.register(pe, self.attempts[pe], "host", 1, 2, *self.now())
        assert epoch == self.highest[pe] + 1
        self.highest[pe], self.alive[pe] = epoch, True

    @rule(pe=pes)
    def late(self, pe):
        with pytest.raises(ElementFenced):
            self.roster.register(pe, self.attempts[pe] - 1, "host", 1, 2, *self.now())

    @rule(pe=pes, back=st.integers(1, 3))
    def zombie(self, pe, back):
        with pytest.raises(ElementFenced):
            self.roster.beat(pe, self.highest[pe] - back, {}, *self.now())
        self.roster.lost(pe, self.highest[pe] - back, *self.now())

    @rule(pe=pes)
    def die(self, pe):
        if self.alive[pe] and self.state(pe) is not WorkerState.ENDED:
            self.deaths[pe] += 1
        self.alive[pe] = False
        self.roster.lost(pe, self.highest[pe], *self.now())

    @rule()
    def silence(self):
        at, wall = self.now()
        for found in self.roster.silent_for(0.5, at, wall):
            assert self.alive[found.pe]
            assert found.state is WorkerState.HANGING
        assert self.roster.silent_for(0.5, at, wall) == []

    @precondition(lambda self: any(self.alive.values()))
    @rule(pe=pes, state=st.sampled_from(["restoring", "catching_up", "running", "running", "ended"]))
    def say(self, pe, state):
        if self.alive[pe]:
            state, now = WorkerState(state), self.now()
            self.roster.beat(pe, self.highest[pe], {"n": 1}, *now)
            before = self.state(pe)
            if state is before or state in WORKER_TRANSITIONS[before]:
                self.roster.status(pe, self.highest[pe], state, *now)
                assert self.state(pe) is state
            else:
                with pytest.raises(IllegalTransition):
                    self.roster.status(pe, self.highest[pe], state, *now)

    @rule()
    def stop(self):
        self.roster.stop(self.now()[1])

    @invariant()
    def one_recovery_per_death_and_no_time_runs_backwards(self):
        for line in self.roster.table(self.time) if hasattr(self, "roster") else []:
            hanging = line.state is WorkerState.HANGING
            assert len(line.recoveries) == self.deaths[line.pe] + hanging
            for recovery in line.recoveries:
                parts = [recovery.detect, recovery.restart, recovery.restore, recovery.catch_up]
                assert all(part is None or part >= 0 for part in parts)
            for earlier in line.recoveries[:-1]:
                assert earlier.restart is not None

    @invariant()
    def the_run_fits_its_elements(self):
        if hasattr(self, "roster"):
            states = {line.state for line in self.roster.table(self.time)}
            assert (self.roster.system is SystemState.ENDED) == (states == {WorkerState.ENDED})
            if self.roster.system is SystemState.RUNNING:
                assert states <= {WorkerState.RUNNING, WorkerState.ENDED}
            assert self.roster.final == (self.roster.system in FINAL)


TestRoster = RosterMachine.TestCase
