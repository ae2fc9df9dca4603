"""Hard input for operators: the edge values of every type, repeated, in a seeded order.

Both zeros, NaN of both signs, infinities, denormals and the largest numbers; the least and greatest integers; empty
text and text beyond ASCII; NULL where a column may have it. Each appears often, so that equal values, and values
that only compare equal, meet in one window. `riprap.testing.checker` uses this where it is given no input.
"""

from decimal import Context, Decimal

import numpy as np
import pyarrow as pa

from riprap.base.randomness import generator
from riprap.expressions.row_values import array_of, values_of
from riprap.graph.graph import Graph
from riprap.graph.order_keys import OrderKey
from riprap.operators.contract import Event, Punctuation

_TEXT = ["", " ", "a", "A", "ä", "a\u0308", "東京", "🙂", "\x00", "longer than eight bytes"]
_STEPS = [0, 0, 0, 1, 2, 1_000, 2_000_000]  # microseconds between tuples: ties, and gaps that end windows
_EXACT = Context(prec=80)
_POOL = 6  # distinct values of one column in one input


def edge_inputs(graph: Graph, name: str, seed: int, rows: int = 48) -> list[list[Event]]:
    """For each port of an operator a batch of up to `rows` tuples between punctuations, in key order."""
    chance = generator(seed, "edges", name)
    ts = np.cumsum(chance.choice(_STEPS, rows)).tolist()  # by `_seq`, the same on all ports: they may share a source
    ports = []
    for schema, shape in zip(graph.input_schemas(name), graph.input_shapes(name), strict=True):
        sources = sorted(shape.origins) if shape.src is None else [shape.src]
        keys = sorted(
            OrderKey(int(at), int(chance.choice(sources)), seq, int(chance.integers(3)) if shape.n else 0)
            for seq, at in enumerate(ts)
        )
        columns = [_drawn(chance, field, rows) for field in schema]
        parts = dict(zip(("_ts", "_src", "_seq", "_n"), zip(*keys, strict=True), strict=True))
        columns += [pa.array(parts[field.name], field.type) for field in shape.fields]
        batch = pa.RecordBatch.from_arrays(columns, names=[*schema.names, *(field.name for field in shape.fields)])
        middle = int(chance.integers(rows))
        ports.append([batch.slice(0, middle + 1), Punctuation(keys[middle]), batch.slice(middle + 1)])
    return ports


def edges(type_: pa.DataType) -> pa.Array:
    """The values of a type that operators are most likely to get wrong."""
    if pa.types.is_floating(type_):
        kind = np.dtype(type_.to_pandas_dtype())
        info, bits = np.finfo(kind), np.dtype(f"i{kind.itemsize}")
        zeros = np.array([0.0, -0.0], kind)
        nan = np.array([np.nan], kind)
        negative = (nan.view(bits) | np.iinfo(bits).min).view(kind)
        small = np.array([info.smallest_subnormal, -info.smallest_subnormal, info.tiny], kind)
        rest = np.array([1.0, -1.5, np.inf, -np.inf, info.max, info.min, info.eps], kind)
        return pa.array(np.concatenate([zeros, nan, negative, small, rest]))
    if pa.types.is_integer(type_):
        limits = np.iinfo(type_.to_pandas_dtype())
        least, most = int(limits.min), int(limits.max)
        values = {0, 1, 2, least, least + 1, most, most - 1, -1 if least else 3}
        return pa.array(sorted(values), type_)
    if pa.types.is_date32(type_):
        return pa.array([0, -1, 1, 2**31 - 1, -(2**31)], pa.int32()).cast(type_)
    if pa.types.is_timestamp(type_):
        return pa.array([0, -1, 1, 2**63 - 1, -(2**63)], pa.int64()).cast(type_)
    if pa.types.is_boolean(type_):
        return pa.array([True, False])
    if pa.types.is_string(type_):
        return pa.array(_TEXT)
    if pa.types.is_decimal(type_):
        most = 10**type_.precision - 1
        return pa.array([Decimal(n).scaleb(-type_.scale, _EXACT) for n in (0, 1, -1, most, -most)], type_)
    if pa.types.is_list(type_):
        inner = values_of(edges(type_.value_type))
        return array_of([[], inner[:1], [None], inner[:2], [inner[-1], None]], type_)
    if pa.types.is_map(type_):
        keys, items = values_of(edges(type_.key_type)), values_of(edges(type_.item_type))
        return array_of(
            [[], [(keys[0], items[0])], [(keys[0], None)], list(zip(keys[:2], items[:2], strict=True))], type_
        )
    if pa.types.is_struct(type_):
        columns = [values_of(edges(field.type)) for field in type_]
        rows = [tuple(column[k % len(column)] for column in columns) for k in range(4)]
        return array_of([*rows, (None,) * len(columns)], type_)
    return pa.array([text.encode() for text in _TEXT] + [b"\xff"], type_)


def _drawn(chance: np.random.Generator, field: pa.Field, rows: int) -> pa.Array:
    """Few distinct values, so that many are equal; for floats always some that only compare equal."""
    values = edges(field.type)
    pool = chance.choice(len(values), min(_POOL, len(values)), replace=False)
    if pa.types.is_floating(field.type) and chance.integers(2):
        pool = np.concatenate([pool[:1], [0, 1]])  # both zeros and few others
    rows_of = chance.choice(pool, rows)
    missing = chance.integers(4, size=rows) == 0 if field.nullable and chance.integers(2) else None
    return values.take(pa.array(rows_of, mask=missing))
