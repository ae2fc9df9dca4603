"""A record: the changes of an operator's windows up to a cut, as bytes in its output stream.

A record belongs to a *frame*: everything since the previous record. It contains the windows that opened and closed in
the frame, the contents of some windows at the cut (*checked*), the number of open windows, the scalars of the
operator's state, and two points: the cut, and the latest point that precedes all rows that no record contains
(*unsaved*). A recovery replays the input from *unsaved* on.

Format, integers little-endian:

    4s  magic `RCEC`   u16 version 1   u16 ports   u32 length of the names   u32 opened   u32 closed   u32 checked
    text    the names, JSON: {"numbers": [...], "scalars": [...]}
    i64     open, now; windows opened, checked, closed, and opened and closed within one frame, all since the start
    i64     the cut, then unsaved: frame, key (4), rows by port, punctuations by port, numbers as named
    i64     scalars as named
    opened  u64 hash each; by port i64 insertion index of its first row each; by port i64 rows before that each
    closed  u64 hash each
    checked u8 whole or not each; for each stateful port an Arrow stream of the table of keys and one of rows, as in
            `operators.contract.State`; before each pair u32 port, u64 length

A frame first closes windows, then opens others of the same groups, then checks open ones. The stream's entry has the
checksum; invalid data raises `DataError`.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa

from riprap.base.errors import DataError
from riprap.checkpoints.state_tables import from_ipc, to_ipc
from riprap.graph.order_keys import OrderKey

_MAGIC, _VERSION = b"RCEC", 1
_PREFIX = struct.Struct("<4sHHIIII")
_PORT = struct.Struct("<IQ")
_MOST_PORTS = 2
_TOTALS = ("open", "now", "opened", "checked", "closed", "within")


@dataclass(frozen=True)
class RecordPoint:
    """A cut: the last frame before it, the watermark of the operator's input, and the number of items so far."""

    frame: int
    key: OrderKey
    rows: np.ndarray  # by port
    marks: np.ndarray
    numbers: Mapping[str, int] = field(default_factory=dict)  # of the operator's host


@dataclass(frozen=True)
class RecordTotals:
    """Totals since the start; `open` and `now` are values at the cut."""

    open: int = 0  # windows
    now: int = 0  # greatest _ts
    opened: int = 0  # entries in records
    checked: int = 0
    closed: int = 0
    within: int = 0  # windows that opened and closed within a frame


@dataclass(frozen=True)
class Record:
    """`at` and `start` have a row per port and a column per window in `opened`."""

    cut: RecordPoint
    unsaved: RecordPoint
    totals: RecordTotals
    scalars: Mapping[str, int]
    opened: np.ndarray
    at: np.ndarray
    start: np.ndarray
    closed: np.ndarray
    whole: np.ndarray
    checked: Mapping[int, tuple[pa.RecordBatch, pa.RecordBatch]]  # by port: keys, rows


@lru_cache(maxsize=64)
def _named(numbers: tuple[str, ...], scalars: tuple[str, ...]) -> bytes:
    """The names, which are the same in every record of a stream."""
    return json.dumps({"numbers": numbers, "scalars": scalars}).encode()


@lru_cache(maxsize=64)
def _integers(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}q")


def encode(record: Record) -> bytes:
    ports = len(record.cut.rows)
    names = _named(tuple(record.cut.numbers), tuple(record.scalars))
    integers = [getattr(record.totals, name) for name in _TOTALS]
    for point in (record.cut, record.unsaved):
        integers += [point.frame, *point.key, *point.rows.tolist(), *point.marks.tolist()]
        integers += [point.numbers.get(name, 0) for name in record.cut.numbers]  # 0: at the start
    integers += record.scalars.values()
    parts: list[bytes | memoryview] = [
        _PREFIX.pack(_MAGIC, _VERSION, ports, len(names), len(record.opened), len(record.closed), len(record.whole)),
        names,
        _integers(len(integers)).pack(*integers),
    ]
    if len(record.opened):
        parts += [record.opened.astype("<u8").tobytes(), record.at.astype("<i8").tobytes()]
        parts.append(record.start.astype("<i8").tobytes())
    if len(record.closed):
        parts.append(record.closed.astype("<u8").tobytes())
    if len(record.whole):
        parts.append(record.whole.astype(np.uint8).tobytes())
    for port, tables in record.checked.items():
        data = to_ipc(*tables)
        parts += [_PORT.pack(port, data.size), memoryview(data)]
    return b"".join(parts)


def decode(data: bytes) -> Record:
    """The inverse of `encode`; raises `DataError` if it is not a record."""
    try:
        return _Decoder(data).record()
    except (struct.error, ValueError, KeyError, TypeError, pa.ArrowException, OverflowError) as error:
        raise DataError(
            f"this is not a record of a continuous checkpoint ({error}): run again from the start"
        ) from error


class _Decoder:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def _bytes(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._data):
            raise ValueError("it is truncated")
        self._at += size
        return self._data[self._at - size : self._at]

    def _array(self, dtype: str, count: int) -> np.ndarray:
        return np.frombuffer(self._bytes(count * np.dtype(dtype).itemsize), dtype)

    def record(self) -> Record:
        magic, version, ports, length, opened, closed, checked = _PREFIX.unpack(self._bytes(_PREFIX.size))
        if magic != _MAGIC or version != _VERSION or not 1 <= ports <= _MOST_PORTS:
            raise ValueError("its header is wrong")
        names = json.loads(self._bytes(length))
        numbers, scalars = list(names["numbers"]), list(names["scalars"])
        totals = RecordTotals(*self._array("<i8", len(_TOTALS)).tolist())
        cut, unsaved = self._point(ports, numbers), self._point(ports, numbers)
        values = dict(zip(scalars, self._array("<i8", len(scalars)).tolist(), strict=True))
        hashes = self._array("<u8", opened)
        at = self._array("<i8", ports * opened).reshape(ports, opened)
        start = self._array("<i8", ports * opened).reshape(ports, opened)
        gone = self._array("<u8", closed)
        whole = self._array("u1", checked).astype(bool)
        tables: dict[int, tuple[pa.RecordBatch, pa.RecordBatch]] = {}
        while self._at < len(self._data):
            port, size = _PORT.unpack(self._bytes(_PORT.size))
            keys, rows = from_ipc(self._bytes(size))
            if keys.num_rows != checked or port >= ports:
                raise ValueError("its tables do not fit together")
            tables[port] = (keys, rows)
        if bool(tables) != bool(checked):
            raise ValueError("its tables are missing")
        return Record(cut, unsaved, totals, values, hashes, at, start, gone, whole, tables)

    def _point(self, ports: int, numbers: list[str]) -> RecordPoint:
        frame, *rest = self._array("<i8", 5 + 2 * ports + len(numbers)).tolist()
        counts = np.array(rest[4 : 4 + 2 * ports], np.int64)
        named = dict(zip(numbers, rest[4 + 2 * ports :], strict=True))
        return RecordPoint(frame, OrderKey(*rest[:4]), counts[:ports], counts[ports:], named)
