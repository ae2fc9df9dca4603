"""Verdicts from numbers that were made up: what each sink calls for, and which of them decides."""

import numpy as np
import pytest

from riprap.apps import bargain_discovery
from riprap.base.quantities import Duration
from riprap.faults.campaign_summary import Metrics, OutageSummary, TargetSummary
from riprap.faults.models import PLANNED
from riprap.faults.operator_advice import checkpointed, deciding, unprotected, verdicts
from riprap.faults.protected import proposed_plan
from riprap.faults.targets import placements
from riprap.graph.builder import App
from riprap.graph.windows import count, zero

FAILOVER = Duration(2_000_000)


def two_sinks():
    app = App("two")
    sums = app.source("S", "k string, x double").aggregate("sum(x) AS x", window=count(5), by="k", name="Sums")
    sums.filter("x > 0", name="A").sink("One")
    sums.filter("x < 0", name="B").sink("Two")
    return app.build()


def summary(target, sink, R, I, covered=2.0, outcome="kept"):  # noqa: E741
    metrics = Metrics(0.0, (0.0, "A"), R, I)
    outage = OutageSummary(Duration(4_000_000), "peak", 100, np.ones(1), np.ones((1, 1)), R, I)
    return TargetSummary(
        target, outcome, sink, metrics, metrics, [outage], [np.zeros(1)], [R], [I], None, covered, 0, True
    )


@pytest.mark.parametrize("order", [1, -1])
def test_a_sink_that_stays_wrong_decides_though_another_is_more_wrong(order):
    graph = two_sinks()
    given = [summary("Sums", "One", R=1, I=2.9), summary("Sums", "Two", R=11, I=0.4)][::order]
    found = verdicts(graph, placements(graph, "loss", ["One", "Two"]), given, FAILOVER)["Sums"]
    assert found.advice != "restart"
    assert "Two" in found.sentence
    assert "11 sections" in found.sentence
    assert deciding(given)["Sums"].sink == "Two"


def test_among_sinks_that_call_for_the_same_the_most_wrong_is_told():
    given = [summary("Sums", "One", R=30, I=80.0), summary("Sums", "Two", R=40, I=20.0)]
    assert deciding(given)["Sums"].sink == "One"


def test_all_sinks_right_again_at_once_is_a_restart():
    graph = two_sinks()
    given = [summary("Sums", "One", R=2, I=2.0), summary("Sums", "Two", R=3, I=0.1)]
    assert verdicts(graph, placements(graph, "loss", ["One", "Two"]), given, FAILOVER)["Sums"].advice == "restart"


def test_an_operator_that_was_a_target_is_not_grouped_for_what_it_is_like():
    app = App("like")
    made = app.source("S", "k string, x double").filter("x > 0", name="F")
    made.aggregate("sum(x) AS x", window=count(5), by="k", name="Sums").sink("Out")
    graph = app.build()
    placed = placements(graph, "loss", ["Out"])
    assert {p.operator: p.like for p in placed}["Sums"] == "S"
    given = [summary("S", "Out", R=40, I=80.0), summary("Sums", "Out", R=2, I=1.0)]
    assert "Sums" not in verdicts(graph, placed, given, FAILOVER)["S"].group


PUBLISHED = {  # R and I of table 4.2; an outage of 16 s at the peak covers 7 sections
    "Source": (340, 21.23), "TradeFilter": (340, 48.70), "VWAP": (73, 30.87), "BargainIndex": (43, 7.89),
    "QuoteFilter": (6, 6.00),
}  # fmt: skip


def test_the_published_numbers_give_the_published_deployment():
    """Two groups, {Source, TradeQuote} and {TradeFilter, Aggregator, VWAP}; QuoteFilter is restarted."""
    graph = bargain_discovery.build()
    placed = placements(graph, "loss", ["Sink"])
    given = [summary(name, "Sink", R=r, I=i, covered=7.04) for name, (r, i) in PUBLISHED.items()]
    found = verdicts(graph, placed, given, FAILOVER)
    assert {name: verdict.advice for name, verdict in found.items()} == {
        "Source": "replicate", "TradeFilter": "replicate", "VWAP": "replicate", "BargainIndex": "checkpoint",
        "QuoteFilter": "restart",
    }  # fmt: skip
    plan = proposed_plan(graph, found)
    groups = {}
    for name, annotations in plan.operators.items():
        if annotations.ha_group is not None:
            groups.setdefault(annotations.ha_group.name, set()).add(name)
    assert sorted(groups.values(), key=len) == [{"Source", "TradeQuote"}, {"TradeFilter", "Aggregator", "VWAP"}]
    assert plan.operators["BargainIndex"].checkpoint_every is not None


