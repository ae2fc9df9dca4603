"""Aggregates mean what the per-tuple reference says, for every kind of window and however the stream is cut."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.base.errors import DataError
from riprap.graph.aggregates import apply
from riprap.graph.builder import App
from riprap.graph.windows import Count, Punctuated, Time
from riprap.operators.checker import check_operator
from tests.operators import reference
from tests.operators.reference import Mark, Overflow, Row
from tests.operators.streams import KEY_TYPES, Feed, batch, feeds, run, same, values

SPELLED = {"count": Count, "time": Time, "punctuated": lambda: Punctuated()}


def window(spelled):
    return SPELLED[spelled[0]](*spelled[1:])


counts = st.tuples(st.just("count"), st.sampled_from([1, 2, 3, 5, 64]))
times = st.tuples(st.just("time"), st.sampled_from([1, 2, 5, 10, 100]))


@st.composite
def windows(draw):
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return ("punctuated",), ("punctuated",)
    size, every = draw(counts if kind in (1, 3) else times), draw(counts if kind in (1, 2) else times)
    if draw(st.integers(0, 3)) == 0:
        return size, size
    if kind == 4 and every[1] > size[1]:
        size, every = every, size
    return size, every


@st.composite
def cases(draw):
    size, every = draw(windows())
    keys = draw(st.lists(st.sampled_from(KEY_TYPES), max_size=2))
    schema = pa.schema([(f"k{j}", type_) for j, type_ in enumerate(keys)] + [("x", pa.float64()), ("i", pa.int64())])
    functions = ["sum", "count", "avg", "min", "max", "first", "last"]
    calls = [("n", "count(*)", None)]
    for j, (function, name) in enumerate(
        draw(st.lists(st.tuples(st.sampled_from(functions), st.sampled_from(["x", "i"])), max_size=4))
    ):
        calls.append((f"c{j}", function, name))
    if keys and draw(st.booleans()):
        calls.append(("l", draw(st.sampled_from(["first", "last"])), "k0"))
    partial = draw(st.booleans()) or size[0] != "count" or every[0] != "count"
    by = [f"k{j}" for j in range(len(keys))]
    app = App("test")
    text = [f"count(*) AS {n}" if f == "count(*)" else f"{f}({c}) AS {n}" for n, f, c in calls]
    stream = app.source("S", schema).aggregate(
        *text, window=window(size), every=window(every), by=by, partial=partial, name="A"
    )
    stream.sink("Sink")
    graph = app.build()
    feed = draw(feeds(graph, "A"))
    return graph, feed, {"calls": calls, "window": size, "every": every, "by": by, "partial": partial}


def unnumbered(out, together):
    """Groups that speak together come in the order of a hash; forget it, but check that it orders and names them."""
    number_of = {}
    result, trigger, last = [], None, -1
    for port, item in out:
        if isinstance(item, Row) and together:
            if item.key[:3] != trigger:
                trigger, last = item.key[:3], -1
            assert item.key[3] > last
            last = item.key[3]
            group = reference.group_key(item, together)
            assert number_of.setdefault(group, last) == last
            item = Row((*item.key[:3], None), item.values)
        elif isinstance(item, Mark) and together:
            item = Mark((*item.key[:3], None))
        result.append((port, item))
    return result


def in_any_order(out):
    def rank(entry):
        port, item = entry
        return (item.key[:3], isinstance(item, Mark), repr(sorted(item.values.items())) if isinstance(item, Row) else "")

    return sorted(out, key=rank)


@settings(max_examples=250)
@given(cases(), st.randoms(use_true_random=False))
def test_means_what_the_reference_says(case, random):
    graph, feed, options = case
    try:
        expected = reference.aggregate(feed.items, **options)
    except Overflow:
        with pytest.raises(DataError, match="A: c"):
            run(graph, "A", feed, random)
        return
    found = run(graph, "A", feed, random)
    if options["every"][0] == "count":
        same(found, expected)
        return
    together = options["by"]
    if not together:
        expected = [(p, Row((*i.key[:3], 0), i.values) if isinstance(i, Row) else i) for p, i in expected]
        if options["window"][0] == "punctuated":  # numbered like the others: by the hash of nothing
            found, expected = unnumbered(found, ["n"][:0]), expected
    for name in together:  # the value shown for a key is one of its equal values
        for _, item in [*found, *expected]:
            if isinstance(item, Row) and item.values[name] == 0.0:
                item.values[name] = abs(item.values[name]) if isinstance(item.values[name], float) else item.values[name]
    same(in_any_order(unnumbered(found, together)), in_any_order(unnumbered_marks(expected, together)))


def unnumbered_marks(out, together):
    return [(p, Mark((*i.key[:3], None)) if isinstance(i, Mark) and together else i) for p, i in out]
