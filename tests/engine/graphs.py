"""Random apps whose streams all have the same columns, random inputs for them, and ways to run them."""

import pyarrow as pa
from hypothesis import strategies as st

from riprap.engine.engine import Engine
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.order_keys import KEY_COLUMNS
from riprap.graph.windows import Session, count, punctuated, session_window, time, zero
from riprap.operators.contract import Punctuation

SCHEMA = "k string, x double, i long"
COLUMNS = ["k", "x", "i"]
windows = st.one_of(
    st.sampled_from([1, 2, 4]).map(count),
    st.sampled_from(["2us", "7us"]).map(time),
    st.just(punctuated()),
    st.just(session_window("3us")),
)
join_windows = st.one_of(st.sampled_from([1, 3]).map(count), st.sampled_from(["3us", "20us"]).map(time))


@st.composite
def apps(draw, *, sources=(1, 2), operators=(1, 7), kinds=None):
    """A graph of random operators: chains, diamonds, several sources; every loose end leads to a sink."""
    app = App("random")
    streams = [app.source(f"S{j}", SCHEMA) for j in range(draw(st.integers(*sources)))]
    unused = set(streams)

    def pick():
        stream = draw(st.sampled_from(streams))
        unused.discard(stream)
        return stream

    for j in range(draw(st.integers(*operators))):
        kind = draw(st.sampled_from(kinds or KINDS))
        made = BUILD[kind](draw, pick, f"{kind}{j}")
        for stream in made:
            streams.append(stream)
            unused.add(stream)
    for j, stream in enumerate(s for s in streams if s in unused):
        stream.sink(f"Sink{j}")
    return app.build()


def _filter(draw, pick, name):
    return [
        pick().filter(
            draw(st.sampled_from(["i > 0", "x < 2 or x is null", "x is not null", "k = 'a'", "k rlike '^[aü]'"])),
            name=name,
        )
    ]


def _map(draw, pick, name):
    return [pick().select("k", "x * 2 AS x", "i", name=name)]


def _punctuate(draw, pick, name):
    place = draw(st.sampled_from(["after", "before"]))
    return [pick().punctuate(**{place: draw(st.sampled_from(["i = 1", "k = 'b'"]))}, name=name)]


def _aggregate(draw, pick, name):
    size = draw(windows)
    every = (
        None
        if size == punctuated() or isinstance(size, Session)
        else draw(st.sampled_from([None, count(1), count(2), time("2us")]))
    )
    by = draw(st.sampled_from(["k", ()]))
    x, i = draw(st.sampled_from([("sum(x)", "count(*)"), ("percentile(x, 0.9)", "count(distinct x)")]))
    calls = [f"{x} AS x", f"{i} AS i"] if by else ["last(k) AS k", f"{x} AS x", f"{i} AS i"]
    return [pick().aggregate(*calls, window=size, every=every, by=by, name=name)]


def _join(draw, pick, name):
    left = pick()
    right = pick().rename({"x": "y", "i": "j"}, name=f"{name}r")
    ports = draw(st.sampled_from([(0, 1), (0, None), (None, 1)]))
    chosen = [draw(join_windows) if port is not None else zero() for port in ports]
    made = left.join(
        right,
        on="k",
        left_window=chosen[0],
        right_window=chosen[1],
        per_group=draw(st.booleans()),
        select=["k", "x", "coalesce(j, -1) AS i"],
        how=draw(st.sampled_from(["inner", "inner", "left", "full"])),
        name=name,
    )
    return [made]


def _sort(draw, pick, name):
    size = draw(windows.filter(lambda window: not isinstance(window, Session)))
    return [pick().sort(draw(st.sampled_from(["x", "i desc"])), window=size, name=name)]


def _barrier(draw, pick, name):
    other = pick().select("i AS j", name=f"{name}r")
    return [pick().barrier(other, name=f"{name}b").select("k", "x", "j AS i", name=name)]


