"""Random streams for operator tests, and the plumbing between batches and the reference's tuples."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from tests.operators.reference import Mark, Row

from riprap.graph.graph import Graph
from riprap.graph.order_keys import KeyShape, OrderKey, physical_schema
from riprap.operators.build import make_operator
from riprap.operators.columns import keys_of
from riprap.operators.contract import Channel, Punctuation

WORDS = ["", "a", "b", "aa", "ä", "東京", "🙂", "a longer one than eight bytes", "naïve"]
FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, 1e300, -1e300, 1e-320, 5e-324, 1e16, float("nan"), float("inf"), float("-inf")]
VALUES = {
    pa.string(): st.sampled_from(WORDS),
    pa.binary(): st.sampled_from([b"", b"\xff", b"\x00\x01"]),
    pa.int64(): st.one_of(st.integers(-3, 3), st.integers(-(2**40), 2**40)),
    pa.int8(): st.integers(-128, 127),
    pa.uint32(): st.integers(0, 2**32 - 1),
    pa.float64(): st.one_of(st.sampled_from(FLOATS), st.floats(width=64)),
    pa.float32(): st.sampled_from([0.0, -0.0, 1.5, -2.25, float("nan")]),
    pa.bool_(): st.booleans(),
    pa.date32(): st.integers(-1000, 20000),
    pa.timestamp("us", "UTC"): st.integers(-(10**15), 10**15),
}
KEY_TYPES = [pa.string(), pa.int64(), pa.float64(), pa.bool_(), pa.date32(), pa.int8(), pa.binary()]


@dataclass
class Feed:
    """What is delivered: rows as the reference sees them, and the same as Arrow columns of each port."""

    schemas: list[pa.Schema]
    shapes: list[KeyShape]
    items: list[tuple[int, Row | Mark]] = field(default_factory=list)


def column(name: str, type_: pa.DataType, values: list, encoded: bool) -> pa.Array:
    if pa.types.is_date32(type_):
        return pa.array(values, pa.int32()).cast(type_)
    array = pa.array(values, type_)
    return array.dictionary_encode() if encoded and type_ in (pa.string(), pa.binary()) else array


def raw(array: pa.Array) -> list:
    """Values as plain Python: numbers for dates and times, text decoded."""
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    if pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    return array.to_pylist()


def batch(schema: pa.Schema, shape: KeyShape, rows: list[Row], encoded: bool) -> pa.RecordBatch:
    columns = {f.name: column(f.name, f.type, [row.values[f.name] for row in rows], encoded) for f in schema}
    parts = (
        dict(zip(("_ts", "_src", "_seq", "_n"), zip(*(row.key for row in rows), strict=True), strict=True))
        if (rows)
        else dict.fromkeys(("_ts", "_src", "_seq", "_n"), ())
    )
    columns |= {f.name: pa.array(parts[f.name], f.type) for f in shape.fields}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


@st.composite
def values(draw, schema: pa.Schema):
    row = {}
    for f in schema:
        value = VALUES[f.type]
        row[f.name] = draw(st.one_of(st.none(), value) if f.nullable else value)
    return row


@st.composite
def feeds(draw, graph: Graph, name: str, *, most: int = 40, marks: bool = True, step: int = 3, rows=None):
    """A delivery to an operator, in the order of keys; ties in `_ts`, and punctuations between rows."""
    schemas, shapes = list(graph.input_schemas(name)), list(graph.input_shapes(name))
    feed = Feed(schemas, shapes)
    keyed = []
    ts = draw(st.integers(-20, 20))
    for seq in range(draw(st.integers(0, most))):
        ts += draw(st.sampled_from([0, 0, 1, 1, step, 4 * step]))
        ports = draw(st.sets(st.integers(0, len(schemas) - 1), min_size=1, max_size=2))
        for port in ports:
            shape = shapes[port]
            src = shape.src if shape.src is not None else draw(st.sampled_from(sorted(shape.origins)))
            for n in sorted(draw(st.sets(st.integers(0, 5), min_size=1, max_size=3))) if shape.n else [0]:
                row = draw(rows[port] if rows else values(schemas[port]))
                keyed.append(((ts, src, seq, n), port, row))
    keyed.sort(key=lambda entry: entry[:2])
    for key, port, row in keyed:
        feed.items.append((port, Row(key, row)))
        if marks and draw(st.integers(0, 9)) == 0:
            feed.items.append((port, Mark(key)))
    return feed


def run(graph: Graph, name: str, feed: Feed, random, *, end: bool = True) -> list[tuple[int, Row | Mark]]:
    """Deliver a feed in random pieces, sometimes merged, with progress now and then."""
    operator = make_operator(graph, name)
    out: list[tuple[int, Row | Mark]] = []
    at = 0
    while at < len(feed.items):
        port, item = feed.items[at]
        if isinstance(item, Mark):
            out += _taken(operator, operator.punctuate(Channel(port), Punctuation(OrderKey(*item.key))))
            at += 1
            continue
        stop = at + 1
        limit = at + random.choice([1, 2, 7, 1000])
        while stop < min(limit, len(feed.items)) and isinstance(feed.items[stop][1], Row):
            stop += 1
        pieces = [[row for p, row in feed.items[at:stop] if p == port] for port in range(len(feed.schemas))]
        encoded = random.random() < 0.5
        batches = [batch(*entry, encoded) for entry in zip(feed.schemas, feed.shapes, pieces, strict=True)]
        ports = np.array([p for p, _ in feed.items[at:stop]], np.int8)
        if len(set(ports.tolist())) == 1 and random.random() < 0.5:
            out += _taken(operator, operator.process(Channel(int(ports[0])), batches[ports[0]]))
        else:
            out += _taken(operator, operator.process_merged(batches, ports))
        if random.random() < 0.2:
            out += _taken(operator, operator.process(Channel(port), batches[port].slice(0, 0)))
        at = stop
        key = feed.items[stop - 1][1].key
        if random.random() < 0.5 and all(item.key > key for _, item in feed.items[stop:] if isinstance(item, Row)):
            out += _taken(operator, operator.watermark(OrderKey(*key)))
    return out + (_taken(operator, operator.end()) if end else [])


def _taken(operator, emissions) -> list[tuple[int, Row | Mark]]:
    out: list[tuple[int, Row | Mark]] = []
    for emission in emissions:
        if isinstance(emission.event, Punctuation):
            out.append((emission.port, Mark(tuple(emission.event.key))))
            continue
        schema = operator.setting.output_schemas[emission.port]
        shape = operator.setting.output_shapes[emission.port]
        expected = [f.name for f in physical_schema(schema, shape)]
        assert [n for n in emission.event.schema.names if n in expected] == expected
        columns = [raw(emission.event.column(n)) for n in schema.names]
        keys = keys_of(emission.event, shape)
        for i in range(emission.event.num_rows):
            row = {n: c[i] for n, c in zip(schema.names, columns, strict=True)}
            out.append((emission.port, Row(tuple(keys.at(i)), row)))
    return out


def as_events(feed: Feed):
    """The feed's ports as events for the checker, in several batches encoded in turn."""
    ports = []
    for port, (schema, shape) in enumerate(zip(feed.schemas, feed.shapes, strict=True)):
        events, rows = [batch(schema, shape, [], False)], []
        for number, (_, item) in enumerate(entry for entry in feed.items if entry[0] == port):
            if isinstance(item, Row):
                rows.append(item)
            if isinstance(item, Mark) or number % 5 == 4:
                events.append(batch(schema, shape, rows, number % 2 == 0))
                rows = []
            if isinstance(item, Mark):
                events.append(Punctuation(OrderKey(*item.key)))
        ports.append([*events, batch(schema, shape, rows, True)])
    return ports


def same(found: list, expected: list) -> None:
    """Equal, NaN and all; zeros compare as numbers."""
    assert [_plain(x) for x in found] == [_plain(x) for x in expected]


def _plain(entry) -> tuple:
    port, item = entry
    if isinstance(item, Mark):
        return port, "mark", item.key
    return port, item.key, {n: "NaN" if isinstance(v, float) and v != v else v for n, v in item.values.items()}
