"""What cannot be is told when the graph is built, by name: the operator, the column, and what there was instead."""

import pyarrow as pa
import pytest

from riprap.base.errors import GraphError
from riprap.graph.aggregates import apply
from riprap.graph.annotations import checkpoint, ha_group, persist
from riprap.graph.builder import App
from riprap.graph.graph import Graph, StreamSpec
from riprap.graph.specs import Functor, Sink, Source
from riprap.graph.windows import count, punctuated, session_window, time, tumbling, zero

SCHEMA = "ticker string, price double, size long, at timestamp"


def stream(app=None, name="S", schema=SCHEMA):
    return (app or App("app")).source(name, schema)


def two(left="a long, k string", right="b long, k string"):
    app = App("app")
    return app.source("L", left), app.source("R", right)


def joined(**options):
    left, right = two()
    return left.join(right, on="k", left_window=count(1), right_window=zero(), name="J", **options)


CASES = {
    "a percentile without a share": (
        lambda: stream().aggregate("percentile(price) AS p", window=count(2), name="A"),
        r"operator A: .*a percentile needs an expression and a number from 0 to 1",
    ),
    "a percentile beyond the last": (
        lambda: stream().aggregate("percentile(price, 90) AS p", window=count(2), name="A"),
        r"operator A: .*a percentile needs an expression and a number from 0 to 1",
    ),
    "the median of texts": (
        lambda: stream().aggregate("median(ticker) AS p", window=count(2), name="A"),
        "operator A: percentile of string: p needs a numeric argument",
    ),
    "a sum of what is distinct": (
        lambda: stream().aggregate("sum(distinct price) AS p", window=count(2), name="A"),
        "operator A: .*sum does not support DISTINCT",
    ),
    "a session that speaks by something else": (
        lambda: stream().aggregate("count(*) AS n", window=session_window("5s"), every=count(1), name="A"),
        r"operator A: a session_window\(\) emits when it ends; leave out every=",
    ),
    "a session without a gap": (lambda: session_window("0s"), r"session_window\('0s'\): a session ends after a gap"),
    "a sort of sessions": (
        lambda: stream().sort("price", window=session_window("5s"), name="O"),
        r"operator O: a sort's window is count, time or punctuated; session_window\(5s\) is not",
    ),
    "a join over sessions": (
        lambda: two()[0].join(two()[1], on="k", left_window=session_window("5s"), right_window=zero(), name="J"),
        "operator J: ",
    ),
    "an unknown kind of join": (
        lambda: joined(how="outer"),
        "operator J: how='outer' is unknown; write one of inner, left, right, full",
    ),
    "a punctor without a condition": (
        lambda: stream().punctuate(name="P"),
        "operator P: a punctor has one condition: give either after= or before=",
    ),
    "a punctor with two": (
        lambda: stream().punctuate("price > 1", before="price > 2", name="P"),
        "operator P: a punctor has one condition: give either after= or before=",
    ),
    "a delay of nothing": (lambda: stream().delay("0s", name="D"), "operator D: delay 0s is too short"),
    "a split by nothing": (lambda: stream().split(name="X"), "operator X: a split needs conditions, or by="),
    "a split by a column alone": (
        lambda: stream().split(by="ticker", name="X"),
        "operator X: a split needs conditions, or by= a column with a mapping= file",
    ),
    "a mapping that is not there": (
        lambda: stream().split(by="ticker", mapping="/nowhere/map.txt", name="X"),
        "operator X: cannot read mapping /nowhere/map.txt: No such file",
    ),
    "a mapping of a fraction": (
        lambda: stream().split(by="price", mapping="/nowhere/map.txt", name="X"),
        "operator X: column price is double; a mapping needs a string or an integer",
    ),
    "a functor without state": (
        lambda: stream().scan(state={}, name="F"),
        "operator F: it has no state variable; use select or map",
    ),
    "a state variable that is a column": (
        lambda: stream().scan(state={"price": ("0.0", "price")}, name="F"),
        "operator F: state variable price has the name of a column",
    ),
    "a state variable that begins with a column": (
        lambda: stream().scan(state={"last": ("price", "price")}, name="F"),
        "operator F: the initial value 'price' of state variable last reads a column; use a constant",
    ),
    "a state variable that changes its type": (
        lambda: stream().scan(state={"n": ("0", "n + 0.5")}, name="F"),
        "operator F: state variable n is decimal.*, and its update 'n . 0.5' is decimal.*; cast one of them",
    ),
    "a state variable without an update": (
        lambda: stream().scan(state={"n": "0"}, name="F"),
        r"operator F: state variable n needs two expressions: \(initial, update\)",
    ),
    "a state variable without a type": (
        lambda: stream().scan(state={"n": ("NULL", "n")}, name="F"),
        "operator F: state variable n is initially null; give it a type with CAST",
    ),
    "unknown column in a condition": (
        lambda: stream().filter("prise > 1", name="F"),
        r"operator F: .*prise.*price",
    ),
    "unknown column in a projection": (
        lambda: stream().select("ticker", "prize * 2 AS p", name="P"),
        r"operator P: .*prize.*(ticker|price)",
    ),
    "a condition that is a number": (
        lambda: stream().filter("price + 1", name="F"),
        r"operator F: 'price \+ 1' is double, and a condition has to be boolean",
    ),
    "types that do not fit": (lambda: stream().filter("array(ticker) > 1", name="F"), r"operator F: .*ticker"),
    "an expression that does not parse": (lambda: stream().filter("price >", name="F"), "operator F: "),
    "a projection without a name": (lambda: stream().select("price * 2", name="P"), "operator P: "),
    "two output columns of a name": (
        lambda: stream().select("price", "size AS price", name="P"),
        "operator P: two output columns are called price",
    ),
    "an output column in the order key": (
        lambda: stream().select("price AS _ts", name="P"),
        "operator P: column _ts belongs to the order key",
    ),
    "a column that is always null": (
        lambda: stream().select("NULL AS n", name="P"),
        "operator P: column n is always null; give it a type",
    ),
    "renaming what is not there": (
        lambda: stream().rename({"prise": "p"}, name="N"),
        r"operator N: column prise is unknown; available: ticker, price, size, at \(did you mean price\?\)",
    ),
    "dropping what is not there": (
        lambda: stream().drop("sise", name="D"),
        r"operator D: column sise is unknown; .*did you mean size",
    ),
    "grouping by what is not there": (
        lambda: stream().aggregate("count(*) AS n", window=count(2), by="tickr", name="A"),
        r"operator A: group-by column tickr is unknown; available: ticker, .*did you mean ticker",
    ),
    "an unknown function": (
        lambda: stream().aggregate("summ(price) AS s", window=count(2), name="A"),
        "operator A: aggregate function summ is unknown; known: sum, .*did you mean sum",
    ),
    "a call without a name": (
        lambda: stream().aggregate("sum(price)", window=count(2), name="A"),
        r"operator A: cannot read 'sum\(price\)' as an aggregate",
    ),
    "the sum of a text": (
        lambda: stream().aggregate("sum(ticker) AS s", window=count(2), name="A"),
        "operator A: sum of string: s needs a numeric argument",
    ),
    "bits of fractions": (
        lambda: stream().aggregate("bit_and(price) AS s", window=count(2), name="A"),
        "operator A: bit_and of double: s needs an integer",
    ),
    "every of numbers": (
        lambda: stream().aggregate("every(price) AS s", window=count(2), name="A"),
        "operator A: s is of double; bool_and, bool_or, every and some need a condition",
    ),
    "a correlation with itself alone": (
        lambda: stream().aggregate("corr(price) AS s", window=count(2), name="A"),
        "operator A: .*corr has 2 arguments, not 1",
    ),
    "the end of a window that has none": (
        lambda: stream().aggregate("window_end() AS s", window=count(2), name="A"),
        r"operator A: count\(2\) every count\(2\) has no start and end in time",
    ),
    "a sliding window that speaks by something else": (
        lambda: stream().aggregate("count(*) AS n", window=tumbling("5s"), every=count(1), name="A"),
        r"operator A: tumbling\(\) and sliding\(\) define when they emit",
    ),
    "the sum of a star": (
        lambda: stream().aggregate("sum(*) AS s", window=count(2), name="A"),
        r"operator A: sum\(\*\) is undefined",
    ),
    "no call at all": (
        lambda: stream().aggregate(window=count(2), name="A"),
        "operator A: an aggregate needs at least one call",
    ),
    "a call named like a key": (
        lambda: stream().aggregate("sum(size) AS ticker", window=count(2), by="ticker", name="A"),
        "operator A: column ticker is taken",
    ),
    "a window of nothing": (
        lambda: stream().aggregate("count(*) AS n", window=zero(), name="A"),
        "operator A: an aggregate needs a window with tuples",
    ),
    "punctuated, but by count": (
        lambda: stream().aggregate("count(*) AS n", window=punctuated(), every=count(1), name="A"),
        r"operator A: a punctuated\(\) window emits at punctuations",
    ),
    "steps longer than the window": (
        lambda: stream().aggregate("count(*) AS n", window=time("1s"), every=time("2s"), name="A"),
        r"operator A: every time\(2s\) skips tuples of time\(1s\)",
    ),
    "full windows of time": (
        lambda: stream().aggregate("count(*) AS n", window=time("1s"), partial=False, name="A"),
        "operator A: partial=False is for count windows",
    ),
    "a user function of another type": (
        lambda: apply(len, "price", name="n", type="text"),
        "float64 or int64",
    ),
    "a join on what is not there": (
        lambda: (lambda a, b: a.join(b, on="q", left_window=count(1), right_window=zero(), name="J"))(*two()),
        "operator J: left join column q is unknown; available: a, k",
    ),
    "a join on what is only left": (
        lambda: (lambda a, b: a.join(b, on="a", left_window=count(1), right_window=zero(), name="J"))(*two()),
        "operator J: right join column a is unknown; available: b, k",
    ),
    "a join of different types": (
        lambda: (lambda a, b: a.join(b, on=[("a", "k")], left_window=count(1), right_window=zero(), name="J"))(
            *two(right="k string")
        ),
        "operator J: a is int64 and k is string; cast one before the join",
    ),
    "a join of equal names": (
        lambda: (lambda a, b: a.join(b, on="k", left_window=count(1), right_window=zero(), name="J"))(
            *two(right="a long, k string")
        ),
        "operator J: both inputs have column a; rename it",
    ),
    "a join without memory": (
        lambda: (lambda a, b: a.join(b, on="k", left_window=zero(), right_window=zero(), name="J"))(*two()),
        r"operator J: with two zero\(\) windows nothing ever matches",
    ),
    "a join of punctuated windows": (
        lambda: (lambda a, b: a.join(b, on="k", left_window=punctuated(), right_window=zero(), name="J"))(*two()),
        r"operator J: a join's window is count, time or zero",
    ),
    "groups of nothing": (
        lambda: (lambda a, b: a.join(b, per_group=True, left_window=count(1), right_window=zero(), name="J"))(
            *two("a long", "b long")
        ),
        "operator J: windows per group need on= columns",
    ),
    "sorting by what is not there": (
        lambda: stream().sort("prise", window=count(5), name="O"),
        "operator O: sort column prise is unknown; available: .*did you mean price",
    ),
    "sorting by nothing": (lambda: stream().sort(window=count(5), name="O"), "operator O: a sort needs at least one"),
    "sorting in no direction": (
        lambda: stream().sort("price up", window=count(5), name="O"),
        "operator O: cannot sort by 'price up'",
    ),
    "a barrier of equal names": (
        lambda: (lambda a, b: a.barrier(b, name="B"))(*two()),
        "operator B: two inputs have column k; rename it before the barrier",
    ),
    "a union of different columns": (
        lambda: (lambda a, b: a.union(b, name="U"))(*two()),
        r"operator U: input 1 has columns \(b int64, k string\) and input 0 has \(a int64, k string\)",
    ),
    "a name twice": (
        lambda: stream().filter("size > 1", name="S"),
        "two operators are called S; names have to be unique in app app",
    ),
    "a name that cannot be": (
        lambda: stream().filter("size > 1", name="A→B"),
        "operator name 'A→B' is empty or contains",
    ),
    "a stream of another app": (
        lambda: stream(App("one")).union(stream(App("two")), name="U"),
        "operator U: its input belongs to app two, not one",
    ),
    "a time column that is not there": (
        lambda: App("app").source("S", SCHEMA, time="when"),
        "operator S: time column when is unknown; available: ticker",
    ),
    "a time column that is no time": (
        lambda: App("app").source("S", SCHEMA, time="price"),
        "operator S: time column price is double; it has to be a timestamp, or int64",
    ),
    "a type that there is not": (
        lambda: App("app").source("S", "a strin"),
        "column a has unknown type 'strin'; known types: .*did you mean string",
    ),
    "a type that operators cannot hold": (
        lambda: App("app").source("S", pa.schema([("a", pa.large_list(pa.time64("us")))])),
        "type time64.* is not supported",
    ),
    "a column twice": (lambda: App("app").source("S", "a long, a long"), "column a appears twice"),
    "a column without a type": (lambda: App("app").source("S", "a"), "cannot read 'a' as a column"),
    "no source": (lambda: App("app").build(), "app app has no source"),
    "no parallelism": (
        lambda: build(lambda s: s.filter("size > 1", parallelism=0, name="F")),
        "operator F: parallelism 0; it has to be 1 or more",
    ),
    "shards without a key": (
        lambda: build(lambda s: s.aggregate("count(*) AS n", window=count(2), parallelism=2, name="A")),
        "operator A: parallelism 2, but the state of input port 0 is not divided by a key",
    ),
    "persisting a port that is not there": (
        lambda: build(lambda s: s.filter("size > 1", protect=persist(1), name="F")),
        "operator F: cannot persist output 1; it has 1 outputs",
    ),
    "no interval": (lambda: checkpoint(every="0s"), "the interval must be longer than 0"),
    "one replica": (lambda: ha_group("g", 1), "HA group g: 1 replicas protect nothing"),
    "no tuples": (lambda: count(0), r"count\(0\): a count window holds a whole number of tuples"),
    "no time": (lambda: time("0s"), "a time window is longer than 0"),
}


