"""The order key: the identity and the order of a tuple.

A key has four parts, compared in this order:

    _ts   timestamp('us', 'UTC')  event time; never decreases within a source
    _src  int32                   rank of the source; TIMER for output that a time boundary triggers
    _seq  int64                   strictly ascending within its source; the boundary's number for TIMER
    _n    int64                   emission index among outputs that share (_ts, _src, _seq);
                                  the hash of the group (63 bits) if several groups emit together

A part that is constant in a stream is not a column of it. `KeyShape` specifies, for one stream, which parts are columns
and the values of the constants. It depends only on the graph (see the operator specifications).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

TS, SRC, SEQ, N = "_ts", "_src", "_seq", "_n"
KEY_COLUMNS = (TS, SRC, SEQ, N)

# Rank of the virtual source of time boundaries. It sorts before every real source, because a boundary at time t
# closes windows that end before t: it precedes every tuple whose _ts is t.
TIMER = -1

TS_TYPE = pa.timestamp("us", "UTC")


class OrderKey(NamedTuple):
    """One key, as plain integers; keys compare in row order. An unknown or unneeded part is 0."""

    ts: int  # microseconds since 1970-01-01 UTC
    src: int = 0
    seq: int = 0
    n: int = 0


# Beyond all real keys: the watermark of a stream that has ended, and of one that has not started.
END_KEY = OrderKey(2**63 - 1, 2**31 - 1, 2**63 - 1, 2**63 - 1)
START_KEY = OrderKey(-(2**63), -(2**31), -(2**63), 0)


def just_before(key: OrderKey) -> OrderKey:
    """A key below `key` and above every other key below it."""
    return key._replace(n=key.n - 1) if key.n > 0 else OrderKey(key.ts, key.src, key.seq - 1, 2**63 - 1)


def just_after(key: OrderKey) -> OrderKey:
    """A key above `key` and below every other key above it."""
    greatest = (2**63 - 1, 2**31 - 1, 2**63 - 1, 2**63 - 1)
    least = (0, -(2**31), -(2**63), 0)
    part = max(at for at in range(4) if key[at] < greatest[at])
    return OrderKey(*(*key[:part], key[part] + 1, *least[part + 1 :]))


@dataclass(frozen=True)
class KeyShape:
    """Which parts of the order key are columns of a stream."""

    src: int | None  # the constant rank; None: _src is a column
    n: bool  # whether _n is a column; else it is 0
    origins: frozenset[int]  # ranks of keys in this stream: two streams can have equal keys only with a common one
    marks: frozenset[int | None] = frozenset()  # ranks of punctuations (`mark_keys`); None: no `_seq` orders them

    @property
    def fields(self) -> list[pa.Field]:
        fields = [pa.field(TS, TS_TYPE, nullable=False)]
        if self.src is None:
            fields.append(pa.field(SRC, pa.int32(), nullable=False))
        fields.append(pa.field(SEQ, pa.int64(), nullable=False))
        if self.n:
            fields.append(pa.field(N, pa.int64(), nullable=False))
        return fields


def source_shape(rank: int) -> KeyShape:
    return KeyShape(src=rank, n=False, origins=frozenset((rank,)))


def joined_shape(shapes: list[KeyShape], *, n: bool) -> KeyShape:
    """The shape of a stream whose tuples have keys of tuples of any of `shapes`."""
    ranks = {shape.src for shape in shapes}
    return KeyShape(
        src=ranks.pop() if len(ranks) == 1 else None,
        n=n or any(shape.n for shape in shapes),
        origins=frozenset().union(*(shape.origins for shape in shapes)),
        marks=joined_marks(shapes),
    )


def joined_marks(shapes: Sequence[KeyShape]) -> frozenset[int | None]:
    """The ranks of the punctuations of all these streams."""
    return frozenset().union(*(shape.marks for shape in shapes))


def overlapping(shapes: list[KeyShape]) -> bool:
    """Whether tuples of two of these streams can have the same (_ts, _src, _seq)."""
    seen: set[int] = set()
    for shape in shapes:
        if seen & shape.origins:
            return True
        seen |= shape.origins
    return False


def physical_schema(schema: pa.Schema, shape: KeyShape) -> pa.Schema:
    """The schema of a batch of the stream: the user's columns, then the key."""
    return pa.schema([*schema, *shape.fields])


def visible_schema(schema: pa.Schema) -> pa.Schema:
    """The columns that an expression may refer to: the user's, and the event time and number of the tuple."""
    return pa.schema([*schema, pa.field(TS, TS_TYPE, nullable=False), pa.field(SEQ, pa.int64(), nullable=False)])
