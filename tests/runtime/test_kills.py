"""What `--kill` is read as, and what it says when it cannot be read."""

import signal
import subprocess

import pytest

from riprap.apps.catalogue import load_app
from riprap.base.errors import UsageError
from riprap.runtime.coordination.element_states import WorkerState
from riprap.runtime.coordination.replica_groups import with_kills
from riprap.runtime.coordination.roster import PeStatus
from riprap.runtime.corruption import not_done, parse_corruptions
from riprap.runtime.kills import Kill, Kills, parse_kills, signal_to
from riprap.runtime.layout import arrange

SINGLE = arrange(load_app("bargain-discovery"), "none")
SHARDED = arrange(load_app("bargain-discovery"), "none", {"Aggregator": 2})
FUSED = arrange(load_app("bargain-discovery"), "auto")
SECOND = 1_000_000


def test_kills_come_in_the_order_of_their_times():
    assert parse_kills("driver@30s, Aggregator@1.5s,executor@20s", SINGLE) == (
        Kill(1_500_000, "pe", ("Aggregator",), text="Aggregator@1.5s"),
        Kill(20 * SECOND, "executor", text="executor@20s"),
        Kill(30 * SECOND, "driver", text="driver@30s"),
    )


def test_nothing_to_kill():
    assert parse_kills("", SINGLE) == ()
    assert parse_kills(" , ", SINGLE) == ()
    assert parse_kills(None, SINGLE) == ()


def test_what_is_no_text_is_said():
    """From Python, where nobody has looked at it before."""
    with pytest.raises(UsageError, match="write one text with commas"):
        parse_kills(["Aggregator@1s"], SINGLE)


def test_an_operator_means_all_its_shards_and_a_shard_one():
    [both], [one] = (parse_kills(text, SHARDED) for text in ("Aggregator@1s", "Aggregator/1@1s"))
    assert both[:3] == (SECOND, "pe", ("Aggregator/0", "Aggregator/1"))
    assert one[:3] == (SECOND, "pe", ("Aggregator/1",))


def test_a_fused_operator_means_the_element_that_hosts_it():
    [home] = FUSED.hosting("VWAP")
    assert home.id != "VWAP"
    assert parse_kills("VWAP@1s", FUSED)[0][:3] == (SECOND, "pe", (home.id,))


def test_one_operator_may_be_killed_twice_at_once():
    assert len(parse_kills("VWAP@1s,VWAP@1s,driver@1s", SINGLE)) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("VWAP", "'VWAP': write WHAT@TIME, as in Aggregator@10s"),
        ("@3s", "'@3s': write WHAT@TIME"),
        ("driver@1s,VWAP@soon", "'VWAP@soon': cannot read 'soon' as a duration"),
        ("VWAP@10", "'VWAP@10': cannot read '10' as a duration"),
        ("VWAP@-1s", "'VWAP@-1s': cannot read '-1s' as a duration"),
        ("Agregator@1s", r"no operator or element is called Agregator; .*\(did you mean Aggregator\?\)"),
        ("Aggregator/7@1s", "no operator or element is called Aggregator/7; there are .*, executor, driver"),
    ],
)
def test_mistakes_name_their_part(text, message):
    with pytest.raises(UsageError, match=message):
        parse_kills(text, SINGLE)


def test_a_failover_took_as_long_as_since_the_kill_in_its_replica_whoever_missed_it_first():
    replicas = [{"elements": [f"{name}#{number}" for name in "AB"], "state": "full"} for number in (1, 2)]

    def failed(at, lost):
        return {"at": at, "lost": lost, "seconds": 0.5}

    failovers = [failed(3_000_000, "B#1"), failed(5_000_000, "A#2"), failed(9_000_000, "A#1")]
    report = {"groups": {"g": {"active": 2, "replicas": replicas, "failovers": failovers}}}
    kills = {"A#1": [2_000_000], "B#2": [4_900_000], "A#2": [100]}
    told = with_kills(report, kills)["g"]["failovers"]
    assert [failover["from_kill"] for failover in told] == [1.5, 0.6, None]


