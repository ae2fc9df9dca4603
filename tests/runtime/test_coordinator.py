"""The coordinator and real processes: registration, death, silence, fencing, the end."""

import json
import os
import signal

import pytest
from wiring import LAYOUT, PATIENCE, Peer, eventually, run_in

from riprap.base.clock import SYSTEM_CLOCK
from riprap.protocols.events import FromDirector
from riprap.runtime.coordination.client import Client, CoordinatorLost
from riprap.runtime.coordination.coordinator import Coordinator
from riprap.runtime.coordination.director_host import Assignment
from riprap.runtime.coordination.element_states import SystemState, WorkerState
from riprap.runtime.coordination.roster import ElementFenced
from riprap.runtime.wire import Address


@pytest.fixture
def hung():
    return []


@pytest.fixture
def silence():
    return PATIENCE  # who is alive is never taken to hang


@pytest.fixture
def coordinator(tmp_path, hung, silence):
    made = Coordinator(
        tmp_path, LAYOUT, "secret", None, "127.0.0.1", SYSTEM_CLOCK,
        silence=silence, on_hang=lambda pe, epoch, pid: hung.append((pe, epoch, pid)),
    )  # fmt: skip
    made.start()
    yield made
    made.close()


def run_of(coordinator, tmp_path, **options):
    return run_in(tmp_path, coordinator=coordinator.location, heartbeat=0.05, **options)


def status(coordinator, pe):
    return next(line for line in coordinator.table() if line.pe == pe)


def reach(coordinator, pe, state):
    eventually(lambda: status(coordinator, pe).state is state, f"{pe} {state}")


def test_a_kill_is_noticed_and_the_recovery_is_measured(coordinator, tmp_path):
    run = run_of(coordinator, tmp_path)
    with Peer(run, "element", pe="F", attempt=0, location="grpc://a:1") as first:
        assert first.hear()[0] == 1
        assert coordinator.find("F", 0, PATIENCE) == Address("grpc://a:1", 1)
        for state in ("restoring", "running"):
            first.say(state)
        reach(coordinator, "F", WorkerState.RUNNING)
        assert status(coordinator, "F").pid == first.pid
        killed = SYSTEM_CLOCK.monotonic()
        os.kill(first.pid, signal.SIGKILL)
        reach(coordinator, "F", WorkerState.DOWN)
        coordinator.report_killed("F", killed)
        assert coordinator.find("F", 0, 0.0) is None
        (recovery,) = status(coordinator, "F").recoveries
        assert 0 < recovery.detect < SYSTEM_CLOCK.monotonic() - killed
        assert (recovery.restart, recovery.restore, recovery.catch_up) == (None, None, None)
    with Peer(run, "element", pe="F", attempt=1, location="grpc://a:2") as second:
        assert second.hear()[0] == 2
        assert coordinator.find("F", 1, PATIENCE) == Address("grpc://a:2", 2)
        for state in ("restoring", "catching_up", "running"):
            second.say(state)
        reach(coordinator, "F", WorkerState.RUNNING)
        (recovery,) = status(coordinator, "F").recoveries
        whole = recovery.detect + recovery.restart + recovery.restore + recovery.catch_up
        assert 0 < whole < SYSTEM_CLOCK.monotonic() - killed
        assert status(coordinator, "F").restarts == 1
        coordinator.stop()
        assert second.ended() == 0
    reach(coordinator, "F", WorkerState.ENDED)
    assert json.loads((tmp_path / "epochs.json").read_text())["F"] == 2
    states = [event.after for event in coordinator.events if event.pe == "F"]
    assert states == ["restoring", "running", "down", "starting", "restoring", "catching_up", "running", "ended"]


@pytest.mark.parametrize("silence", [2.0])
def test_one_that_hangs_is_found_replaced_and_fenced(coordinator, tmp_path, hung, silence):
    run = run_of(coordinator, tmp_path)
    with Peer(run, "element", pe="G", attempt=0, location="grpc://a:1") as first:
        first.hear()
        first.say("running")
        reach(coordinator, "G", WorkerState.RUNNING)
        os.kill(first.pid, signal.SIGSTOP)
        reach(coordinator, "G", WorkerState.HANGING)
        eventually(lambda: ("G", 1, first.pid) in hung, "the call of on_hang")
        with Peer(run, "element", pe="G", attempt=1, location="grpc://a:2") as second:
            second.hear()
            assert coordinator.find("G", 1, PATIENCE) == Address("grpc://a:2", 2)
            os.kill(first.pid, signal.SIGCONT)
            assert first.hear()[0] == "ElementFenced"
            assert first.ended() == 0
            second.say("running")
            reach(coordinator, "G", WorkerState.RUNNING)
            assert status(coordinator, "G").recoveries[0].detect >= silence


def test_elements_that_never_register_are_to_be_started_again(tmp_path):
    called = []
    coordinator = Coordinator(
        tmp_path, LAYOUT, "secret", None, "127.0.0.1", SYSTEM_CLOCK,
        silence=PATIENCE, start=0.2, on_hang=lambda pe, epoch, pid: called.append((pe, epoch, pid)),
    )  # fmt: skip
    coordinator.start()
    try:
        for pe in LAYOUT.pes:
            eventually(lambda pe=pe: called.count((pe.id, 0, 0)) > 1, f"a second call of on_hang for {pe.id}")
        assert all(not status.connected for status in coordinator.table())
    finally:
        coordinator.close()


