"""The verdict of a proof: what copies promise, what is said of corruptions, and what a bound is about."""

import pytest

from riprap.graph.builder import App
from riprap.proof.fault_kinds import KINDS
from riprap.proof.oracle import SinkVerdict
from riprap.proof.schedule import ScheduledFault
from riprap.proof.verdict import FaultResult, judge, results
from riprap.report.prove import proof_report

COPIES = ("Double#1", "Double#2")
HOSTS = {"In": ("In",), "Double": COPIES, "Out": ("Out",)}
RIGHT = SinkVerdict(10, 10, 0, 0, 0, True)
LOST = SinkVerdict(10, 9, 1, 0, 0, True)
WRONG = SinkVerdict(10, 10, 0, 0, 2, True)


def app():
    made = App("double")
    made.source("In", "x long").select("x * 2 AS x", name="Double").sink("Out")
    return made.build()


def summary(*, tainted=0, differences=(), restarts=(), found=10):
    told = {"In": "with gaps", **dict.fromkeys(COPIES, "exactly once, while another copy lives"), "Out": "with gaps"}
    copies = [{"element": pe, "state": "speaking"} for pe in COPIES]
    return {
        "pes": {pe: {"delivery": words, "restarts": int(pe in restarts)} for pe, words in told.items()},
        "streams": {},
        "sinks": {"Out": {"tuples": found}},
        "copies": {"Double": {"copies": copies, "tainted": tainted, "differences": list(differences)}},
        "corruptions": [],
    }


def judged(kind, targets, sink, *, altered=None, bound=None, **told):
    fault = FaultResult(ScheduledFault(5_000_000, kind, targets), 100.0, 101.5, altered=altered)
    return judge(app(), HOSTS, (fault,), {"Out": sink}, summary(found=sink.found, **told), bound=bound, seed=1)


@pytest.mark.parametrize(
    ("targets", "told", "promised"),
    [
        (("Double#1",), {"restarts": ("Double#1",)}, "exactly once"),
        (("Double#1",), {"restarts": ("Double#1",), "tainted": 1}, "with gaps"),
        (("Double#1",), {"restarts": ("Double#1", "In")}, "with gaps"),  # it died of itself
        (("In",), {}, "with gaps"),
    ],
)
def test_one_copy_may_die(targets, told, promised):
    assert judged("kill", targets, RIGHT, **told).promised == {"Out": promised}
    assert judged("kill", targets, LOST, **told).holds is (promised == "with gaps")


def of_group(*failovers, tainted=False, delivery="exactly once, while a full replica lives"):
    """As of a run whose group of two replicas has failed over so often: (to, tainted)."""
    told = summary()
    del told["copies"]
    for pe in COPIES:
        told["pes"][pe]["delivery"] = delivery
    replicas = [{"elements": [pe], "state": "full"} for pe in COPIES]
    gone = [{"to": to, "tainted": tainted} for to, tainted in failovers]
    return told | {"groups": {"g": {"replicas": replicas, "tainted": tainted, "failovers": gone}}}


@pytest.mark.parametrize(
    ("targets", "told", "promised"),
    [
        (("Double#1",), of_group((2, False)), "exactly once"),
        (("Double#1",), of_group((2, True)), "with gaps"),  # the other one had not filled yet
        (("Double#1",), of_group((2, False), (None, False), (1, False)), "with gaps"),  # for a while there was none
        (("Double#1",), of_group((2, False), tainted=True), "with gaps"),
        (("Double#1",), of_group((2, False), delivery="with gaps"), "with gaps"),  # not deterministic, or plain
        (("In", "Double#1"), of_group((2, False)), "with gaps"),
    ],
)
def test_a_group_is_held_to_what_it_promises(targets, told, promised):
    fault = FaultResult(ScheduledFault(5_000_000, "several", targets), 100.0, 101.5)
    proof = judge(app(), HOSTS, (fault,), {"Out": LOST}, told | {"sinks": {"Out": {"tuples": 9}}}, bound=None, seed=1)
    assert proof.promised == {"Out": promised}
    assert proof.holds is (promised == "with gaps")


def test_a_corruption_that_nobody_promised_anything_of_is_told():
    proof = judged("corrupt-tuple", ("In",), WRONG, altered="x")
    assert proof.holds
    assert proof.sentence.endswith("2 rows are lost or wrong; nothing is promised after corrupt-tuple.")
    assert proof.as_json()["faults"][0]["altered"] == "x"
    page = proof_report(proof, output=[(100.2, 5)])
    assert "It altered x." in page
    assert page.rindex(proof.sentence) > page.index("All faults")


def test_rows_that_a_plan_with_gaps_lost_are_told():
    proof = judged("driver", (), LOST)
    assert proof.holds
    assert proof.sentence.endswith("1 row is lost or wrong; the plan does not promise Out exactly once.")
    assert judged("driver", (), RIGHT).sentence.endswith("every promise was kept.")


def test_copies_that_differ_are_found_out():
    assert not judged("corrupt-state", ("Double#2",), WRONG, altered="x").holds
    found_out = judged("corrupt-state", ("Double#2",), WRONG, altered="x", differences=["one", "two"])
    assert found_out.holds
    assert found_out.detected_differences == ("Copies of Double differed in 2 s of event time.",)
    assert found_out.detected_differences[0] in proof_report(found_out)
    assert judged("corrupt-state", ("Double#2",), RIGHT, altered="x").holds  # what nobody gives out is not seen