def _union(draw, pick, name):
    return [pick().union(*(pick() for _ in range(draw(st.integers(1, 2)))), name=name)]


def _split(draw, pick, name):
    return pick().split("i > 0", "k = 'a'", otherwise=draw(st.booleans()), name=name)


def _delay(draw, pick, name):
    return [pick().delay(draw(st.sampled_from(["1us", "5us"])), name=name)]


def _scan(draw, pick, name):
    by = draw(st.sampled_from(["k", ()]))
    state = {"last": ("0.0", "x"), "total": ("0", "total + i")}
    columns = ["k", "last AS x", "total AS i"]
    return [pick().scan(*columns, state=state, by=by, where=draw(st.sampled_from([None, "total > 0"])), name=name)]


BUILD = {
    "delay": _delay,
    "scan": _scan,
    "filter": _filter,
    "map": _map,
    "punctuate": _punctuate,
    "aggregate": _aggregate,
    "join": _join,
    "sort": _sort,
    "barrier": _barrier,
    "union": _union,
    "split": _split,
}
KINDS = list(BUILD)


@st.composite
def inputs(draw, graph: Graph, most: int = 30) -> dict[str, pa.RecordBatch]:
    """A batch with everything for each source; ties in `_ts`."""
    given = {}
    for source in graph.sources:
        size = draw(st.integers(0, most))
        steps = draw(st.lists(st.sampled_from([0, 0, 1, 1, 2, 9]), min_size=size, max_size=size))
        ts = [sum(steps[: j + 1]) for j in range(size)]
        columns = {
            "k": draw(st.lists(st.sampled_from(["a", "b", "ü", None]), min_size=size, max_size=size)),
            "x": draw(st.lists(st.sampled_from([0.1, 1.0, -3.5, 1e9, None]), min_size=size, max_size=size)),
            "i": draw(st.lists(st.integers(-2, 3), min_size=size, max_size=size)),
        }
        arrays = [pa.array(columns["k"], pa.string()), pa.array(columns["x"], pa.float64())]
        arrays += [pa.array(columns["i"], pa.int64()), pa.array(ts, pa.timestamp("us", "UTC"))]
        arrays.append(pa.array(range(size), pa.int64()))
        given[source.name] = pa.RecordBatch.from_arrays(arrays, names=[*COLUMNS, "_ts", "_seq"])
    return given


def cut(batch: pa.RecordBatch, sizes) -> list[pa.RecordBatch]:
    """In pieces of these sizes, in turn; text encoded in every other one."""
    pieces, at, turn = [], 0, 0
    while at < batch.num_rows:
        size = sizes[turn % len(sizes)]
        piece = batch.slice(at, size)
        if turn % 2:
            piece = piece.set_column(0, "k", piece.column("k").dictionary_encode())
        pieces.append(piece)
        at, turn = at + size, turn + 1
    return pieces


def collected(graph: Graph, outputs) -> dict[str, list]:
    """What each sink, or leaving stream, got: rows with their whole keys."""
    out: dict[str, list] = {}
    for name, event in outputs:
        rows = out.setdefault(name, [])
        if isinstance(event, Punctuation):
            rows.append(("punctuation", event.key))
            continue
        names = [n for n in event.schema.names if n not in KEY_COLUMNS] + [
            n for n in KEY_COLUMNS if n in event.schema.names
        ]
        columns = [event.column(n).cast(pa.int64()) if n == "_ts" else event.column(n) for n in names]
        rows += [
            tuple((n, repr(value)) for n, value in zip(names, values, strict=True))
            for values in zip(*(c.to_pylist() for c in columns), strict=True)
        ]
    return out


def ran(graph: Graph, given, sizes=(10**9,), **options) -> dict[str, list]:
    engine = Engine(graph, **options)
    return collected(graph, engine.run({name: cut(batch, sizes) for name, batch in given.items()}))
