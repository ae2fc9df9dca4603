"""Every built-in operator keeps the contract on the values at the edges of every type."""

from itertools import cycle, product

import numpy as np
import pyarrow as pa
import pytest

from riprap.graph.builder import App
from riprap.graph.spec_spark import SparkStep
from riprap.graph.spec_stateful import StatefulPython
from riprap.graph.specs import OperatorSpec, Sink, Source, UserDefined
from riprap.graph.windows import count, punctuated, session_window, time, zero
from riprap.operators.edge_values import edge_inputs, edges
from riprap.testing.checker import check_operator

SCHEMA = "d double, f float, l long, i int, s string, b boolean, t timestamp, k string not null, n double not null"
WINDOWS = {
    "count": (count(9), count(2)),
    "long": (count(64), count(3)),
    "tumbling": (count(5), None),
    "time": (time("1ms"), time("1us")),
    "each": (time("4s"), count(1)),
    "punctuated": (punctuated(), None),
    "session": (session_window("1s"), None),
}
CALLS = {
    "doubles": [f"{f}(d) AS {f}" for f in ("sum", "avg", "min", "max", "first", "last", "median")]
    + ["percentile(n, 0.9) AS p", "percentile(d, 0) AS low", "count(distinct d) AS different", "count(d) AS c"],
    "floats": [f"{f}(f) AS {f}" for f in ("sum", "avg", "min", "max", "first", "last", "median")]
    + ["count(distinct f) AS different"],
    "longs": [f"{f}(l) AS {f}" for f in ("avg", "min", "max", "first", "last", "median")]
    + ["count(distinct l) AS different"],
    "sum of longs": ["sum(l) AS total"],
    "ints": [f"{f}(i) AS {f}" for f in ("sum", "avg", "min", "max", "first", "last", "median")],
    "others": ["first(s) AS s1", "last(s) AS s2", "count(distinct s) AS s3", "max(t) AS t1", "min(b) AS b1"],
}
GROUPS = {"alone": (), "by text": ("s",), "by double": ("d",), "by two": ("k", "b")}


def streams():
    app = App("edges")
    return app, app.source("S", SCHEMA), app.source("R", SCHEMA)


def aggregated(calls, window, by):
    def build(left, right):
        size, every = WINDOWS[window]
        return left.aggregate(*CALLS[calls], window=size, every=every, by=GROUPS[by], name="O")

    return build


def joined(how, windows, on):
    def build(left, right):
        other = right.rename({name: f"{name}2" for name in "dflisbtkn"}, name="Other")
        pairs = [(name, f"{name}2") for name in on]
        return left.join(other, on=pairs, left_window=windows[0], right_window=windows[1], how=how, name="O")

    return build


def joined_at_expiry(how, on):
    def build(left, right):
        other = right.rename({name: f"{name}2" for name in "dflisbtkn"}, name="Other")
        pairs = [(name, f"{name}2") for name in on]
        sizes = {"left_window": time("1ms"), "right_window": time("2s")}
        return left.join(other, on=pairs, **sizes, how=how, unmatched="expiry", name="O")

    return build


def joined_to_table(how, on):
    def build(left, right):
        schema = pa.schema([(f"{field.name}2", field.type) for field in left.schema])
        columns = [edges(field.type) for field in schema]
        rows = [column.take(pa.array([*range(4), None, 0], pa.int32())) for column in columns[:5]]
        rows += [column.take(pa.array([0, 1, 1, 0, None, 0], pa.int32())) for column in columns[5:]]
        table = left.app.table(pa.Table.from_arrays(rows, schema=schema), name="T")
        return left.join_table(table, on=[(name, f"{name}2") for name in on], how=how, name="O")

    return build


def _halves(batches):
    """Rows with an even `l`, twice."""
    for batch in batches:
        rows = [row for row, value in enumerate(batch["l"].to_pylist()) if value is not None and value % 2 == 0]
        yield batch.take(pa.array([row for row in rows for _ in range(2)], pa.int64()))


