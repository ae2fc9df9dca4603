"""Placement rules on Bargain Discovery and on what they say about other faults."""

import pytest

from riprap.apps import bargain_discovery
from riprap.base.errors import UsageError
from riprap.faults.models import parse_state
from riprap.faults.targets import chosen_targets, placements
from riprap.graph.builder import App
from riprap.graph.windows import count

GRAPH = bargain_discovery.build()


def test_the_published_targets():
    published = ["Source", "TradeFilter", "QuoteFilter", "VWAP", "BargainIndex"]
    assert sorted(chosen_targets(GRAPH, "auto", "loss", ["Sink"])) == sorted(published)


def test_what_is_not_chosen_behaves_like_its_upstream():
    like = {p.operator: p.like for p in placements(GRAPH, "loss", ["Sink"]) if not p.chosen}
    assert like == {"TradeQuote": "Source", "Aggregator": "TradeFilter"}


def test_only_operators_with_several_inputs_notice_a_reorder():
    assert chosen_targets(GRAPH, "auto", "reorder", ["Sink"]) == ["BargainIndex"]


def test_wrong_values_also_behind_new_attributes():
    app = App("values")
    made = app.source("S", "k string, x double").select("k", "x * 2 AS y", name="Double")
    made.filter("y > 1", name="Filter").aggregate("sum(y) AS y", window=count(2), by="k", name="Sums").sink("Out")
    graph = app.build()
    assert chosen_targets(graph, "auto", "loss", ["Out"]) == ["S"]
    assert chosen_targets(graph, "auto", "corrupt", ["Out"]) == ["S", "Filter"]


def test_only_paths_to_the_assessed_sink():
    app = App("two")
    source = app.source("S", "k string, x double")
    source.filter("x > 1", name="A").sink("One")
    source.filter("x > 2", name="B").sink("Two")
    graph = app.build()
    assert chosen_targets(graph, "auto", "loss", ["One"]) == ["S", "A"]
    with pytest.raises(UsageError, match="B cannot be a target"):
        chosen_targets(graph, "B", "loss", ["One"])


@pytest.mark.parametrize(("text", "words"), [("Nope", "Nope cannot be a target"), ("", "no targets")])
def test_bad_targets_get_a_sentence(text, words):
    with pytest.raises(UsageError, match=words):
        chosen_targets(GRAPH, text, "loss", ["Sink"])


@pytest.mark.parametrize("state", ["lost", "checkpoint(2s)"])
def test_an_operator_that_can_lose_state_behaves_like_nobody(state):
    found = {p.operator: p for p in placements(GRAPH, "loss", ["Sink"], parse_state(state))}
    assert found["Aggregator"].chosen, "TradeFilter in front of it has no state to lose"
    assert found["TradeQuote"].like == "Source", "neither of the two has state"


def test_a_union_in_front_does_not_speak_for_the_state_behind_it():
    app = App("activity")
    left, right = (app.source(name, "k string, x double") for name in ("Left", "Right"))
    counted = left.union(right, name="Both").aggregate("count(*) AS n", window=count(50), by="k", name="Activity")
    counted.sink("Out")
    graph = app.build()
    assert chosen_targets(graph, "auto", "loss", ["Out"]) == ["Left", "Right", "Both"]
    assert chosen_targets(graph, "auto", "loss", ["Out"], parse_state("lost")) == ["Left", "Right", "Both", "Activity"]