def lookup():
    app = App("look-up")
    bids, items = (app.source(name, "k string, x double") for name in ("Bids", "Items"))
    named = items.rename({"x": "price"}, name="Priced")
    bids.join(named, on="k", left_window=zero(), right_window=count(1), name="Join").sink("Out")
    return app.build()


def advised(target, **by_state):
    """The advice for an operator with these R and I without state and with a checkpoint; silence costs 8."""
    given = [summary(target, "Out", R=r, I=i, covered=8.0, outcome=state.replace("checkpoint", "checkpoint(1s)"))
             for state, (r, i) in by_state.items()]  # fmt: skip
    return verdicts(lookup(), placements(lookup(), "loss", ["Out"], PLANNED), given, FAILOVER)[target]


def test_a_restart_without_state_decides_and_a_checkpoint_where_that_suffices():
    spared = advised("Join", lost=(90, 98.0), checkpoint=(8, 8.0))
    assert spared.advice == "checkpoint"
    assert "I = 98.00" in spared.sentence
    assert "with a checkpoint(1s) it leaves R = 8, I = 8.00" in spared.sentence
    assert advised("Join", lost=(8, 8.0), checkpoint=(8, 8.0)).advice == "restart"
    assert advised("Join", lost=(90, 98.0), checkpoint=(60, 40.0)).advice == "replicate", "still worse than silence"
    assert advised("Join", lost=(20, 15.0), checkpoint=(20, 14.9)).advice == "replicate", "it saves nothing"
    assert advised("Join", lost=(20, 15.0), checkpoint=(9, 14.9)).advice == "checkpoint", "it is right sooner"


def test_a_fail_over_is_no_failure_without_protection():
    given = [
        summary("Join", "Out", R=2, I=2.0, outcome="lost"),
        summary("Join", "Out", R=99, I=99.0, outcome="fail-over"),
    ]
    assert [s.outcome for s in unprotected(given)] == ["lost"]
    assert not checkpointed([summary("Join", "Out", R=2, I=2.0, outcome="checkpoint(2s)")]), "the only state asked for"


def test_a_source_that_is_read_again_is_not_replicated_and_what_is_like_it_is():
    graph = bargain_discovery.build()
    placed = placements(graph, "loss", ["Sink"])
    given = [summary(name, "Sink", R=r, I=i, covered=7.04) for name, (r, i) in PUBLISHED.items()]
    found = verdicts(graph, placed, given, FAILOVER, replayed=frozenset(["Source"]))
    assert found["Source"].advice == "restart"
    assert "read on from where it stopped" in found["Source"].sentence
    assert found["TradeQuote"].advice == "replicate"
    assert "make Source a backup" in found["TradeQuote"].sentence
    assert "Source" not in {name for verdict in found.values() for name in verdict.group}


def test_altered_values_call_for_comparison_or_for_nothing():
    graph = bargain_discovery.build()
    placed = placements(graph, "sdc", ["Sink"])
    given = [summary("VWAP", "Sink", R=4, I=90.0), summary("Source", "Sink", R=0, I=0.0)]
    found = verdicts(graph, placed, given, FAILOVER, altered=True)
    assert {name: verdict.advice for name, verdict in found.items()} == {"VWAP": "compare", "Source": "nothing"}
    assert "4 sections of the output at Sink" in found["VWAP"].sentence
    plan = proposed_plan(graph, found)
    assert all(operator.ha_group is None and operator.checkpoint_every is None for operator in plan.operators.values())


def test_nobody_without_state_is_told_to_checkpoint():
    graph = bargain_discovery.build()
    placed = placements(graph, "loss", ["Sink"])
    for R, I in ((9, 4.0), (40, 12.0), (400, 90.0)):  # noqa: E741
        given = [summary(spec.name, "Sink", R=R, I=I, covered=5.0) for spec in graph if spec.kind != "sink"]
        for name, verdict in verdicts(graph, placed, given, FAILOVER).items():
            assert verdict.advice != "checkpoint" or any(graph[name].stateful)
    words = verdicts(graph, placed, [summary("QuoteFilter", "Sink", R=9, I=4.0, covered=5.0)], FAILOVER)
    assert "no state to checkpoint" in words["QuoteFilter"].sentence
    assert "make TradeQuote a backup" in words["QuoteFilter"].sentence
