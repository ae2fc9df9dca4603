"""Aggregates mean what the per-tuple reference says, for every kind of window and however the stream is cut."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.operators import reference
from tests.operators.reference import Mark, Overflow, Row
from tests.operators.streams import KEY_TYPES, Feed, as_events, feeds, run, same
from tests.profiles import examples

from riprap.base.errors import DataError
from riprap.graph.builder import App
from riprap.graph.windows import Count, Punctuated, Session, Time
from riprap.testing.checker import check_operator

SPELLED = {"count": Count, "time": Time, "punctuated": lambda: Punctuated(), "session": Session}


def window(spelled):
    return SPELLED[spelled[0]](*spelled[1:])


counts = st.tuples(st.just("count"), st.sampled_from([1, 2, 3, 5, 64]))
times = st.tuples(st.just("time"), st.sampled_from([1, 2, 5, 10, 100]))


@st.composite
def windows(draw):
    kind = draw(st.integers(0, 5))
    if kind == 5:
        return (("session", draw(st.sampled_from([1, 2, 5, 10, 100]))),) * 2
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
    functions = ["sum", "count", "avg", "min", "max", "first", "last", "count distinct"]
    functions += ["percentile 0.9", "percentile 0.5", "percentile 0", "percentile 1"]
    calls = [("n", "count(*)", None)]
    for j, (function, name) in enumerate(
        draw(st.lists(st.tuples(st.sampled_from(functions), st.sampled_from(["x", "i"])), max_size=4))
    ):
        calls.append((f"c{j}", function, name))
    if keys and draw(st.booleans()):
        calls.append(("l", draw(st.sampled_from(["first", "last", "count distinct"])), "k0"))
    partial = draw(st.booleans()) or size[0] != "count" or every[0] != "count"
    by = [f"k{j}" for j in range(len(keys))]
    app = App("test")
    text = [f"{written(f, c)} AS {n}" for n, f, c in calls]
    stream = app.source("S", schema).aggregate(
        *text, window=window(size), every=window(every), by=by, partial=partial, name="A"
    )
    stream.sink("Sink")
    graph = app.build()
    feed = draw(feeds(graph, "A"))
    return graph, feed, {"calls": calls, "window": size, "every": every, "by": by, "partial": partial}


def written(function, column):
    match function.split():
        case ["count(*)"]:
            return "count(*)"
        case ["count", "distinct"]:
            return f"count(DISTINCT {column})"
        case ["percentile", "0.5"]:
            return f"median({column})"
        case ["percentile", share]:
            return f"percentile({column}, {share})"
    return f"{function}({column})"


def together(out, by):
    """Groups that speak together come in the order of a hash: check that it orders and names them, then forget it."""
    number_of = {}
    result, trigger, last = [], None, -1
    for port, item in out:
        if isinstance(item, Row) and item.key[3] is not None:
            if item.key[:3] != trigger:
                trigger, last = item.key[:3], -1
            assert item.key[3] > last
            last = item.key[3]
            assert number_of.setdefault(reference.group_key(item, by), last) == last
        key = (*item.key[:3], None)
        # Of keys that are equal but look different, -0.0 and 0.0, any may be shown.
        shown = {name: reference.canonical(item.values[name]) for name in by} if isinstance(item, Row) else {}
        result.append((port, Row(key, item.values | shown) if isinstance(item, Row) else Mark(key)))
    return sorted(result, key=lambda entry: (entry[1].key[:3], isinstance(entry[1], Mark), repr(entry[1])))


@examples(90)
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
    if options["every"][0] != "count":
        found, expected = together(found, options["by"]), together(expected, options["by"])
    same(found, expected)


@examples(24)
@given(cases(), st.integers(0, 2**32))
def test_keeps_the_contract(case, seed):
    graph, feed, options = case
    try:
        reference.aggregate(feed.items, **options)
    except Overflow:
        return
    check_operator(graph, "A", as_events(feed), seed=seed, rounds=4)


@pytest.mark.parametrize("size", [Count(3), Time(7), Punctuated(), Session(5)], ids=str)
@pytest.mark.parametrize("every", [None, Count(2), Time(5)], ids=str)
def test_every_kind_of_window_keeps_the_contract(size, every):
    """Enough tuples that every kind of state is saved and restored: spoken and waiting groups, groups between turns."""
    if isinstance(size, Punctuated | Session) and every is not None:
        return
    app = App("test")
    stream = app.source("S", "k string, x double")
    stream.aggregate("sum(x) AS s", "last(k) AS l", window=size, every=every, by="k", name="A").sink("Sink")
    graph = app.build()
    feed = Feed(list(graph.input_schemas("A")), list(graph.input_shapes("A")))
    for j in range(60):
        feed.items.append((0, Row((j * 2, 0, j, 0), {"k": "abc"[j * j % 7 % 3], "x": j / 3})))
        if j % 13 == 12:
            feed.items.append((0, Mark((j * 2, 0, j, 0))))
    check_operator(graph, "A", as_events(feed), rounds=30)


CALLS = [
    "stddev(x)", "var_pop(x)", "skewness(x)", "kurtosis(i)", "covar_samp(x, i)", "corr(x, i)", "max_by(k, x)",
    "min_by(x, k)", "max(k)", "min(k)", "first(k, true)", "last(x) IGNORE NULLS", "collect_list(k)", "collect_set(x)",
    "percentile_approx(x, 0.4)", "mode(k)", "mode(x)", "bit_xor(i)", "bit_and(i)", "any_value(i)", "count_if(i > 0)",
    "every(i > 0)", "some(x = 1)", "first(k) FILTER (WHERE i > 0)", "sum(x) FILTER (WHERE k > 'a')", "stddev(i)",
]  # fmt: skip


@pytest.mark.parametrize("size", [Count(3), Count(64), Time(7), Punctuated(), Session(5)], ids=str)
@pytest.mark.parametrize("every", [None, Count(2), Time(5)], ids=str)
def test_every_function_keeps_the_contract(size, every):
    if isinstance(size, Punctuated | Session) and every is not None:
        return
    app = App("test")
    calls = [f"{call} AS c{place}" for place, call in enumerate(CALLS)]
    if (isinstance(size, Time) and not isinstance(every, Count)) or isinstance(size, Session):
        calls += ["window_start() AS since", "window_end() AS until"]
    stream = app.source("S", "k string, x double, i long").aggregate(*calls, window=size, every=every, by="k", name="A")
    stream.sink("Sink")
    check_operator(app.build(), "A", rounds=6)
