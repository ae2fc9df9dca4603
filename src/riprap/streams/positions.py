"""Positions, order keys, and the bounds of a read.

A *position* is the number of rows that were appended to the stream before a row: 0 for the first, never reused, not
changed by trimming. An *order key* (`_ts`, `_src`, `_seq`, `_n`) identifies a row; a position locates it.

Bounds are row predicates, exact whatever the order of the rows; the index only avoids reading what they exclude.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, NewType

import numpy as np
import pyarrow as pa

from riprap.base.errors import DataError, UsageError
from riprap.graph.order_keys import SEQ, SRC, TS, TS_TYPE, N, OrderKey

Position = NewType("Position", int)  # rows before it, >= 0

# The columns of an order key, in the order in which they compare, with their types.
KEY_TYPES = {TS: TS_TYPE, SRC: pa.int32(), SEQ: pa.int64(), N: pa.int64()}
NOTHING = -(2**63)  # "no timestamp", "no sequence" in the fixed-size fields of files


def check_key_columns(schema: pa.Schema) -> None:
    """A stream needs `_ts` and `_seq`; `_src` and `_n` are optional; all four have fixed types."""
    for name, expected in KEY_TYPES.items():
        found = [field.type for field in schema if field.name == name]
        if not found and name in ("_ts", "_seq"):
            raise DataError(f"a persistent stream needs the column {name} of type {expected}; columns: {schema.names}")
        if found and found != [expected]:
            raise DataError(f"the column {name} must be {expected}, not {found[0]}: cast it before appending")
    for field in schema:
        if pa.types.is_dictionary(field.type):
            raise DataError(f"the column {field.name} is dictionary-encoded: cast it to {field.type.value_type} first")


def int64_values(batch: pa.RecordBatch, name: str | int) -> np.ndarray:
    """The values of a 64-bit column without a copy. Key columns have no nulls (checked when appended)."""
    return int64_of(batch.column(name))


def int64_of(column: pa.Array) -> np.ndarray:
    return np.frombuffer(column.buffers()[1], np.int64, len(column), column.offset * 8)


def as_microseconds(when: int | str | datetime) -> int:
    """A `_ts`: microseconds, an ISO 8601 text or a datetime; without a zone it is UTC."""
    if isinstance(when, bool) or not isinstance(when, int | str | datetime):
        raise UsageError(f"cannot read {when!r} as a time: write microseconds or a text as 2009-04-02T09:30:00Z")
    if isinstance(when, str):
        if re.fullmatch("-?[0-9]{1,18}", when):
            return int(when)
        try:
            when = datetime.fromisoformat(when)
        except ValueError:
            raise UsageError(
                f"cannot read {when!r} as a time: write microseconds or a text as 2009-04-02T09:30:00Z"
            ) from None
    if isinstance(when, int):
        return when
    zoned = when if when.tzinfo else when.replace(tzinfo=UTC)
    since = zoned - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


class Range(NamedTuple):
    """The least and greatest `_ts` and `_seq` of some rows: what the index stores for a batch, a run, a segment."""

    min_ts: int
    max_ts: int
    min_seq: int
    max_seq: int


EMPTY = Range(2**63 - 1, NOTHING, 2**63 - 1, NOTHING)  # of no rows: joined with another range it changes nothing


@dataclass(frozen=True)
class Bounds:
    """Which rows a read delivers: those that satisfy every bound that is set. Ends are exclusive."""

    from_position: int = 0
    to_position: int | None = None
    from_ts: int | None = None
    to_ts: int | None = None
    from_seq: int | None = None
    to_seq: int | None = None
    after_key: OrderKey | None = None

    def __post_init__(self) -> None:
        if self.from_position < 0:
            raise UsageError(f"a position is a number of rows, 0 or more, not {self.from_position}")

    def excludes(self, rows: Range) -> bool:
        """No row in this range can satisfy the bounds: the index may skip it."""
        return bool(
            (self.from_ts is not None and rows.max_ts < self.from_ts)
            or (self.to_ts is not None and rows.min_ts >= self.to_ts)
            or (self.from_seq is not None and rows.max_seq < self.from_seq)
            or (self.to_seq is not None and rows.min_seq >= self.to_seq)
            or (self.after_key is not None and rows.max_ts < self.after_key.ts)
        )

    def includes(self, rows: Range) -> bool:
        """Every row in this range satisfies the bounds on keys: no filter is needed."""
        return (
            (self.from_ts is None or rows.min_ts >= self.from_ts)
            and (self.to_ts is None or rows.max_ts < self.to_ts)
            and (self.from_seq is None or rows.min_seq >= self.from_seq)
            and (self.to_seq is None or rows.max_seq < self.to_seq)
            and (self.after_key is None or rows.min_ts > self.after_key.ts)
        )

    def start_ts(self) -> int | None:
        """The greatest timestamp below which every row is excluded, if there is one."""
        lows = [self.from_ts, self.after_key.ts if self.after_key else None]
        return max((low for low in lows if low is not None), default=None)

    def passed(self, rows: Range) -> bool:
        """In a stream whose keys never decrease: this range and everything after it is excluded."""
        return bool(
            (self.to_ts is not None and rows.min_ts >= self.to_ts)
            or (self.to_seq is not None and rows.min_seq >= self.to_seq)
        )

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of `batch` that satisfy the bounds on keys; without a copy where they are contiguous."""
        mask = np.ones(batch.num_rows, bool)
        ts, seq = int64_values(batch, "_ts"), int64_values(batch, "_seq")
        if self.from_ts is not None:
            mask &= ts >= self.from_ts
        if self.to_ts is not None:
            mask &= ts < self.to_ts
        if self.from_seq is not None:
            mask &= seq >= self.from_seq
        if self.to_seq is not None:
            mask &= seq < self.to_seq
        if self.after_key is not None:
            mask &= _after(batch, self.after_key)
        matching = np.flatnonzero(mask)
        if len(matching) and matching[-1] - matching[0] + 1 == len(matching):
            return batch.slice(int(matching[0]), len(matching))
        return batch.filter(pa.array(mask))


def _after(batch: pa.RecordBatch, key: OrderKey) -> Any:
    """Rows whose order key is greater than `key`, compared part by part from the last to the first."""
    after = np.zeros(batch.num_rows, bool)
    for name, bound in reversed(list(zip(KEY_TYPES, key, strict=True))):
        values: Any = 0
        if name in batch.schema.names:
            values = batch.column(name).cast(pa.int64()).to_numpy(zero_copy_only=False)
        after = (values > bound) | ((values == bound) & after)
    return after


class Appended(NamedTuple):
    """The place of an append. `repeated`: according to its sequence it was stored already, so nothing was written."""

    position: int  # of its first row; of a repetition, the end of the stream
    rows: int
    repeated: bool = False