def build(make):
    source = stream()
    make(source).sink("Sink")
    return source.app.build()


@pytest.mark.parametrize("case", CASES)
def test_is_told(case):
    make, message = CASES[case]
    with pytest.raises(GraphError, match=message):
        make()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no lines"),
        ("IBM", "line 1 of mapping .* is 'IBM'; write a value and its output, as in IBM,0"),
        ("IBM,first", "write a value and its output"),
        ("IBM,0\n# x\nIBM,1", "line 3 .* sends 'IBM' to output 1, and an earlier line to 0"),
        ("IBM,0\nSAP,2", "sends nothing to output 1; number them from 0"),
        ("IBM,5000", "there are 1024 at most"),
    ],
)
def test_a_mapping_file_that_says_nothing_of_use(tmp_path, text, message):
    (tmp_path / "map.txt").write_text(text)
    with pytest.raises(GraphError, match=f"operator X: .*{message}"):
        stream().split(by="ticker", mapping=tmp_path / "map.txt", name="X")
    if text == "IBM,0\nSAP,2":
        with pytest.raises(GraphError, match=r"operator X: line 1 .* has 'IBM', and column size is int64"):
            stream().split(by="size", mapping=tmp_path / "map.txt", name="X")


# Graphs that the builder cannot make, but a rewriting could ----------------------------------------------------------

