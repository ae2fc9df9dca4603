"""What is predicted of a fault, and how predictions and measurements are held together."""

from dataclasses import replace

import pytest

from riprap.apps.bargain_discovery import build
from riprap.base.quantities import Duration
from riprap.graph.annotations import Annotations
from riprap.planner.topology_files import TaskProfile
from riprap.proof.oracle import SinkVerdict
from riprap.proof.prediction import agreement, paces_at, predictions, rank_correlation
from riprap.proof.schedule import ScheduledFault
from riprap.proof.verdict import FaultResult, judge, results


def graph_with(**annotations):
    graph = build()
    for name, own in annotations.items():
        graph = graph.with_operator(replace(graph[name], annotations=own))
    return graph


def test_the_slowest_of_what_was_hit_by_the_model():
    """A second each, back to the nearest backup or source; an interval of its own where it has one."""
    graph = graph_with(TradeQuote=Annotations(backup=True), Aggregator=Annotations(checkpoint_every=Duration(500_000)))
    hosts = {operator.name: (operator.name,) for operator in graph}
    found = predictions(graph, hosts, set(hosts), restart=Duration(400_000))
    expected = {"Source": 1, "TradeQuote": 2, "TradeFilter": 1, "QuoteFilter": 1, "Aggregator": 1.5, "VWAP": 2.5}
    assert {name: found.recovery[name] for name in expected} == expected
    assert found.recovery["Sink"] == 4.5
    assert found.restart == 0.4
    assert found.of(ScheduledFault(0, "several", ("TradeFilter", "VWAP"), 0, 1.0)) == 2.5
    assert found.of(ScheduledFault(0, "slow", ("VWAP",), 0, 1.0)) is None
    gaps = predictions(graph, hosts, set(hosts) - {"VWAP"})
    assert gaps.of(ScheduledFault(0, "kill", ("VWAP",), 0, 1.0)) is None
    # At twice the recorded rate half of each second is work for a quarter of one; catching up is there once.
    sources = {"Source": TaskProfile(pace=0.25, output=100.0), "TradeFilter": TaskProfile(pace=0.25, output=50.0)}
    paces = paces_at(sources, {"Source": 200.0})
    assert paces == {"Source": 0.5, "TradeFilter": 0.5}
    fast = predictions(graph, hosts, set(hosts), caught_up=Duration(300_000), paces=paces)
    assert (fast.recovery["Source"], fast.recovery["TradeFilter"], fast.recovery["QuoteFilter"]) == (0.8, 0.8, 1.3)
    together = predictions(graph, dict.fromkeys(hosts, ("all",)), {"all"})
    assert together.recovery == {"all": 4.5}


def test_results_have_both():
    graph = build()
    hosts = {operator.name: (operator.name,) for operator in graph}
    schedule = [ScheduledFault(0, "kill", ("TradeFilter",), 0, 1.0), ScheduledFault(5, "kill", ("VWAP",), 0, 1.0)]
    seen = [
        {"what": what, "fault": 0, "at": at} for what, at in (("began", 10.0), ("restored", 10.5), ("running", 12.0))
    ] + [{"what": "began", "fault": 1, "at": 20.0}]
    first, second = results(schedule, seen, predictions(graph, hosts, set(hosts)))
    assert (first.restart, first.caught_up, first.predicted, first.promised) == (0.5, 1.5, 3.0, None)
    assert (second.restart, second.caught_up, second.predicted) == (None, None, 5.0)
    summary = {"pes": {pe: {"delivery": "exactly once"} for pe in hosts}, "sinks": {}}
    proof = judge(graph, {name: hosts[name] for name in hosts}, (first,), {}, summary, bound=None, seed=1)
    assert proof.agreement is not None
    assert proof.agreement.within == 1
    assert proof.as_json()["faults"][0]["predicted"] == {
        "restart": None, "caught_up": 3.0, "latency": None, "effect": None,
    }  # fmt: skip
    assert isinstance(first, FaultResult)


def test_agreement_of_pairs():
    assert agreement([]) is None
    found = agreement([("A", 1.0, 0.5), ("A", 1.0, 0.7), ("B", 2.0, 1.0), ("C", 3.0, 4.0)])
    assert found is not None
    assert (found.faults, found.within) == (4, 3)
    assert found.most == pytest.approx(4 / 3)
    assert found.rmse == pytest.approx(((0.25 + 0.09 + 1 + 1) / 4) ** 0.5)
    assert found.rank == pytest.approx(1.0)


def test_ranks_with_ties():
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    assert rank_correlation([1, 1, 2, 3], [1, 2, 3, 4]) == pytest.approx(0.9486832980505138)  # as scipy has it
    assert rank_correlation([1, 1, 1], [1, 2, 3]) is None
    assert rank_correlation([1, 2], [1, 2]) is None


def test_rows_behind_a_fault_that_nobody_promised_anything_of_may_be_lost():
    graph = build()
    hosts = {operator.name: (operator.name,) for operator in graph}
    pes = {pe: {"delivery": "exactly once"} for pe in hosts}
    summary = {"pes": pes, "streams": {}, "sinks": {"Sink": {"tuples": 9}}}
    sinks = {"Sink": SinkVerdict(10, 9, 1, 0, 0, True)}
    for kind, holds in (("several", False), ("group", True)):
        fault = FaultResult(ScheduledFault(0, kind, ("TradeFilter", "VWAP")), 10.0, 12.0)
        assert judge(graph, hosts, (fault,), sinks, summary, bound=None, seed=1).holds is holds
    never = FaultResult(ScheduledFault(0, "group", ("TradeFilter",)), None, None)
    assert not judge(graph, hosts, (never,), sinks, summary, bound=None, seed=1).holds