AT_EXPIRY = {"left": "s", "right": "d", "full": "kb", "left_semi": "f", "left_anti": "l"}
TABLES = {"inner": "d", "left": "sb", "left_semi": "f", "left_anti": ""}
OPERATORS = {
    **{
        f"aggregate {calls}, {window}, {by}": aggregated(calls, window, by)
        for (calls, window), by in zip(product(CALLS, WINDOWS), cycle(GROUPS))
    },
    "inner join": joined("inner", (count(3), count(2)), ""),
    "inner join on a double": joined("inner", (time("1ms"), zero()), "d"),
    "left join on text": joined("left", (count(3), count(2)), "s"),
    "full join on a float": joined("full", (count(3), count(2)), "f"),
    "right join on two": joined("right", (count(3), time("1ms")), "kb"),
    "inner join on a long": joined("inner", (count(3), count(2)), "l"),
    **{f"{how} join at expiry": joined_at_expiry(how, on) for how, on in AT_EXPIRY.items()},
    **{f"{how} join with a table": joined_to_table(how, on) for how, on in TABLES.items()},
    "python columns": lambda left, right: left.map_python(
        "same", lambda d, s: repr((d, s)), "d", "s", returns="string", name="O"
    ),
    "python batches": lambda left, right: left.map_batches(_halves, SCHEMA, name="O"),
    "first of a float": lambda left, right: left.drop_duplicates("f", within="1s", name="O"),
    "first of two": lambda left, right: left.drop_duplicates("d", "t", name="O"),
    **{
        f"sort by {by}": lambda left, right, by=by, window=window: left.sort(*by, window=window, name="O")
        for by, window in {
            ("d",): count(6),
            ("d desc", "s"): time("1ms"),
            ("s desc",): punctuated(),
            ("l", "f desc"): count(6),
            ("b", "t"): count(6),
        }.items()
    },
    "filter": lambda left, right: left.filter("d >= 0.0 OR s = '' OR l < 0", name="O"),
    "select": lambda left, right: left.select(
        "d", "-d AS m", "abs(d) AS a", "d / 2 AS h", "upper(s) AS u", "length(s) AS n", "coalesce(f, d) AS c", name="O"
    ),
    "arithmetic of longs": lambda left, right: left.select("l + 1 AS more", "i * 2 AS twice", name="O"),
    "delay": lambda left, right: left.delay("1ms", name="O"),
    "scan": lambda left, right: left.scan(
        "s", "most", "seen", state={"most": ("CAST(0 AS double)", "greatest(most, n)"), "seen": ("0", "seen + 1")},
        by="d", name="O",
    ),
    "scan of a sum": lambda left, right: left.scan(
        "total", state={"total": ("0.0", "total + n")}, by="s", name="O"
    ),
    "barrier": lambda left, right: left.barrier(
        right.rename({name: f"{name}2" for name in "dflisbtkn"}, name="Other"), name="O"
    ),
    "punctuate": lambda left, right: left.punctuate("d > 0.0 OR s = 'a'", name="O"),
    "split": lambda left, right: left.split("d > 0.0", "s = ''", otherwise=True, name="O")[0],
    "union": lambda left, right: left.union(right, name="O"),
    "union with itself": lambda left, right: left.union(left, name="O"),
}  # fmt: skip


def test_there_is_a_case_for_every_operator():
    found = set()
    for build in OPERATORS.values():
        app, left, right = streams()
        build(left, right)
        found |= {type(spec) for spec in app.build().operators}
    kinds, waiting = set(), [OperatorSpec]
    while waiting:
        below = waiting.pop().__subclasses__()
        waiting += below
        kinds |= {kind for kind in below if not kind.__subclasses__() and kind.__module__.startswith("riprap.graph.")}
    others = {Source, Sink, SparkStep, StatefulPython, UserDefined}  # not ours, or in test_stateful.py
    assert kinds - found - others == set()


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_keep_the_contract_at_the_edges(name):
    app, left, right = streams()
    OPERATORS[name](left, right)
    graph = app.build()
    for seed in range(2):
        check_operator(graph, "O", seed=seed, rounds=2)


@pytest.mark.soak
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_keep_the_contract_at_many_edges(name):
    app, left, right = streams()
    OPERATORS[name](left, right)
    graph = app.build()
    for seed in range(2, 200):
        check_operator(graph, "O", seed=seed)


def test_the_edges_are_there():
    floats = edges(pa.float64()).to_numpy()
    assert (
        {np.signbit(x) for x in floats[floats == 0]}
        == {True, False}
        == {np.signbit(x) for x in floats[np.isnan(floats)]}
    )
    assert np.isinf(floats).sum() == 2
    assert 5e-324 in floats
    assert {2**63 - 1, -(2**63)} <= set(edges(pa.int64()).to_pylist())
    assert "" in edges(pa.string()).to_pylist()
    app, left, right = streams()
    left.union(right, name="O")
    graph = app.build()
    drawn = [event for seed in range(8) for port in edge_inputs(graph, "O", seed) for event in port]
    batches = [event for event in drawn if isinstance(event, pa.RecordBatch)]
    assert any(batch.column("d").null_count for batch in batches)
    assert not any(batch.column("n").null_count for batch in batches)
