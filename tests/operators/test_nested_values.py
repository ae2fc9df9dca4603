"""Operators keep the contract on decimals, dates, local times, bytes, arrays, maps and structs, or refuse them."""

import pyarrow as pa
import pytest

from riprap.base.errors import GraphError
from riprap.graph.builder import App
from riprap.graph.windows import count, punctuated, session_window, time
from riprap.operators.edge_values import edges
from riprap.testing.checker import check_operator

SCHEMA = (
    "m decimal(38,10), p decimal(9,2), a date, z timestamp_ntz, y binary, l array<int>, q array<decimal(12,3)>, "
    "g map<string,double>, w struct<x:double,v:array<string>>, h struct<x:decimal(5,1),v:array<string>>, "
    "k decimal(5,1) not null"
)
NAMES = "mpazylqgwhk"
KEYS = "mpazylqhk"  # no maps, and no floats within a value


def aggregated(calls, window, every, by):
    return lambda left, right: left.aggregate(*calls, window=window, every=every, by=by, name="O")


def joined(how, on, left_window, right_window, **options):
    def build(left, right):
        other = right.rename({name: f"{name}2" for name in NAMES}, name="Other")
        windows = {"left_window": left_window, "right_window": right_window}
        return left.join(other, on=[(name, f"{name}2") for name in on], **windows, how=how, name="O", **options)

    return build


def joined_to_table(on):
    def build(left, right):
        columns = {f"{field.name}2": edges(field.type) for field in left.schema}
        rows = pa.array([*range(4), None, 0], pa.int32())
        table = left.app.table(pa.table({name: column.take(rows) for name, column in columns.items()}), name="T")
        return left.join_table(table, on=[(on, f"{on}2")], how="left", name="O")

    return build


OPERATORS = {
    "union": lambda left, right: left.union(right, name="O"),
    "filter": lambda left, right: left.filter("p > 0 OR size(l) > 1", name="O"),
    "select": lambda left, right: left.select("m", "p + 1 AS p1", "w.x AS x", "q", "size(g) AS n", name="O"),
    "map_python": lambda left, right: left.map_python(
        "same", lambda m, q: repr((m, q)), "m", "q", returns="string", name="O"
    ),
    "barrier": lambda left, right: left.barrier(
        right.rename({name: f"{name}2" for name in NAMES}, name="Other"), name="O"
    ),
    "scan": lambda left, right: left.scan(
        "most", state={"most": ("CAST(0 AS decimal(5,1))", "greatest(most, k)")}, by="h", name="O"
    ),
    "left join at expiry": joined("left", "p", time("1ms"), time("2s"), unmatched="expiry"),
    "semi-join at expiry": joined("left_semi", "l", time("1ms"), time("2s"), unmatched="expiry"),
    **{f"ends {n}": aggregated([f"{f}({n}) AS {f}" for f in ("first", "last")], count(9), count(2), ()) for n in NAMES},
    **{f"least {n}": aggregated([f"min({n}) AS a", f"max({n}) AS b"], count(9), count(2), ()) for n in KEYS},
    **{f"distinct {n}": aggregated([f"count(distinct {n}) AS c"], time("1ms"), time("1us"), ()) for n in KEYS},
    **{f"by {n}": aggregated(["count(*) AS c"], punctuated(), None, (n,)) for n in KEYS},
    **{f"by {n} in sessions": aggregated(["last(m) AS c"], session_window("1s"), None, (n, "k")) for n in "ahq"},
    **{f"inner join on {n}": joined("inner", n, count(3), count(2)) for n in KEYS},
    "full join on two": joined("full", "hp", count(3), time("1ms")),
    **{f"first by {n}": lambda left, right, n=n: left.drop_duplicates(n, within="1s", name="O") for n in KEYS},
    **{f"sort by {n}": lambda left, right, n=n: left.sort(f"{n} desc", window=count(6), name="O") for n in KEYS},
    **{f"table by {n}": joined_to_table(n) for n in KEYS},
}  # fmt: skip


def streams():
    app = App("nested")
    return app, app.source("S", SCHEMA), app.source("R", SCHEMA)


def keeps_the_contract(name):
    app, left, right = streams()
    OPERATORS[name](left, right)
    check_operator(app.build(), "O", seed=0, rounds=2)


@pytest.mark.parametrize("name", list(OPERATORS)[::5])
def test_operators_keep_the_contract_on_nested_values(name):
    keeps_the_contract(name)


@pytest.mark.soak
@pytest.mark.parametrize("name", OPERATORS)
def test_all_operators_keep_the_contract_on_nested_values(name):
    keeps_the_contract(name)


def built(build, app, left, right, name):
    build(left, right, name)
    return app.build()


@pytest.mark.parametrize("name", ["g", "w"])
@pytest.mark.parametrize(
    "build",
    [
        lambda left, right, name: aggregated(["count(*) AS c"], count(2), None, (name,))(left, right),
        lambda left, right, name: aggregated([f"max({name}) AS c"], count(2), None, ())(left, right),
        lambda left, right, name: aggregated([f"count(distinct {name}) AS c"], count(2), None, ())(left, right),
        lambda left, right, name: left.sort(name, window=count(2), name="O"),
        lambda left, right, name: left.drop_duplicates(name, name="O"),
        lambda left, right, name: joined("inner", name, count(2), count(2))(left, right),
        lambda left, right, name: joined_to_table(name)(left, right),
    ],
)
def test_what_cannot_be_compared_is_no_key(build, name):
    app, left, right = streams()
    with pytest.raises(GraphError, match=r"O: .*cannot be compared; use"):
        built(build, app, left, right, name)