def test_what_was_altered_is_that_of_the_fault():
    faults = [
        ScheduledFault(0, "corrupt-tuple", ("A",)),
        ScheduledFault(1, "corrupt-state", ("A",)),
        ScheduledFault(2, "corrupt-tuple", ("A",)),
    ]
    began = [{"what": "began", "fault": n, "at": 10.0 * n, "ran": 0.0} for n in range(2)]
    done = [
        {"pe": "B", "what": "tuple", "column": "other", "at": 100_000},
        {"pe": "A", "what": "tuple", "column": "x", "at": 200_000},
        {"pe": "A", "what": "state", "column": None, "at": 10_100_000},
    ]
    found = results(faults, began, corruptions=done)
    assert [result.altered for result in found] == ["x", "", None]
    assert [result.not_injected for result in found] == [
        "", "there was nothing in A that could be altered", "the run was over before it: let it run longer",
    ]  # fmt: skip
    waits = results(faults[:1], began[:1])
    assert waits[0].not_injected.startswith("the run was over before anything arrived")


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_that_was_not_injected_is_no_proof(kind):
    """Of every kind: of one that never began, and of one that began and hit nothing."""
    schedule = [ScheduledFault(0, kind, ("Double#1",)), ScheduledFault(1, kind, ("Double#2",))]
    began = [
        {"what": "began", "fault": 0, "at": 5.0, "ran": 1.0},
        {"what": "running", "fault": 0, "at": 6.0, "ran": 2.0},
    ]
    altered = [{"pe": "Double#1", "what": kind.rpartition("-")[2], "column": "x", "at": 5_500_000}]

    def proven(faults, observations):
        found = results(faults, observations, corruptions=altered)
        return judge(app(), HOSTS, found, {"Out": RIGHT}, summary(), bound=None, seed=1)

    assert proven(schedule[:1], began).holds
    over, hit_nothing = proven(schedule, began), {"what": "not injected", "fault": 0, "why": "X", "at": 5.0, "ran": 1.0}
    assert not over.holds
    assert over.sentence.startswith(f"This is no proof: the fault was not injected: {schedule[1]}: the run was over")
    missed = proven(schedule[:1], [began[0], hit_nothing])
    assert missed.sentence == f"This is no proof: the fault was not injected: {schedule[0]}: X."
    assert missed.as_json()["faults"][0]["not_injected"] == "X"
    assert "Not injected" in proof_report(missed)
    assert not proven(schedule[:1], []).holds


def test_a_promise_that_broke_stands_before_a_fault_that_was_not_injected():
    faults = [
        FaultResult(ScheduledFault(0, "kill", ("In",)), 5.0, None),
        FaultResult(ScheduledFault(0, "kill"), None, None, not_injected="X"),
    ]
    proof = judge(app(), HOSTS, faults, {"Out": RIGHT}, summary(), bound=None, seed=1)
    assert proof.sentence.startswith("This plan does not hold: after kill In")
    assert len(proof.broken) == 2


def test_copies_do_not_survive_the_driver():
    assert judged("driver", (), LOST).promised == {"Out": "with gaps"}


def test_no_bound_is_about_the_driver():
    assert not judged("kill", ("In",), RIGHT, bound=1_000_000).holds
    assert judged("driver", (), RIGHT, bound=1_000_000).holds
    assert judged("kill", ("In",), RIGHT, bound=2_000_000).holds


def test_a_recovery_that_a_killed_driver_cuts_short_is_not_held_to_the_driver():
    """Nor is it compared with what was predicted; what it took before and after counts."""
    schedule = [ScheduledFault(0, "kill", ("In",)), ScheduledFault(1, "driver"), ScheduledFault(2, "kill", ("In",))]
    seen = [
        (0, "began", 100.0),
        (0, "restored", 101.0),
        (1, "began", 104.0),
        (1, "running", 184.0),
        (0, "running", 186.0),
    ]
    seen += [(2, "began", 190.0), (2, "restored", 191.0), (2, "running", 197.0)]
    found = results(schedule, [{"what": what, "fault": fault, "at": at, "ran": 0.0} for fault, what, at in seen])
    assert [result.latency for result in found] == [6.0, 80.0, 7.0]
    assert [result.caught_up for result in found] == [None, None, 6.0]
    assert [result.misses(6_500_000) for result in found] == [False, False, True]


def test_the_page_leads_with_what_the_bound_is_about():
    faults = [
        FaultResult(ScheduledFault(5_000_000, "driver"), 100.0, 156.8),
        FaultResult(ScheduledFault(9_000_000, "all", ("In", *COPIES, "Out")), 160.0, 163.1),
        FaultResult(ScheduledFault(12_000_000, "kill", ("In",)), 170.0, 172.0),
    ]
    proof = judge(app(), HOSTS, faults, {"Out": RIGHT}, summary(), bound=3_000_000, seed=1)
    assert [result.fault.kind for result in proof.worst_first] == ["all", "kill", "driver"]
    page = proof_report(proof, output=[(100.0, 5), (158.0, 5)])
    assert "3.10 s" in page[page.index("slowest recovery") : page.index("slower than predicted")]
    assert '<td class="long">every element</td>' in page
    assert ">00:02:40<" in page  # when it was, as in the logs of that night
    assert "no bound covers that" in page
    assert page.count(KINDS["kill"].holds) == 1
    assert page.count("<tr class=hot>") == 1  # the one that took too long
    assert "runs again: 56.80 s" in page  # its picture goes as far as that
