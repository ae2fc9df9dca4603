"""A graph is frozen data: it can be pickled, compared, walked and rewritten; feedback is declared."""

import pickle
from dataclasses import FrozenInstanceError, replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.engine.graphs import apps

from riprap.apps.bargain_discovery import build
from riprap.base.errors import GraphError
from riprap.expressions import parse
from riprap.graph.annotations import Annotations, backup, checkpoint, ha_group, persist
from riprap.graph.builder import App
from riprap.graph.order_keys import TIMER
from riprap.graph.partitioning import key_partitioning
from riprap.graph.specs import Functor
from riprap.graph.windows import count, punctuated, time, zero


@settings(max_examples=40)
@given(apps())
def test_pickled_and_compared(graph):
    again = pickle.loads(pickle.dumps(graph))
    assert again == graph
    assert again.order == graph.order
    assert [again.schema(s.source, s.source_port) for s in again.streams] == [
        graph.schema(s.source, s.source_port) for s in graph.streams
    ]
    assert graph != graph.with_operator(replace(graph.operators[0], parallelism=3))


def test_frozen():
    with pytest.raises(FrozenInstanceError):
        build().name = "other"
    with pytest.raises(FrozenInstanceError):
        build()["VWAP"].parallelism = 2


def test_walking():
    graph = build()
    assert graph.upstream("BargainIndex") == ("VWAP", "QuoteFilter")
    assert graph.downstream("TradeQuote") == ("TradeFilter", "QuoteFilter")
    assert graph.reachable("Aggregator") == {"Aggregator", "VWAP", "BargainIndex", "Sink"}
    assert next(iter(graph)).name == "Source"
    assert all(graph.order.index(s.source) < graph.order.index(s.target) for s in graph.streams)
    assert [s.id for s in graph.inputs("BargainIndex")] == ["VWAP→BargainIndex", "QuoteFilter→BargainIndex.1"]
    assert "VWAP" in graph
    assert "Agregator" not in graph
    with pytest.raises(GraphError, match=r"has no operator Agregator; it has Source, .*did you mean Aggregator"):
        graph["Agregator"]


def test_what_the_graph_knows_about_ports():
    graph = build()
    assert graph["Aggregator"].stateful == (True,)
    assert graph["Aggregator"].partition_keys == (("ticker",),)
    assert graph["Aggregator"].windows == (count(5),)
    assert graph["BargainIndex"].stateful == (True, False)
    assert graph["BargainIndex"].windows == (count(1), zero())
    assert graph["VWAP"].stateful == (False,)
    assert [s.partitioning for s in graph.inputs("BargainIndex")] == ["key", "key"]


def test_the_order_key_has_only_the_parts_that_vary():
    app = App("app")
    one, other = app.source("A", "k string, x long"), app.source("B", "k string, x long")
    one.filter("x > 0", name="F")
    one.union(other, name="U")
    one.union(one, name="Twice")
    one.aggregate("count(*) AS n", window=time("1s"), by="k", name="T")
    one.aggregate("count(*) AS n", window=time("1s"), name="T1")
    one.sort("x", window=punctuated(), name="O")
    renamed = other.rename({"x": "y"}, name="R")
    one.join(renamed, on="k", left_window=count(1), right_window=zero(), name="Latest")
    one.join(renamed, on="k", left_window=count(2), right_window=zero(), name="Several")
    graph = app.build()
    columns = {name: [f.name for f in graph.shape(name).fields] for name in graph.order}
    assert columns["F"] == ["_ts", "_seq"]
    assert columns["U"] == ["_ts", "_src", "_seq"]
    assert columns["Twice"] == ["_ts", "_seq", "_n"]
    assert columns["T"] == ["_ts", "_seq", "_n"]
    assert columns["T1"] == ["_ts", "_seq"]
    assert graph.shape("T").src == TIMER
    assert columns["O"] == ["_ts", "_seq", "_n"]
    assert columns["Latest"] == ["_ts", "_seq"]
    assert columns["Several"] == ["_ts", "_seq", "_n"]
    assert graph.physical("T").names == ["k", "n", "_ts", "_seq", "_n"]


