"""Text keys of a loop with several ports: each port has a dictionary of its own, and all share one pool."""

import pyarrow as pa

from riprap.engine import compiling
from riprap.engine.engine import Engine
from riprap.graph.builder import App
from riprap.graph.windows import count, zero


def rows(codes, words, name, first):
    times, numbers = pa.array(range(first, first + len(codes))), pa.array(range(len(codes)))
    keys = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), words)
    return pa.record_batch({"k": keys, name: numbers, "_ts": times.cast(pa.timestamp("us", "UTC")), "_seq": numbers})


def test_a_port_may_bring_strings_that_the_other_one_has_not_seen(monkeypatch):
    """What is looked up by string has room for those that another argument of the same call brings.

    Interpreted, a place that is not there is an error; compiled, it was somebody else's memory.
    """
    monkeypatch.setattr("riprap.engine.piece.COMPILER", compiling.Compiler(compiling.Policy.NEVER))
    app = App("strings")
    left, right = (app.source(name, f"k string not null, {name} long not null") for name in "xy")
    left.join(right, on="k", left_window=count(1), right_window=zero(), name="J").sink("Out")
    many = [f"s{number}" for number in range(3_000)]
    inputs = {"x": rows([0, 1], ["s2998", "s5"], "x", 0), "y": rows([2_999, 2_998, 5], many, "y", 10)}
    outputs = Engine(app.build()).run({name: iter([each]) for name, each in inputs.items()})
    found = [output.event for output in outputs if isinstance(output.event, pa.RecordBatch)]
    assert [row["k"] for batch in found for row in batch.to_pylist()] == ["s2998", "s5"]
    assert [row["y"] for batch in found for row in batch.to_pylist()] == [1, 2]


def test_text_that_is_never_null_does_not_leave_with_nulls(monkeypatch):
    """COALESCE of text is looked up in a table, which cannot tell that nothing in it is null; its type can."""
    monkeypatch.setattr("riprap.engine.piece.COMPILER", compiling.Compiler(compiling.Policy.NEVER))
    app = App("never null")
    stated = app.source("S", "k string, x long").select("coalesce(k, 'ok') AS k", "x", name="Stated")
    stated.filter("k <> 'b'", name="Some").sink("Out")
    graph = app.build()
    times, numbers = pa.array(range(3), pa.timestamp("us", "UTC")), pa.array(range(3))
    texts = pa.array(["a", None, "b"]).dictionary_encode()
    batch = pa.record_batch({"k": texts, "x": numbers, "_ts": times, "_seq": numbers})
    (given,) = Engine(graph, ["S", "Stated"], views=True).push("S", batch)
    found = Engine(graph, ["Some", "Out"]).push("Stated→Some", given.event)
    rows = [row for output in found if isinstance(output.event, pa.RecordBatch) for row in output.event.to_pylist()]
    assert [(row["k"], row["x"]) for row in rows] == [("a", 0), ("ok", 1)]