class Processes:
    """Elements whose processes are there, or not, and what was done to them."""

    def __init__(self, **states):
        self.states, self.gone, self.killed = states, set(), []

    def table(self):
        return [
            PeStatus(pe, state, 1, 0, "h", number, 99, 0, 0.0, {}, ())
            for number, (pe, state) in enumerate(self.states.items(), 1)
        ]

    def end(self, pid, victims):
        if pid in self.gone:
            return False
        self.killed.append([status.pe for status in victims])
        return True

    def kills(self, text):
        return Kills(parse_kills(text, SINGLE), self.end, lambda: self.killed.append("driver"))


RUNNING, DOWN, ENDED = WorkerState.RUNNING, WorkerState.DOWN, WorkerState.ENDED


def test_kills_are_done_when_they_are_due_and_once():
    processes = Processes(Aggregator=RUNNING, VWAP=RUNNING)
    kills = processes.kills("Aggregator@1s,executor@2s,driver@3s")
    for ran in (0.5, 1.0, 1.5, 2.0, 2.5, 3.0):
        kills.look(ran, processes.table(), {})
    assert processes.killed == [["Aggregator"], ["Aggregator", "VWAP"], "driver"]
    assert kills.not_injected(4.0) == []


@pytest.mark.parametrize("state", [DOWN, WorkerState.STARTING, WorkerState.HANGING])
def test_who_is_down_is_killed_when_it_is_back(state):
    processes = Processes(Aggregator=state)
    kills = processes.kills("Aggregator@1s")
    kills.look(1.0, processes.table(), {})
    [missed] = kills.not_injected(1.1)
    assert missed == {"fault": "kill Aggregator@1s", "why": "Aggregator had no process"}
    processes.states["Aggregator"] = RUNNING
    kills.look(2.0, processes.table(), {})
    assert processes.killed == [["Aggregator"]]
    assert kills.not_injected(3.0) == []


def test_a_process_that_is_gone_before_anybody_noticed_is_no_error():
    processes = Processes(Aggregator=RUNNING)
    processes.gone.add(1)
    kills = processes.kills("Aggregator@1s,executor@1s")
    processes.gone.add(99)
    kills.look(1.0, processes.table(), {})
    assert [missed["why"] for missed in kills.not_injected(1.0)] == [
        "the executor of Aggregator was gone", "Aggregator had no process",
    ]  # fmt: skip
    processes.gone.clear()
    kills.look(1.0, processes.table(), {})
    assert kills.not_injected(1.0) == []


def test_what_has_ended_and_what_is_behind_the_end_is_told():
    processes = Processes(Aggregator=ENDED, VWAP=RUNNING)
    kills = processes.kills("Aggregator@1s,VWAP@900s")
    kills.look(5.0, processes.table(), {})
    assert processes.killed == []
    assert kills.not_injected(5.0) == [
        {"fault": "kill Aggregator@1s", "why": "Aggregator had ended"},
        {"fault": "kill VWAP@900s", "why": "the run was over after 5.0 s"},
    ]


def test_signals_say_whether_somebody_was_there():
    process = subprocess.Popen(["sleep", "600"])
    assert signal_to(process.pid, signal.SIGKILL)
    process.wait()
    assert not signal_to(process.pid, signal.SIGKILL)
    assert not signal_to(0, signal.SIGCONT)  # a group of processes


def test_corruptions_that_did_not_happen_are_told():
    first, second, third = parse_corruptions("VWAP@1s,VWAP@2s,Aggregator@900s", SINGLE)
    done = [{"pe": "VWAP", "operator": "VWAP", "what": first.what, "column": "x", "at": 1}]
    assert not_done([(first, "VWAP")], (), done, 5.0) == []
    nothing = [{**done[0], "column": None}]
    assert [one["why"] for one in not_done([(first, "VWAP")], (), nothing, 5.0)] == [
        "there was nothing in VWAP that could be altered"
    ]
    told = not_done([(first, "VWAP"), (second, "VWAP")], (third,), done, 5.0)
    assert {one["fault"] for one in told} == {"corrupt VWAP@2s", "corrupt Aggregator@900s"}
