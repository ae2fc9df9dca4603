"""A functor with state variables means what the per-tuple reference says, on its own and in a compiled piece."""

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.graphs import collected
from tests.operators import reference
from tests.operators.streams import KEY_TYPES, as_events, feeds, run, same
from tests.profiles import examples

from riprap.base.errors import DataError
from riprap.engine.engine import Engine
from riprap.graph.builder import App
from riprap.testing.checker import check_operator


def known(*values):
    return all(value is not None for value in values)


def larger(x, y):
    """GREATEST: nulls aside, and NaN above every number."""
    there = [value for value in (x, y) if value is not None]
    return max(there, key=lambda value: (math.isnan(value), value), default=None)


def difference(row):
    return row["x"] - row["last"] if known(row["x"], row["last"]) else None


# Each variable: its name, what it begins with, its update in SQL and in Python.
VARIABLES = [
    ("n", ("0", 0), ("n + 1", lambda row: row["n"] + 1)),
    ("step", ("CAST(NULL AS DOUBLE)", None), ("x - last", difference)),
    ("last", ("0.5", 0.5), ("x", lambda row: row["x"])),
    ("most", ("CAST(NULL AS DOUBLE)", None), ("GREATEST(most, x)", lambda row: larger(row["most"], row["x"]))),
    ("odd", ("FALSE", False), ("n % 2 = 1", lambda row: row["n"] % 2 == 1)),
    ("moment", ("TIMESTAMP '1970-01-01 00:00:00'", 0), ("_ts", lambda row: row["_ts"])),
    ("word", ("'none'", "none"), ("COALESCE(s, word)", lambda r: r["s"] if r["s"] is not None else r["word"])),
]  # fmt: skip
WHERE = {None: lambda row: True, "n % 3 <> 2 AND (x > 0 OR last IS NULL)": lambda row: row["n"] % 3 != 2 and (
    (row["x"] is not None and not row["x"] <= 0) or row["last"] is None)}  # fmt: skip


@st.composite
def cases(draw):
    keys = draw(st.lists(st.sampled_from(KEY_TYPES), max_size=2))
    schema = pa.schema([*((f"k{j}", type_) for j, type_ in enumerate(keys)), ("x", pa.float64()), ("s", pa.string())])
    where = draw(st.sampled_from(list(WHERE)))
    columns = ["n * 2 AS twice", "step", "last", "most", "odd", "moment", "x", "word"]
    by = [f"k{j}" for j in range(len(keys))]
    app = App("test")
    app.source("S", schema).scan(
        *columns, state={name: (first[0], update[0]) for name, first, update in VARIABLES}, by=by, where=where, name="F"
    ).sink("Sink")
    graph = app.build()
    feed = draw(feeds(graph, "F"))
    shown = [("twice", lambda row: row["n"] * 2), *((c, lambda row, c=c: row[c]) for c in columns[1:])]
    options = {
        "by": by,
        "variables": [(name, first[1], update[1]) for name, first, update in VARIABLES],
        "shown": shown,
        "where": WHERE[where],
    }
    return graph, feed, options


def timed(items):
    """Rows that know their time, as expressions do."""
    return [
        (p, reference.Row(i.key, i.values | {"_ts": i.key[0]}) if isinstance(i, reference.Row) else i) for p, i in items
    ]


@examples(60)
@given(cases(), st.randoms(use_true_random=False))
def test_means_what_the_reference_says(case, random):
    graph, feed, options = case
    same(run(graph, "F", feed, random), reference.scan(timed(feed.items), **options))


@examples(28)
@given(cases(), st.integers(0, 2**32))
def test_keeps_the_contract(case, seed):
    graph, feed, _ = case
    check_operator(graph, "F", as_events(feed), seed=seed, rounds=4)


@examples(28)
@given(cases())
def test_a_piece_does_what_the_operator_does(case):
    graph, feed, _ = case
    whole, apart = Engine(graph), Engine(graph, cut_everywhere=True)
    assert [piece.operators for piece in whole.pieces] == [("S", "F", "Sink")]
    for event in as_events(feed)[0]:
        left, right = whole.push("S", event), apart.push("S", event)
        assert collected(graph, left) == collected(graph, right)
        assert repr(whole.digests()) == repr(apart.digests())
        assert whole.operators["F"].version == apart.operators["F"].version


@pytest.mark.parametrize(
    ("update", "alone"),
    [
        ("s", False),
        ("upper(s)", False),
        ("CASE WHEN x > 1 THEN lower(s) ELSE word END", False),
        ("CASE WHEN x > 1 THEN upper(word) ELSE s END", True),  # of text that the row before may have made
        ("concat(word, 'a')", True),
    ],
)
def test_text_that_is_kept(update, alone):
    """A row sees what one just before it left, also where that is text which no row had before this call."""
    app = App("test")
    state = {"before": ("''", "word"), "word": ("'none'", update)}
    app.source("S", "s string, x double").scan(state=state, name="F").sink("Sink")
    graph = app.build()
    engines = [Engine(graph), Engine(graph, cut_everywhere=True)]
    assert [piece.operators for piece in engines[0].pieces if "F" in piece.operators] == [
        ("F",) if alone else ("S", "F", "Sink")
    ]
    for start in range(0, 12, 4):
        rows = range(start, start + 4)
        times, words = pa.array(rows, pa.timestamp("us", "UTC")), [f"Wörd{j // 2}" if j % 5 else None for j in rows]
        batch = pa.record_batch({"s": words, "x": [float(j % 3) for j in rows], "_ts": times, "_seq": list(rows)})
        left, right = (collected(graph, engine.push("S", batch)) for engine in engines)
        assert left == right
        assert repr(engines[0].digests()) == repr(engines[1].digests())


def test_all_columns_and_variables_are_given_where_none_are_named():
    app = App("test")
    stream = app.source("S", "k string, x long").scan(state={"total": ("0", "total + x")}, by="k", name="F")
    assert stream.columns == ["k", "x", "total"]
    stream.sink("Sink")
    graph = app.build()
    assert graph["F"].describe() == "total := total + x by k"
    times = pa.array([1, 2, 3], pa.timestamp("us", "UTC"))
    batch = pa.record_batch({"k": ["a", "b", "a"], "x": [2**62, 1, 2**62], "_ts": times, "_seq": [0, 1, 2]})
    for options in ({}, {"cut_everywhere": True}):
        with pytest.raises(DataError, match="does not fit 64 bits"):
            Engine(graph, **options).push("S", batch)