@pytest.fixture
def clients(coordinator, tmp_path):
    made = []

    def client(pe, attempt=0, **options):
        made.append(Client(run_of(coordinator, tmp_path, **options), pe, attempt, executor_pid=1))
        return made[-1]

    yield client
    for each in made:
        each.close()


def test_elements_hear_of_each_other(coordinator, clients):
    one, other = clients("F"), clients("G")
    assert one.register() == (1, Assignment(0, newest=True, target=None))
    other.register()
    assert one.find("G", 0, 0.0) is None
    other.announce("grpc://somewhere:1")
    assert one.find("G", 0, PATIENCE) == Address("grpc://somewhere:1", 1)
    assert one.find("G", 1, 0.0) is None
    other.close()
    eventually(lambda: one.find("G", 0, 0.0) is None, "striking out an address")
    assert one.left == {"G"}  # it was there, so it is down and not only starting
    third = clients("S")
    third.register()
    eventually(lambda: third.left == {"G"}, "hearing who had left before")


def test_what_a_life_says_before_it_hears_that_it_goes_back_is_only_a_sign_of_life(coordinator, clients):
    client = clients("F")
    assert client.register().epoch == 1
    client.status(WorkerState.RUNNING)
    reach(coordinator, "F", WorkerState.RUNNING)
    coordinator.go_back("F", Assignment(1, newest=False))
    coordinator.go_back("F", Assignment(2, newest=False))
    coordinator.say("F", {"for": "the life to come"})
    client.announce("grpc://a:1")
    client.status(WorkerState.ENDED)  # of the life that was, and was said too late
    client.beat({"received": 7})
    eventually(lambda: len(client._directed) == 3, "three words")
    (beginning,) = client.directed()  # of the two the newer one: there is no going back to the older line
    assert (beginning.epoch, beginning.assignment.line) == (3, 2)
    client.begin(beginning)
    assert client.directed() == [FromDirector({"for": "the life to come"})]
    client.beat({"received": 8})
    eventually(lambda: status(coordinator, "F").metrics == {"received": 8}, "the sign of life")
    client.check()  # it was not fenced
    assert status(coordinator, "F").state is WorkerState.CATCHING_UP
    assert status(coordinator, "F").epoch == 3
    assert coordinator.find("F", 0, 0.0) is None


def test_an_attempt_that_comes_too_late_is_refused(coordinator, clients):
    clients("F", attempt=3).register()
    with pytest.raises(ElementFenced, match="attempt 2 of F registers after attempt 3"):
        clients("F", attempt=2).register()


def test_strangers_are_refused_and_logged(coordinator, clients, caplog):
    with pytest.raises(CoordinatorLost, match="does not prove that it belongs"):
        clients("F", token="guessed").register()
    assert "the coordinator refused a DO_EXCHANGE call from outside the run: it carried a wrong proof" in caplog.text


def test_an_error_ends_the_run(coordinator, clients):
    failing, other = clients("F"), clients("G")
    failing.register()
    other.register()
    failing.failed("division by zero")
    assert coordinator.wait(PATIENCE)
    assert coordinator.state is SystemState.FAILED
    assert coordinator.error == "F: division by zero"
    eventually(lambda: other.stopping, "the request to end")


def test_the_run_ends_when_every_element_has(coordinator, clients):
    everybody = [clients(pe.id) for pe in LAYOUT.pes]
    for client in everybody:
        client.register()
        client.status(WorkerState.RUNNING)
    eventually(lambda: coordinator.state is SystemState.RUNNING, "running")
    assert not coordinator.wait(0.0)
    for client in everybody:
        client.status(WorkerState.ENDED)
        client.close()
    assert coordinator.wait(PATIENCE)
    assert [event.after for event in coordinator.events if not event.pe] == ["running", "ended"]


def test_a_state_that_cannot_be_ends_the_run(coordinator, clients):
    client = clients("F")
    client.register()
    client.status(WorkerState.RUNNING)
    client.status(WorkerState.RESTORING)
    assert coordinator.wait(PATIENCE)
    assert "F is running and cannot become restoring" in coordinator.error


def test_elements_notice_that_the_coordinator_is_gone(coordinator, clients):
    client = clients("F")
    client.register()
    coordinator.close()

    def lost():
        try:
            client.beat({})
        except CoordinatorLost:
            return True
        return False

    eventually(lost, "noticing")


def test_epochs_rise_over_a_restart_of_the_driver(coordinator, clients, tmp_path):
    assert clients("F").register().epoch == 1
    coordinator.close()
    again = Coordinator(tmp_path, LAYOUT, "secret", None, "127.0.0.1", SYSTEM_CLOCK)
    again.start()
    client = Client(run_of(again, tmp_path), "F", 0, executor_pid=1)
    assert client.register().epoch == 2
    client.close()
    again.close()
