"""Joins mean what the per-tuple reference says: every pair of windows, keys, per group or over the whole port."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.operators import reference
from tests.operators.reference import Row
from tests.operators.streams import KEY_TYPES, as_events, batch, feeds, run, same
from tests.profiles import examples

from riprap.graph.builder import App
from riprap.graph.windows import Count, Time, Zero
from riprap.operators.build import make_operator
from riprap.operators.contract import Channel
from riprap.testing.checker import check_operator

WINDOWS = {"count": Count, "time": Time, "zero": Zero}
spelled = st.one_of(
    st.tuples(st.just("count"), st.sampled_from([1, 2, 5])),
    st.tuples(st.just("time"), st.sampled_from([1, 3, 10, 50])),
    st.just(("zero",)),
)
PREDICATES = {
    None: None,
    "x < y": lambda p: p["x"] is not None and p["y"] is not None and p["x"] < p["y"],
    "x is not null": lambda p: p["x"] is not None,
}


@st.composite
def cases(draw):
    keys = draw(st.lists(st.sampled_from(KEY_TYPES), max_size=2))
    renamed = draw(st.booleans())
    left = pa.schema([(f"k{j}", type_) for j, type_ in enumerate(keys)] + [("x", pa.int8()), ("s", pa.string())])
    names = [f"r{j}" if renamed else f"k{j}" for j in range(len(keys))]
    right = pa.schema([*zip(names, keys, strict=True), ("y", pa.int8()), ("d", pa.date32())])
    windows = draw(st.tuples(spelled, spelled).filter(lambda pair: pair != (("zero",), ("zero",))))
    per_group = bool(keys) and draw(st.booleans())
    where = draw(st.sampled_from(list(PREDICATES)))
    how = draw(st.sampled_from(["inner", "inner", "left", "right", "full"]))
    app = App("test")
    one_source = left == right and draw(st.booleans())
    first = app.source("L", left)
    if draw(st.booleans()):
        first = first.sort("x", window=Count(2), name="O")  # numbers its outputs
    second = first if one_source else app.source("R", right)
    on = [(f"k{j}", name) for j, name in enumerate(names)]
    joined = first.join(
        second,
        on=on,
        left_window=WINDOWS[windows[0][0]](*windows[0][1:]),
        right_window=WINDOWS[windows[1][0]](*windows[1][1:]),
        per_group=per_group,
        where=where,
        how=how,
        name="J",
    )
    joined.sink("Sink")
    graph = app.build()
    shown = [n for n in right.names if n not in {a for a, b in on if a == b}]
    feed = draw(feeds(graph, "J"))
    options = {"on": on, "windows": windows, "per_group": per_group, "columns": (left.names, shown), "how": how}
    numbered = graph["J"].renumbers(graph.input_shapes("J"))
    return graph, feed, options | {"where": PREDICATES[where], "numbered": numbered}


@examples(70)
@given(cases(), st.randoms(use_true_random=False))
def test_means_what_the_reference_says(case, random):
    graph, feed, options = case
    same(run(graph, "J", feed, random), reference.join(feed.items, **options))


@examples(24)
@given(cases(), st.integers(0, 2**32))
def test_keeps_the_contract(case, seed):
    graph, feed, _ = case
    check_operator(graph, "J", as_events(feed), seed=seed, rounds=4)


def test_digests_of_windows_over_the_whole_port_see_content_and_not_history():
    app = App("test")
    left = app.source("L", "k string, x long")
    right = app.source("R", "k string, y long")
    left.join(right, on="k", left_window=Count(2), right_window=Zero(), per_group=False, name="J").sink("Sink")
    graph = app.build()
    schema, shape = graph.input_schemas("J")[0], graph.input_shapes("J")[0]
    digests = []
    for earlier in (0, 3):
        join = make_operator(graph, "J")
        entries = [("z", j) for j in range(earlier)] + [("a", 10), ("b", 11)]
        rows = [Row((j, 0, j, 0), {"k": k, "x": x}) for j, (k, x) in enumerate(entries)]
        join.process(Channel(0), batch(schema, shape, rows, False))
        digests.append([part.tolist() for part in join.digest()])
    assert digests[0] == digests[1]


def test_as_many_matches_as_arrivals_but_not_one_each():
    """Three arrivals and three matches, all of one of them: the columns of the arrival repeat."""
    app = App("test")
    left = app.source("L", "k string, x long")
    right = app.source("R", "k string, y long")
    left.join(right, on="k", left_window=Count(5), right_window=Zero(), name="J").sink("Sink")
    graph = app.build()
    join = make_operator(graph, "J")
    schemas, shapes = graph.input_schemas("J"), graph.input_shapes("J")
    kept = [Row((i, 0, i, 0), {"k": "a", "x": i}) for i in range(3)]
    join.process(Channel(0), batch(schemas[0], shapes[0], kept, False))
    arrivals = [Row((10 + i, 1, i, 0), {"k": k, "y": i}) for i, k in enumerate("bac")]
    (emission,) = join.process(Channel(1), batch(schemas[1], shapes[1], arrivals, False))
    assert emission.event.column("y").to_pylist() == [1, 1, 1]
    assert emission.event.column("x").to_pylist() == [0, 1, 2]
    assert emission.triggers.tolist() == [1, 1, 1]