def test_an_operator_put_into_a_stream():
    graph = build()
    stream = graph.inputs("BargainIndex")[1]
    tap = Functor(name="Tap", predicate=parse("price > 0"))
    tapped = graph.insert(stream, tap)
    assert len(tapped.operators) == len(graph.operators) + 1
    assert [s.id for s in tapped.inputs("Tap")] == ["QuoteFilter→Tap"]
    assert [s.id for s in tapped.outputs("Tap")] == ["Tap→BargainIndex.1"]
    assert tapped.inputs("BargainIndex")[1].partitioning == "key"
    assert tapped.schema("BargainIndex") == graph.schema("BargainIndex")
    assert graph == build()
    with pytest.raises(GraphError, match=r"has no stream Tap→BargainIndex.1; it has Source→TradeQuote"):
        graph.insert(tapped.outputs("Tap")[0], tap)
    with pytest.raises(GraphError, match=r"operator Tap: .*prise"):
        graph.insert(stream, replace(tap, predicate=parse("prise > 0")))


def test_part_of_a_graph():
    part = build().leading_to("VWAP")
    assert set(part.order) == {"Source", "TradeQuote", "TradeFilter", "Aggregator", "VWAP"}


def looped(schema="k string, x long"):
    app = App("loop")
    source = app.source("S", "k string, x long")
    back = app.feedback("again", schema, delay="10ms")
    merged = source.union(back, name="U")
    step, done = merged.split("x < 10", otherwise=True, name="X")
    step.select("k", "x + 1 AS x", name="Step").feed("again")
    done.sink("Sink")
    return app


def test_feedback_closes_a_cycle():
    graph = looped().build()
    assert graph.cyclic
    (stream,) = [s for s in graph.streams if s.feedback is not None]
    assert stream.id == "Step→U.1"
    assert graph.stream_schema(stream).names == ["k", "x"]
    assert [f.name for f in graph.shape("U").fields] == ["_ts", "_src", "_seq", "_n"]
    assert pickle.loads(pickle.dumps(graph)) == graph
    assert stream.delay == 10_000
    assert key_partitioning(graph).reason == "a tuple on a cycle may meet any other tuple"


def test_feedback_that_does_not_fit_is_told():
    app = App("loop")
    source = app.source("S", "k string")
    source.union(app.feedback("again", "k string", delay="1s"), name="U")
    with pytest.raises(GraphError, match=r"feedback stream again is read but never fed; call stream.feed\('again'\)"):
        app.build()
    with pytest.raises(GraphError, match=r"has no feedback stream agian; it has again .did you mean again"):
        source.feed("agian")
    with pytest.raises(GraphError, match="two feedback streams are called again"):
        app.feedback("again", "k string", delay="1s")
    source.select("k", "1 AS n", name="P").feed("again")
    with pytest.raises(GraphError, match=r"feedback stream P→U.1 carries \(k string, n int32\) but was declared with"):
        app.build()
    with pytest.raises(GraphError, match="fed twice"):
        source.feed("again")


def test_annotations():
    app = App("app")
    protect = [checkpoint(every="2s"), ha_group("g", 3)]
    a, b = app.source("S", "x long", protect=backup()).split("x > 0", otherwise=True, name="X", protect=persist(1))
    a.filter("x > 1", name="F", protect=protect).sink("K")
    b.sink("L")
    graph = app.build()
    assert graph["S"].annotations == Annotations(backup=True)
    assert graph["X"].annotations.persist == {1}
    assert graph["F"].annotations.checkpoint_every == 2_000_000
    assert graph["F"].annotations.ha_group.replicas == 3
    assert graph["F"].annotations.describe() == ["checkpoint every 2s", "HA group g ×3"]
    assert (checkpoint("1s") | checkpoint("3s")).checkpoint_every == 3_000_000


def test_partitioning_of_streams():
    app = App("app")
    small = app.source("Small", "k string, y long")
    keyed = app.source("S", "k string, x long").aggregate(
        "sum(x) AS x", window=count(2), by="k", parallelism=4, name="A"
    )
    joined = keyed.join(small.broadcast(), left_window=zero(), right_window=count(9), per_group=False, on="k", name="J")
    joined.sink("Sink")
    graph = app.build()
    assert [s.partitioning for s in graph.streams] == ["key", "forward", "broadcast", "forward"]


def test_encodings_are_one_type():
    encoded = pa.schema([("k", pa.dictionary(pa.int8(), pa.large_string())), ("t", pa.timestamp("ms"))])
    schema = App("app").source("S", encoded).schema
    assert schema == pa.schema([("k", pa.string()), ("t", pa.timestamp("us", "UTC"))])
