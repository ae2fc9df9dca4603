"""Duplicates, joins with tables and joins at expiry mean what the per-tuple reference says, and keep the contract."""

import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.operators import relational_reference
from tests.operators.reference import Row
from tests.operators.streams import KEY_TYPES, as_events, batch, column, feeds, run, same, values
from tests.profiles import examples

from riprap.base.errors import DataError, GraphError
from riprap.graph import static_table
from riprap.graph.builder import App
from riprap.graph.windows import Count, Time, count, session_window, sliding, time, tumbling
from riprap.operators.build import make_operator
from riprap.operators.contract import Channel
from riprap.testing.checker import check_operator

PREDICATES = {
    None: None,
    "x < y": lambda p: p["x"] is not None and p["y"] is not None and p["x"] < p["y"],
    "y is null or x is not null": lambda p: p["y"] is None or p["x"] is not None,
}


def keyed(draw, most=2, least=0):
    keys = draw(st.lists(st.sampled_from(KEY_TYPES), min_size=least, max_size=most))
    return pa.schema([(f"k{j}", type_) for j, type_ in enumerate(keys)] + [("x", pa.int8()), ("s", pa.string())])


@st.composite
def duplicates(draw):
    schema = keyed(draw, least=1)
    by = draw(st.sampled_from([["k0"], schema.names[:-2], schema.names]))
    within = draw(st.sampled_from([None, 1, 5, 40]))
    app = App("test")
    stream = app.source("S", schema)
    spelled = {} if within is None else {"within": f"{within}us"}
    stream.drop_duplicates(*([] if by == schema.names else by), **spelled, name="D").sink("Sink")
    graph = app.build()
    return graph, draw(feeds(graph, "D")), {"by": by, "within": within}


@examples(25)
@given(duplicates(), st.randoms(use_true_random=False), st.integers(0, 2**32))
def test_the_first_of_each_key_passes(case, random, seed):
    graph, feed, options = case
    same(run(graph, "D", feed, random), relational_reference.drop_duplicates(feed.items, **options))
    check_operator(graph, "D", as_events(feed), seed=seed, rounds=2)


def test_keys_are_forgotten():
    app = App("test")
    app.source("S", "k long").drop_duplicates("k", within="10us", name="D").sink("Sink")
    graph = app.build()
    operator = make_operator(graph, "D")
    for start in range(0, 300_000, 1000):
        rows = [Row((ts, 0, ts, 0), {"k": ts}) for ts in range(start, start + 1000)]
        operator.process(Channel(0), batch(graph.input_schemas("D")[0], graph.input_shapes("D")[0], rows, False))
    assert operator.size() == 10
    assert operator.groups.count < 200_000  # of 300,000: old ones are dropped


@st.composite
def table_joins(draw):
    schema = keyed(draw)
    keys = schema.names[:-2]
    same_name = draw(st.booleans())
    names = [name if same_name else f"r{name}" for name in keys]
    columns = pa.schema([*((n, schema.field(k).type) for n, k in zip(names, keys, strict=True)), ("y", pa.int8())])
    rows = draw(st.lists(values(columns), min_size=1, max_size=8))
    arrays = [column(f.name, f.type, [row[f.name] for row in rows], False) for f in columns]
    app = App("test")
    table = app.table(pa.Table.from_arrays(arrays, schema=columns), name="T")
    how = draw(st.sampled_from(["inner", "left", "left_semi", "left_anti"]))
    where = draw(st.sampled_from(list(PREDICATES)))
    stream = app.source("S", schema)
    if draw(st.booleans()):
        stream = stream.sort("x", window=Count(2), name="O")
    on = list(zip(keys, names, strict=True))
    stream.join_table(table, on=on, how=how, where=where, name="J").sink("Sink")
    graph = app.build()
    options = {"table": rows, "on": on, "how": how, "where": PREDICATES[where], "numbered": graph["J"].several}
    return graph, draw(feeds(graph, "J", most=20)), options


@examples(25)
@given(table_joins(), st.randoms(use_true_random=False), st.integers(0, 2**32))
def test_each_tuple_meets_the_rows_of_a_table(case, random, seed):
    graph, feed, options = case
    same(run(graph, "J", feed, random), relational_reference.join_table(feed.items, **options))
    check_operator(graph, "J", as_events(feed), seed=seed, rounds=2)


@st.composite
def expiring(draw):
    keys = draw(st.lists(st.sampled_from(KEY_TYPES), min_size=1, max_size=2))
    renamed = draw(st.booleans())
    left = pa.schema([(f"k{j}", type_) for j, type_ in enumerate(keys)] + [("x", pa.int8()), ("s", pa.string())])
    names = [f"r{j}" if renamed else f"k{j}" for j in range(len(keys))]
    right = pa.schema([*zip(names, keys, strict=True), ("y", pa.int8()), ("d", pa.date32())])
    sizes = draw(st.tuples(*[st.sampled_from([1, 3, 10, 50])] * 2))
    how = draw(st.sampled_from(["left", "right", "full", "left_semi", "left_anti"]))
    where = draw(st.sampled_from(list(PREDICATES)))
    app = App("test")
    first, second = app.source("L", left), app.source("R", right)
    if draw(st.booleans()):
        first = first.sort("x", window=draw(st.sampled_from([Count(2), Time(5)])), name="O")
    on = list(zip([f"k{j}" for j in range(len(keys))], names, strict=True))
    first.join(
        second, on=on, left_window=Time(sizes[0]), right_window=Time(sizes[1]), where=where, how=how,
        unmatched="expiry", name="J",
    ).sink("Sink")  # fmt: skip
    graph = app.build()
    marks = draw(st.booleans())
    feed = draw(feeds(graph, "J", marks=marks))
    columns = (left.names, [] if how in ("left_semi", "left_anti") else right.names)
    rank = graph["J"].expiry_rank(graph.input_shapes("J"))
    return graph, feed, marks, {"on": on, "sizes": sizes, "columns": columns, "where": PREDICATES[where], "how": how,
                                "rank": rank}  # fmt: skip