SOURCE = Source(name="S", schema=pa.schema([("a", pa.int64())]), rank=0)


@pytest.mark.parametrize(
    ("operators", "streams", "message"),
    [
        ([SOURCE, Sink(name="K")], [], "operator K: input port 0 is not connected"),
        (
            [SOURCE, Sink(name="K")],
            [("S", 0, "K", 0), ("S", 0, "K", 0)],
            "operator K: two streams lead into input port 0",
        ),
        ([SOURCE, Sink(name="K")], [("S", 0, "K", 0), ("S", 0, "K", 1)], "operator K has 1 input ports"),
        ([SOURCE, Sink(name="K")], [("S", 1, "K", 0)], "stream S.1→K: S has no output port 1"),
        (
            [SOURCE, Sink(name="K")],
            [("S", 0, "K", 0), ("S", 0, "Q", 0)],
            "ends at Q, which is not an operator; known: S, K",
        ),
        (
            [SOURCE, Functor(name="A"), Functor(name="B")],
            [("A", 0, "B", 0), ("B", 0, "A", 0)],
            r"app g has a cycle through (A → B → A|B → A → B); close it with a feedback stream",
        ),
        ([SOURCE, SOURCE], [], "two operators are called S"),
    ],
)
def test_a_graph_checks_itself(operators, streams, message):
    with pytest.raises(GraphError, match=message):
        Graph("g", tuple(operators), tuple(StreamSpec(*stream) for stream in streams))
