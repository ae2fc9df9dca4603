"""Operators in one loop do what they do on their own: rows, keys, punctuation, progress, digests, counts, errors."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.graphs import SCHEMA, apps, collected, cut, inputs, ran
from tests.profiles import examples

from riprap.apps.catalogue import load_app
from riprap.base.errors import DataError, MissingPrerequisite, UsageError
from riprap.engine import compiling, pieces
from riprap.engine.engine import Engine
from riprap.graph.aggregates import apply
from riprap.graph.builder import App
from riprap.graph.order_keys import OrderKey
from riprap.graph.windows import count, punctuated, session_window, time, zero
from riprap.operators.contract import Late, Punctuation

STEPS = ["filter", "map", "aggregate", "join", "union", "split", "delay"]


def compared(graph, feed, ends):
    """Push the same events into an engine of pieces and one that cuts at every operator, and compare on the way."""
    whole, apart = Engine(graph), Engine(graph, cut_everywhere=True)
    for number, (name, event) in enumerate(feed):
        left, right = whole.push(name, event), apart.push(name, event)
        assert collected(graph, left) == collected(graph, right)
        if number % 4 == 0:  # to look at everything takes longer than to run it
            same_state(whole, apart)
    for name in ends:
        assert collected(graph, whole.end(name)) == collected(graph, apart.end(name))
        same_state(whole, apart)


def same_state(whole, apart):
    assert repr(whole.digests()) == repr(apart.digests())
    assert whole.state_sizes() == apart.state_sizes()
    for name, operator in apart.operators.items():
        assert whole.reached(name) == apart.reached(name), name
        assert whole.operators[name].version == operator.version, name
        counted, expected = whole.statistics[name], apart.statistics[name]
        assert (counted.tuples_in, counted.tuples_out) == (expected.tuples_in, expected.tuples_out), name


@examples(36)
@given(st.data(), st.one_of(apps(), apps(sources=(1, 1), operators=(2, 9), kinds=STEPS)), st.booleans())
def test_one_piece_is_what_its_operators_are(data, graph, marked):
    given_ = data.draw(inputs(graph))
    sizes = data.draw(st.lists(st.sampled_from([1, 2, 3, 7, 50]), min_size=1, max_size=3))
    feed = [(name, piece) for name, batch in given_.items() for piece in cut(batch, sizes)]
    feed.sort(key=lambda entry: entry[1].column("_ts")[-1].value)
    if marked:
        feed = [item for name, batch in feed for item in ((name, batch), (name, mark_after(graph, name, batch)))]
    compared(graph, feed, list(given_))


def mark_after(graph, name, batch):
    ts, seq = batch.column("_ts")[-1].value, batch.column("_seq")[-1].as_py()
    return Punctuation(OrderKey(ts, graph.shape(name).src, seq))


@examples(20)
@given(st.data(), apps(sources=(1, 1), operators=(2, 7), kinds=STEPS), st.integers(0, 8))
def test_a_state_goes_from_pieces_to_operators_and_back(data, graph, stop):
    given_ = data.draw(inputs(graph))
    ((name, batch),) = given_.items()
    outputs, engines = [], [Engine(graph), Engine(graph, cut_everywhere=True)]
    for number, piece in enumerate(cut(batch, [3])):
        if number == stop:
            state = engines[0].snapshot()
            engines.reverse()
            engines[0].restore(state)
        outputs += engines[0].push(name, piece)
    outputs += engines[0].end(name)
    apart = Engine(graph, cut_everywhere=True)
    assert collected(graph, outputs) == collected(graph, apart.run({name: [batch]}))
    assert repr(engines[0].digests()) == repr(apart.digests())


def source(app, name="S"):
    return app.source(name, SCHEMA)


def begins(graph, name, **options):
    """Why a piece begins at an operator; None if it does not."""
    found = pieces.cut(graph, frozenset(graph.order), **options)
    return next((piece.reason for piece in found if piece.operators[0] == name), None)


def diamond(app, stream, name):
    return stream.filter("i > 0", name=f"{name}a").union(stream.filter("i <= 0", name=f"{name}b"), name=name)


def test_reasons_for_cuts():
    app = App("cuts")
    first = source(app)
    second = source(app, "T")
    united = diamond(app, first, "U")
    again = diamond(app, united, "V")
    again.sink("Out")
    first.union(second, name="Two").sink("Out2")
    timed = first.aggregate("sum(x) AS x", window=time("5s"), by="k", name="Timed")
    timed.filter("x > 0", name="After").sink("Out3")
    long = first.aggregate("sum(x) AS x", window=count(1000), every=count(1), by="k", name="Long")
    long.sink("Out4")
    first.sort("x", window=count(3), name="Sorted").sink("Out5")
    closed = first.punctuate("i = 1", name="Marked")
    diamond(app, closed.filter("x > 0", name="X"), "W").sink("Out6")
    closed.aggregate("sum(x) AS x", window=punctuated(), by="k", name="Closed").sink("Out7")
    first.aggregate("sum(x) AS x", window=time("5s"), every=count(1), by="k", name="Rolling").sink("Out9")
    first.aggregate("max(x) AS x", window=count(1000), every=count(1), by="k", name="Longest").sink("Out10")
    first.aggregate(apply(len, "x", name="y"), window=count(3), every=count(1), name="Own").sink("Out11")
    right = second.rename({"x": "y", "i": "j"}, name="R")
    first.join(right, on="k", left_window=count(1), right_window=zero(), name="J").sink("Out8")
    graph = app.build()
    assert begins(graph, "S") == "it is a source"
    assert begins(graph, "U") is None
    assert "several rows on one of its ports" in begins(graph, "V")
    assert "several pieces" in begins(graph, "Two")
    assert begins(graph, "Timed") is None
    assert "comes from Timed, which emits on watermarks or punctuations" in begins(graph, "After")
    assert begins(graph, "Long") is None
    assert "computed per batch" in begins(graph, "Longest")
    assert "in another order" in begins(graph, "Sorted")
    assert "emits punctuations" in begins(graph, "Marked")
    assert "would arrive between its ports" in begins(graph, "W")
    assert begins(graph, "Closed") == "its input comes from Marked, which is not compiled"
    assert begins(graph, "Rolling") is None
    assert "a user-defined function" in begins(graph, "Own")
    assert "several pieces" in begins(graph, "J")
    assert begins(graph, "U", merged_apart=True) == "a jitter decides in which order its inputs are merged"
    assert begins(graph, "Ua", alone={"Ua": "because"}) == "because"
    some = pieces.cut(graph, frozenset(["Ua", "Ub", "U"]))
    assert some[0].reason == "its input comes from outside the fragment"


def test_reasons_for_running_alone():
    app = App("alone")
    first = source(app)
    first.barrier(app.source("T", "other long"), name="Pairs").sink("Out2")
    right = first.rename({"x": "y", "i": "j"}, name="R")
    first.join(right, on="k", left_window=count(3), right_window=zero(), name="Several").sink("Out3")
    latest = {"on": "k", "left_window": zero(), "right_window": count(1)}
    first.join(right, **latest, how="right", name="Kept").sink("Out4")
    first.join(right, **latest, how="left", name="Latest").sink("Out5")
    graph = app.build()
    assert "wait for rows of all other ports" in begins(graph, "Pairs")
    assert "can match several tuples" in begins(graph, "Several")
    assert "the stored side is emitted as well" in begins(graph, "Kept")
    assert begins(graph, "Latest") is None


def test_what_is_delayed_is_merged_with_what_is_not():
    app = App("delayed")
    first = source(app)
    later = first.delay("2us", name="Later")
    first.union(later, name="Both").sink("Out")
    again = first.delay("1us", name="Once").delay("1us", name="Twice")
    later.union(again, name="Level").sink("Out2")
    graph = app.build()
    assert begins(graph, "Both") == "some of its inputs are delayed, and they are merged"
    assert [begins(graph, name) for name in ("Later", "Once", "Twice", "Level")] == [None] * 4


def late_apps():
    """Behind a delay: what takes what comes late as it is, what closes windows, and what leaves the fragment."""
    windows = {
        "Rolling": (time("6us"), count(1)),
        "Tumbling": (time("6us"), None),
        "Session": (session_window("4us"), None),
        "Counted": (count(2), count(1)),
    }
    app = App("late")
    later = source(app).filter("i > -9", name="In").delay("3us", name="Later")
    for name, (window, every) in windows.items():
        later.aggregate("count(*) AS n", window=window, every=every, by="k", name=name).sink(f"{name}Out")
    later.delay("4us", name="Latest").union(later, name="Merged").sink("Out")
    return app.build()


def seen(outputs):
    """Rows and punctuations, and at which key those come late that do."""
    found = {}
    for name, event in outputs:
        at, own = (event.at, event.event) if isinstance(event, Late) else (None, event)
        rows = own if isinstance(own, Punctuation) else own.to_pylist()
        found.setdefault(name, []).append((at, rows))
    return {
        name: [(at, row) for at, rows in events for row in (rows if isinstance(rows, list) else [rows])]
        for name, events in found.items()
    }


@settings(max_examples=15)
@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["rows", "late", "late mark"])), min_size=1, max_size=12))
def test_what_comes_late_is_as_late_behind_a_delay(told):
    graph = late_apps()
    members = [op.name for op in graph.operators if op.name != "S"]
    whole, apart = Engine(graph, members), Engine(graph, members, cut_everywhere=True)
    assert "Later" in next(piece.operators for piece in whole.pieces if piece.operators[0] == "In")
    now = 0
    for seq, (step, kind) in enumerate(told):
        if kind == "rows":
            now += step
            event = rows_at(now, seq)
        else:
            late = rows_at(max(0, now - step), seq)
            key = OrderKey(now, 0, seq)
            event = Late(late if kind == "late" else Punctuation(OrderKey(max(0, now - step), 0, seq)), key)
        left, right = whole.push("S→In", event), apart.push("S→In", event)
        assert seen(left) == seen(right)
        assert repr(whole.digests()) == repr(apart.digests())
        assert seen(whole.advance("S→In", OrderKey(now, 0, seq))) == seen(apart.advance("S→In", OrderKey(now, 0, seq)))
    assert seen(whole.end("S→In")) == seen(apart.end("S→In"))


def rows_at(moment, seq):
    return pa.record_batch(
        {
            "k": pa.array(["ab"[seq % 2]]),
            "x": pa.array([1.0]),
            "i": pa.array([seq], pa.int64()),
            "_ts": pa.array([moment], pa.timestamp("us", "UTC")),
            "_seq": pa.array([seq], pa.int64()),
        }
    )


def test_what_goes_back_and_what_is_long_begins_a_piece():
    app = App("back")
    both = source(app).union(app.feedback("back", SCHEMA, delay="1s"), name="Both")
    again = both.filter("i > 0", name="Again")
    again.select("k", "x", "i - 1 AS i", name="Less").feed("back")
    both.filter("i = 0", name="Done").sink("Out")
    graph = app.build()
    assert begins(graph, "Both") == "its input is fed back"
    assert begins(graph, "Less") == "it feeds a feedback stream"
    app = App("long")
    stream = source(app)
    for number in range(pieces.LONGEST):
        stream = stream.filter("i > 0", name=f"F{number}")
    stream.sink("Out")
    graph = app.build()
    assert begins(graph, f"F{pieces.LONGEST - 1}") == f"the piece before it has {pieces.LONGEST} operators"
    assert begins(graph, f"F{pieces.LONGEST - 2}") is None


def test_twelve_diamonds_in_a_row_are_linear():
    app = App("diamonds")
    stream = source(app)
    for number in range(12):
        stream = diamond(app, stream, f"D{number}")
    stream.sink("Out")
    engine = Engine(app.build())
    texts = sum(len(running.text) for running in engine._running.values())
    app = App("one")
    diamond(app, source(app), "D0").sink("Out")
    (one,) = Engine(app.build())._running.values()
    assert texts < 14 * len(one.text)


def test_an_operator_without_text_runs_on_its_own():
    app = App("text")
    made = source(app).select("k", "concat(k, cast(i AS string)) AS t", "exp(x) AS e", name="M")
    made.filter("t = 'a1'", name="F").sink("Out")
    engine = Engine(app.build())
    assert [piece.operators for piece in engine.pieces] == [("S",), ("M",), ("F", "Out")]
    assert "cannot be compiled" in engine.pieces[1].reason


def rows(**columns):
    size = len(next(iter(columns.values())))
    arrays = {"k": pa.array(["a"] * size), "x": pa.array([1.0] * size), "i": pa.array([1] * size)}
    arrays |= {name: pa.array(values) for name, values in columns.items()}
    arrays |= {"_ts": pa.array(range(size), pa.timestamp("us", "UTC")), "_seq": pa.array(range(size), pa.int64())}
    return pa.record_batch(arrays)


@pytest.mark.parametrize(
    ("expression", "values", "message"),
    [
        ("i * 4611686018427387904", [1, 1, 4, 1], "does not fit 64 bits"),
        ("cast(i AS int8)", [1, 2, 300, 1], "300 does not fit tinyint"),
        ("cast(x * i AS int8)", [1, 2, 300, 1], "300.0 does not fit tinyint"),
        ("cast(k AS long)", ["1", "2", "b", "1"], "'b' is not a bigint"),
    ],
)
def test_an_error_stops_at_its_row(expression, values, message):
    app = App("error")
    made = source(app).select("k", f"{expression} AS i", name="M")
    made.aggregate("last(i) AS i", window=count(4), every=count(1), name="A").sink("Out")
    given_ = rows(k=values) if isinstance(values[0], str) else rows(i=values)
    engine = Engine(app.build())
    assert len(engine.pieces) == 1
    with pytest.raises(DataError, match=message):
        engine.push("S", given_)
    assert engine.state_sizes() == {"A": 2}  # the rows before the error, and not the one that failed
    with pytest.raises(UsageError, match="stopped"):
        engine.push("S", given_)
    with pytest.raises(UsageError, match="stopped"):
        engine.snapshot()


def test_a_null_where_none_is_declared_is_refused():
    app = App("nulls")
    app.source("S", "k string not null").filter("k = 'a'", name="F").sink("Out")
    columns = {"k": pa.array(["a", None]), "_ts": pa.array([0, 1], pa.timestamp("us", "UTC")), "_seq": [0, 1]}
    with pytest.raises(DataError, match="has nulls and is declared not null"):
        Engine(app.build()).push("S", pa.record_batch(columns))


def test_what_cannot_be_null_is_not_behind_a_piece_either():
    """What COALESCE gives goes from one piece to the next as column views, without nulls, whatever its text says."""
    app = App("chosen")
    left = app.source("L", "k string, x double").select("k", "coalesce(x, 0.5) AS x", name="M")
    right = app.source("R", "k string, y double")
    left.join(right, on="k", left_window=count(1), right_window=zero(), name="J").sink("Out")
    graph = app.build()
    given = {name: with_keys({"k": ["a", "b"], c: pa.array([1.0, None])}) for name, c in (("L", "x"), ("R", "y"))}
    assert ran(graph, given) == ran(graph, given, cut_everywhere=True)


def test_text_and_bytes_of_one_operator_stay_what_they_are():
    app = App("both")
    app.source("S", "k string, s string, z binary").aggregate(
        "first(s) AS s", "last(z) AS z", window=count(3), every=count(1), by="k", name="A"
    ).sink("Out")
    given = with_keys({"k": ["a", "a"], "s": ["x", None], "z": pa.array([b"\xff", None], pa.binary())})
    graph = app.build()
    assert ran(graph, {"S": given}) == ran(graph, {"S": given}, cut_everywhere=True)


def with_keys(columns):
    rows = len(next(iter(columns.values())))
    ts = pa.array(range(rows), pa.timestamp("us", "UTC"))
    return pa.record_batch(columns | {"_ts": ts, "_seq": pa.array(range(rows), pa.int64())})


def test_groups_without_end():
    """Tables of groups grow in the middle of a batch, and nothing is lost on the way."""
    app = App("groups")
    source(app).aggregate(
        "sum(i) AS i", "count(*) AS n", window=count(2), every=count(1), by=["k", "x"], name="A"
    ).sink("Out")
    size = 3000
    keys = [f"k{j % 1000}" for j in range(size)]
    given_ = rows(k=keys, x=[float(j % 1500) for j in range(size)], i=list(range(size)))
    compared(app.build(), [("S", given_.slice(0, 100)), ("S", given_.slice(100))], ["S"])


def test_a_row_may_bring_several_groups():
    app = App("several")
    stream = source(app)
    doubled = stream.union(stream.select("k", "x + 10000 AS x", "i", name="Other"), name="U")
    doubled.aggregate("sum(i) AS i", window=count(2), every=count(1), by="x", name="A").sink("Out")
    right = stream.select("x * 2 AS y", "i AS j", name="R")
    stream.join(right, on=[("x", "y")], left_window=count(1), right_window=zero(), name="J").sink("Out2")
    given_ = rows(x=[float(j) for j in range(200)], i=list(range(200)))
    compared(app.build(), [("S", given_.slice(0, 97)), ("S", given_.slice(97))], ["S"])


NASTY = st.sampled_from(
    [1e16, -1e16, 1.0, 0.1, -0.1, 1e-300, 1e300, 1.7e308, *map(float, ("inf", "-inf", "nan")), -0.0, None]
)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), NASTY, st.integers(-(2**58), 2**58)), min_size=1, max_size=120),
    st.sampled_from([(count(20), count(1), True), (count(20), count(20), True), (count(17), count(3), False),
                     (time("25us"), count(1), True), (time("25us"), count(4), True)]),
    st.sampled_from([1, 13, 200]),
)  # fmt: skip
def test_running_sums_are_those_of_the_window(values, windows, size):
    """Whatever is added and taken away again: sums lose nothing, beyond what a double holds and behind infinities."""
    window, every, partial = windows
    app = App("running")
    calls = ["sum(x) AS s", "avg(x) AS a", "count(x) AS n", "sum(i) AS t", "first(x) AS f", "last(k) AS l"]
    source(app).aggregate(*calls, window=window, every=every, by="k", partial=partial, name="A").sink("Out")
    graph = app.build()
    given_ = rows(k=[k for k, _, _ in values], x=pa.array([x for _, x, _ in values], pa.float64()),
                  i=[i for _, _, i in values])  # fmt: skip
    assert begins(graph, "A") is None
    compared(graph, [("S", piece) for piece in cut(given_, [size])], ["S"])


def test_sums_go_on_while_infinities_are_in_the_window():
    """They are counted beside: a window that has one is not added up anew at every tuple."""
    app = App("running")
    source(app).aggregate("sum(x) AS s", window=count(20), every=count(1), name="A").sink("Out")
    engine = Engine(app.build())
    values = [float("nan"), 1.0, float("inf"), 2.0, *[0.5] * 20, -float("inf"), 3.0]
    given_ = rows(k=["a"] * len(values), x=values, i=[0] * len(values))
    sums = [row["s"] for output in engine.push("S", given_) for row in output.event.to_pylist()]
    assert list(map(str, sums)) == ["nan"] * 20 + ["inf"] * 2 + ["11.5", "10.0", "-inf", "-inf"]
    assert engine.operators["A"].running.floats[0].tolist() == [12.0, 0.0, 0.0]


# Compiled -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """A compiler with a cache of its own, that compiles before the first row."""
    own = compiling.Compiler(compiling.Policy.ALWAYS, tmp_path / "compiled")
    monkeypatch.setattr("riprap.engine.piece.COMPILER", own)
    return own


def ticks():
    from riprap.apps import market

    return market.generate(20_000, seed=3).combine_chunks().to_batches()[0]


def test_compiled_is_interpreted_bit_for_bit(compiler):
    """Bargain Discovery: once compiled, once read from the cache, once interpreted."""
    graph, batch = load_app("bargain-discovery"), ticks()
    compiled = Engine(graph)
    first = collected(graph, compiled.run({"Source": [batch]}))
    assert compiler.compilations == 1
    assert len(first["Sink"]) > 100
    again = compiling.Compiler(compiling.Policy.WHEN_WORTH_IT, compiler.directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("riprap.engine.piece.COMPILER", again)
        assert collected(graph, Engine(graph).run({"Source": [batch.slice(0, 50)]})) is not None
        assert again.compilations == 0
        assert again._made  # from the cache, although there were few rows
        patch.setattr("riprap.engine.piece.COMPILER", compiling.Compiler(compiling.Policy.NEVER))
        interpreted = Engine(graph)
        assert collected(graph, interpreted.run({"Source": [batch]})) == first
    assert repr(interpreted.digests()) == repr(compiled.digests())
    apart = Engine(graph, cut_everywhere=True)
    assert collected(graph, apart.run({"Source": [batch]})) == first


def texts(chosen="x AS z", names=("M", "A", "F"), size=3):
    """Of an app with these names of operators."""
    app = App("text")
    made = source(app).filter("i > 0", name=names[2]).select("k", chosen, name=names[0])
    column = chosen.split()[-1]
    made.aggregate(f"sum({column}) AS y", window=count(size), every=count(1), by="k", name=names[1]).sink("Out")
    source(other := App("only")).select(chosen, name=names[0]).sink("Out")
    return [running.text for graph in (app.build(), other.build()) for running in Engine(graph).running]


def test_equal_shapes_have_one_text_and_one_text_has_one_signature():
    """Names and sizes do not matter. Columns of other types are another function, but for those that nothing is
    computed with: they are passed by."""
    assert texts() == texts("x AS value", names=("A", "op_M", "n_op_F"), size=2)
    other = texts("i AS z")
    assert [text == same for text, same in zip(texts(), other, strict=True)] == [False, True]
    assert not set(texts("- x AS z")) & set(texts("- i AS z"))


def test_every_kind_of_expression_compiles(compiler):
    """What is computed without text of several columns, in one select: compiled, interpreted and on columns alike."""
    app = App("expressions")
    expressions = [
        "i + 1 AS a", "i * 3 - i AS b", "x / (i + 9) AS c", "i div 2 AS c1", "pmod(i, 3) AS c2", "i & 6 AS c3",
        "i % 3 AS d", "-x AS e", "abs(i) AS f", "round(x, 1) AS g",
        "floor(x) AS h", "sqrt(abs(x)) AS l", "x > 1 AND i < 2 AS m", "NOT (x > 1) OR k = 'a' AS n",
        "i IN (1, 2, NULL) AS o",
        "CASE WHEN i > 1 THEN x WHEN k = 'b' THEN 0.5 END AS p", "coalesce(x, i, 7) AS q", "nullif(i, 2) AS r",
        "least(x, i) AS s", "greatest(i, 2) AS t", "cast(x AS long) AS u", "cast(i AS float) AS v",
        "cast(i AS boolean) AS w",
        "hour(_ts) AS y", "year(_ts) * 100 + month(_ts) AS z", "k IS NULL AS aa", "upper(k) AS bb", "length(k) AS cc",
        "isnan(x) AS dd", "cast(_ts AS date) AS ee", "x IS NULL AS ff", "k AS gg", "unix_micros(_ts) AS hh",
        "exp(x) AS ii", "ln(x) AS jj", "log(2, i) AS kk", "log(i, x) AS ll", "power(x, i) AS mm", "log10(x) AS nn",
    ]  # fmt: skip
    source(app).filter("i <> 99", name="F").select(*expressions, name="M").sink("Out")
    graph = app.build()
    given_ = rows(i=[1, 2, None, -3, 0, 5], x=[1.5, None, -2.25, 0.0, 3.5, 1.0], k=["a", "b", None, "é", "a", "b"])
    compiled = collected(graph, Engine(graph).push("S", given_))
    assert compiler.compilations == 1
    assert compiled == collected(graph, Engine(graph, cut_everywhere=True).push("S", given_))
    compiler.policy, compiler._made = compiling.Policy.NEVER, {}
    assert compiled == collected(graph, Engine(graph).push("S", given_))


CALLS = [
    "sum(x) AS a", "sum(i) AS b", "avg(x) AS c", "avg(i) AS d", "min(x) AS e", "max(i) AS f", "count(x) AS g",
    "count(*) AS h", "first(k) AS l", "last(x) AS m",
]  # fmt: skip


RUNNING = [call for call in CALLS if not call.startswith("m")]


def every_step():
    """One piece in which there is every step, with every kind of key, window, argument and numbering."""
    app = App("steps")
    stream = source(app)
    low, high = stream.split("i < 3", otherwise=True, name="Split")
    both = low.union(high, name="Union")
    both.aggregate(*CALLS, window=count(3), every=count(1), by="k", name="Sliding").sink("Out")
    both.aggregate(*CALLS[:2], window=count(2), by=["k", "x"], name="Tumbling").sink("Out2")
    both.aggregate("sum(i) AS i", window=count(4), every=count(2), name="Ungrouped").sink("Out3")
    both.aggregate(*CALLS, window=time("9us"), every=time("3us"), by=["k", "x"], name="Timed").sink("Out5")
    both.aggregate(*RUNNING, window=time("9us"), every=count(1), by="k", name="Rolling").sink("Out6")
    both.aggregate(*RUNNING[:2], "first(k) AS l", window=count(20), every=count(2), partial=False, name="Long").sink(
        "Out7"
    )
    right = stream.filter("i > 1", name="F").select("k AS key", "x AS y", "upper(k) AS t", name="Right")
    stream.join(
        right, on=[("k", "key")], left_window=zero(), right_window=count(1), where="x >= y OR t = 'B'", name="Join"
    ).sink("Out4")
    stream.join(
        right.select("key AS k", "y", "y > 0.5 AS b", "t", name="Again"), on="k", left_window=zero(),
        right_window=count(1), where="x >= y", how="left", select=["k", "y", "b", "coalesce(t, '?') AS t"], name="Left",
    ).sink("Out8")  # fmt: skip
    return app.build()


def test_every_step_compiles(compiler):
    """The one other text that tests have compiled: with those above they are far fewer than 60, and counted."""
    graph = every_step()
    assert [piece.operators for piece in Engine(graph).pieces[1:]] == [("Out5",)]
    size = 60
    given_ = rows(
        k=[None if j % 7 == 0 else "abc"[j % 3] for j in range(size)],
        x=[None if j % 5 == 0 else j % 4 / 2 for j in range(size)],
        i=[None if j % 11 == 0 else j % 6 for j in range(size)],
    )
    compared(graph, [("S", given_.slice(0, 17)), ("S", given_.slice(17))], ["S"])
    assert compiler.compilations == 1


@pytest.mark.soak
@settings(max_examples=25)
@given(st.data(), apps(sources=(1, 1), operators=(2, 6), kinds=STEPS))
def test_random_graphs_compile(data, graph):
    """As above, with machine code: a second or so an example."""
    ((name, batch),) = data.draw(inputs(graph)).items()
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as place:
        own = compiling.Compiler(compiling.Policy.ALWAYS, Path(place) / "compiled")
        patch.setattr("riprap.engine.piece.COMPILER", own)
        compared(graph, [(name, piece) for piece in cut(batch, [3, 50])], [name])


def test_few_rows_are_interpreted_unless_prepared(compiler):
    compiler.policy = compiling.Policy.WHEN_WORTH_IT
    app = App("small")
    source(app).filter("i > 0", name="F").sink("Out")
    engine = Engine(app.build())
    engine.push("S", rows(i=[1, 2]))
    assert compiler.compilations == 0
    assert not compiler._made
    engine.prepare()
    engine.prepare()
    assert compiler.compilations == 1


def test_a_cache_that_others_can_write_is_refused(tmp_path, monkeypatch):
    place = tmp_path / "shared"
    place.mkdir(mode=0o700)
    assert compiling.cache_directory(place) == place
    place.chmod(0o777)
    with pytest.raises(MissingPrerequisite, match="others can write"):
        compiling.cache_directory(place)
    assert compiling.cache_directory(tmp_path / "new").stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv("RIPRAP_COMPILED", str(tmp_path / "set"))
    assert compiling.cache_directory() == tmp_path / "set"


def test_without_a_place_for_it_nothing_is_kept(tmp_path, monkeypatch):
    """A read-only installation, a user without a home: compiled all the same, in this process."""
    (tmp_path / "file").write_text("no directory can be made below this")
    own = compiling.Compiler(compiling.Policy.ALWAYS, tmp_path / "file" / "compiled")
    monkeypatch.setattr("riprap.engine.piece.COMPILER", own)
    app = App("small")
    source(app).filter("i > 1", name="F").sink("Out")
    graph = app.build()
    engine = Engine(graph)
    assert engine.compile_first() == 0
    assert [row["i"] for row in engine.push("S", rows(i=[1, 2, 3]))[0].event.to_pylist()] == [2, 3]
    assert own._made
    for name in ("RIPRAP_COMPILED", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def nobody(cls):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", classmethod(nobody))
    assert compiling.cache_directory() is None


def test_names_follow_text_and_helpers(monkeypatch, tmp_path):
    name = compiling._name("def piece(): pass")
    assert name == compiling._name("def piece(): pass")
    assert name != compiling._name("def piece(): return")
    helper = tmp_path / "helper.py"
    helper.write_text("changed")
    other = type("Module", (), {"__file__": str(helper)})
    monkeypatch.setattr(compiling, "_HELPERS", (other,))
    assert name != compiling._name("def piece(): pass")


def test_many_operators_have_many_counters():
    app = App("many")
    stream = source(app)
    for number in range(38):
        stream = stream.aggregate(
            "max(i) AS i", "max(x) AS x", window=count(2), every=count(1), by="k", name=f"A{number}"
        )
    stream.sink("Out")
    graph = app.build()
    given_ = rows(k=["a", "b", "a", None] * 5, x=[float(i) for i in range(20)], i=list(range(20)))
    compared(graph, [("S", given_)], ["S"])
    assert len(Engine(graph).pieces) == 1


@pytest.mark.parametrize("second", ["k = 'b' OR k IS NULL", "k IS NULL", "NOT k = 'a'"])
def test_conditions_on_one_text_column_share_a_look_up(second):
    app = App("conditions")
    stream = source(app)
    stream.filter("i > 3", name="Some").filter("k = 'a'", name="First").sink("Out")
    stream.filter(second, name="Second").filter("k = 'b'", name="Both").sink("Out2")
    stream.filter(second, name="Third").sink("Out3")
    graph = app.build()
    given_ = rows(k=["a", "b", None, "c"] * 5, x=[0.5] * 20, i=list(range(20)))
    compared(graph, [("S", given_)], ["S"])


def test_views_can_be_pushed():
    from riprap.operators.views import Views

    graph, batch = load_app("bargain-discovery"), ticks().slice(0, 2000)
    assert collected(graph, Engine(graph).push("Source", Views.of(batch))) == collected(
        graph, Engine(graph, cut_everywhere=True).push("Source", Views.of(batch))
    )
    assert np.all(batch.column("_seq").to_numpy() >= 0)