def without_hashes(items, rank):
    """Rows that leave without a match have a hash in their keys, and come in its order."""
    return sorted(
        ((p, Row((*row.key[:3], None) if row.key[1] == rank else row.key, row.values)) for p, row in items),
        key=lambda entry: (entry[1].key[:3], entry[1].key[3] or 0, repr(entry[1].values)),
    )


@examples(40)
@given(expiring(), st.randoms(use_true_random=False), st.integers(0, 2**32))
def test_tuples_without_a_match_are_emitted_when_they_leave(case, random, seed):
    graph, feed, marks, options = case
    if not marks:
        found, expected = run(graph, "J", feed, random), relational_reference.expiring_join(feed.items, **options)
        same(without_hashes(found, options["rank"]), without_hashes(expected, options["rank"]))
        keys = [row.key for _, row in found]
        assert keys == sorted(set(keys))
    check_operator(graph, "J", as_events(feed), seed=seed, rounds=3)


def test_a_table_is_part_of_the_graph(tmp_path):
    def app(table):
        app = App("test")
        stream = app.source("S", "k string")
        stream.join_table(app.table(table, name="users"), on="k", name="J").sink("Sink")
        return app.build()

    users = pa.table({"k": ["a"], "age": [1]})
    assert app(users) == app(pa.table({"k": ["a"], "age": [1]}))
    assert app(users).fingerprint != app(pa.table({"k": ["a"], "age": [2]})).fingerprint
    path = tmp_path / "users.parquet"
    pq.write_table(users, path)
    graph = app(path)
    sent = pickle.dumps(graph)
    assert b"ARROW" not in sent  # a path, not rows
    assert pickle.loads(sent)["J"].table.rows.to_pylist() == [{"k": "a", "age": 1}]
    pq.write_table(pa.table({"k": ["a"], "age": [2]}), path)
    static_table._read.cache_clear()  # as in another process
    with pytest.raises(DataError, match=r"table users: .* has changed since the app was built"):
        _ = pickle.loads(sent)["J"].table.rows
    assert app(path).fingerprint != graph.fingerprint
    with pytest.raises(DataError, match=r"not a \.parquet file"):
        app(tmp_path / "none.parquet")


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda s, t: s.join_table(s, on="k", name="J"), "takes a table, .* not Stream; for a stream write join"),
        (lambda s, t: s.join_table(t, on="z", name="J"), "join column z is unknown"),
        (lambda s, t: s.join_table(t, on=[("k", "q")], name="J"), "column of table T column q is unknown"),
        (lambda s, t: s.join_table(t, on=[("x", "k")], name="J"), "x is int64 and k is string; cast one"),
        (lambda s, t: s.join_table(t, name="J"), "the input and table T have column k"),
        (lambda s, t: s.join_table(t, on="k", how="full", name="J"), "'full' is unknown; write one of inner, left"),
        (lambda s, t: s.drop_duplicates("z", name="D"), "key column z is unknown"),
        (lambda s, t: s.drop_duplicates("k", within="0s", name="D"), "too short"),
        (lambda s, t: s.window_time(name="W"), "follows an aggregate over tumbling, .* S is not one"),
        (
            lambda s, t: s.join(s, on="k", left_window=count(2), right_window=time("1s"), how="left_semi", name="J"),
            "both windows are of time",
        ),
        (
            lambda s, t: s.join(s, on="k", left_window=time("1s"), right_window=time("1s"), unmatched="end", name="J"),
            "unmatched='end' is unknown",
        ),
        (lambda s, t: s.app.table(pa.table({"k": ["a"]}), name="T"), "two tables are called T"),
        (lambda s, t: s.app.table(pa.table({"k": ["a"]}), "k long", name="U"), "table U: Failed to parse"),
        (lambda s, t: s.app.table(pa.table({"k": ["a"]}), "z long", name="U"), "table U has no column z; it has k"),
    ],
)
def test_mistakes_are_refused(mistake, message):
    app = App("test")
    stream = app.source("S", "k string, x long")
    with pytest.raises(GraphError, match=message):
        mistake(stream, app.table(pa.table({"k": ["a"], "y": [1]}), name="T"))


@pytest.mark.parametrize("window", [tumbling("5us"), sliding("6us", "2us"), session_window("3us")])
@given(st.data(), st.randoms(use_true_random=False))
@examples(10)
def test_windows_follow_windows(window, data, random):
    app = App("test")
    inner = app.source("S", "k string").aggregate("count(*) AS n", "window_end() AS until", window=window, name="A")
    inner.select("n", "until", name="P").window_time(name="W").sink("Sink")
    graph = app.build()
    feed = data.draw(
        feeds(graph, "W", marks=False, rows=[st.fixed_dictionaries({"n": st.just(1), "until": st.just(7)})])
    )
    back = 2 if window == session_window("3us") else 1
    moved = [(0, Row((row.key[0] - back, *row.key[1:]), row.values)) for _, row in feed.items]
    same(run(graph, "W", feed, random), moved)
