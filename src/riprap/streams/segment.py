"""A segment: one file of a stream, an Arrow IPC file once it is finished.

    "ARROW1\\0\\0"
    schema message           framed; the schema's metadata has the `Carry`: the state of the stream before
    record batch messages    framed, positions contiguous; marks between them are batches without rows
    end-of-stream marker     from here on only in a finished segment
    index entries            one per run of about 64 KiB: position, offset, range of `_ts` and `_seq`
    record                   the segment's `Summary`, with the check of the entries and its own
    Arrow's footer, its length, "ARROW1"

A finished segment never changes. The newest may be open, and a crash may leave any prefix of it, with garbage behind
the synced part. `walk` reads the whole messages; `recover` finds where they end. A batch whose atomic append is
incomplete counts as torn.
"""

import base64
import json
import re
import struct
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from xxhash import xxh3_64_intdigest as _xxh3

from riprap.streams.footer import FILE_START, MAGIC, footer
from riprap.streams.frame import (
    BATCH,
    END_OF_STREAM,
    ENTRIES,
    HEADER_SIZE,
    PLAIN,
    SCHEMA,
    FrameHeader,
    check_body,
    frame,
    metadata_size,
    payload_of,
    read_header,
)
from riprap.streams.positions import NOTHING, Range
from riprap.streams.segment_summary import RECORD_SIZE, Summary, unpacked
from riprap.streams.stream_errors import Damaged
from riprap.streams.stream_files import Readable

RUN_BYTES = 64 << 10  # an index entry covers batches of about this many bytes

ENTRY = np.dtype([(name, "<i8") for name in ("position", "offset", "min_ts", "max_ts", "min_seq", "max_seq")])
_CARRY = b"riprap.carry"
_NAME = re.compile(r"[0-9]{8,18}\.arrow")
_located = tuple.__new__  # builds a `LocatedMessage` without a check of its length


def segment_name(number: int) -> str:
    return f"{number:08d}.arrow"


def segment_numbers(names: list[str]) -> list[int]:
    return sorted(int(name[:-6]) for name in names if _NAME.fullmatch(name))


@dataclass(frozen=True)
class Carry:
    """What a segment inherits from earlier ones, so that none of them is needed to continue the stream."""

    stream: bytes  # id of the stream
    segment: int
    position: int = 0
    producers: dict[int, tuple[int, int]] = field(default_factory=dict)  # producer → epoch, last sequence
    last_ts: int = NOTHING  # the greatest `_ts` and `_seq` so far
    last_seq: int = NOTHING

    def after(self, headers: Sequence[FrameHeader]) -> "Carry":
        """The carry after these batches."""
        running = Running(self)
        for header in headers:
            running.add(header)
        return running.carry()


class Running:
    """A carry that is updated with every message."""

    def __init__(self, carry: Carry) -> None:
        self._stream, self.segment, self.position = carry.stream, carry.segment, carry.position
        self._producers, self.last_ts, self._last_seq = dict(carry.producers), carry.last_ts, carry.last_seq

    def add(self, header: FrameHeader) -> None:
        self.position = header.position + header.rows
        self._producers[header.producer] = header.epoch, header.sequence
        if header.max_ts > self.last_ts:
            self.last_ts = header.max_ts
        if header.max_seq > self._last_seq:
            self._last_seq = header.max_seq

    def carry(self) -> Carry:
        return Carry(self._stream, self.segment, self.position, dict(self._producers), self.last_ts, self._last_seq)


class LocatedMessage(NamedTuple):
    """A message and its offset. `data` is all of it, or only its header."""

    offset: int
    header: FrameHeader
    data: pa.Buffer

    @property
    def end(self) -> int:
        return self.offset + self.header.length

    @property
    def payload(self) -> bytes:
        return b"" if self.header.version == PLAIN else payload_of(self.header, memoryview(self.data))


class Start(NamedTuple):
    """The first message of a segment."""

    schema: pa.Schema
    carry: Carry
    written_at: int
    end: int  # offset of the first batch
    reused: bool = False  # bytes of the file's previous content may follow the last message


class Builder:
    """Collects the index and footer of one segment, batch by batch."""

    def __init__(self, start: int) -> None:
        self.end = start  # offset behind the last message
        self.rows = 0
        self.messages = 0  # batches and marks
        self._blocks: list[tuple[int, int, int]] = []
        self._runs: list[list[int]] = []

    @property
    def batches(self) -> int:
        return len(self._blocks)

    def add(self, header: FrameHeader, metadata: int) -> None:
        end, length = self.end, header.length
        if header.kind == BATCH:  # Arrow's footer omits marks, so other Arrow readers never see one
            self._blocks.append((end, metadata, length - metadata))
            self.rows += header.rows
        runs = self._runs
        if not runs or end - runs[-1][1] >= RUN_BYTES:
            runs.append([header.position, end, header.min_ts, header.max_ts, header.min_seq, header.max_seq])
        else:
            run = runs[-1]
            run[2:] = [
                min(run[2], header.min_ts),
                max(run[3], header.max_ts),
                min(run[4], header.min_seq),
                max(run[5], header.max_seq),
            ]
        self.end = end + length
        self.messages += 1

    def entries(self) -> np.ndarray:
        return np.array([tuple(run) for run in self._runs], ENTRY)

    def range(self) -> Range:
        entries = self.entries()
        if not self.rows:
            return Range(NOTHING, NOTHING, NOTHING, NOTHING)
        return Range(
            int(entries["min_ts"].min()),
            int(entries["max_ts"].max()),
            int(entries["min_seq"].min()),
            int(entries["max_seq"].max()),
        )

    def finished(self, start: "Start", finished_at: int) -> tuple[Summary, bytes]:
        """The record of the finished segment, and everything that follows its last batch."""
        entries = self.entries().tobytes()
        blocks = np.array(self._blocks, np.int64).reshape(-1, 3)
        foot = footer(start.schema, blocks[:, 0], blocks[:, 1], blocks[:, 2])
        summary = Summary(
            start.carry.segment, start.carry.position, self.rows, self.batches, self.end, self.range(),
            start.written_at, finished_at, len(self._runs), _xxh3(entries), _xxh3(foot),
        )  # fmt: skip
        return summary, END_OF_STREAM + entries + summary.packed() + foot


def opening(schema: pa.Schema, carry: Carry, written_at: int, reused: bool = False) -> bytes:
    """The first bytes of a segment."""
    text = json.dumps(
        {
            "stream": base64.b64encode(carry.stream).decode(),
            "segment": carry.segment,
            "position": carry.position,
            "producers": {str(name): list(state) for name, state in carry.producers.items()},
            "last_ts": carry.last_ts,
            "last_seq": carry.last_seq,
            **({"reused": True} if reused else {}),
        }
    )
    message = frame(
        schema.with_metadata({**(schema.metadata or {}), _CARRY: text}).serialize(),
        SCHEMA,
        stream=carry.stream,
        producer=0,
        epoch=0,
        sequence=carry.segment,
        position=carry.position,
        rows=0,
        remaining=0,
        range_=Range(NOTHING, NOTHING, NOTHING, NOTHING),
        watermark=None,
        written_at=written_at,
    )
    return b"".join((FILE_START, message.head, *message.rest))


def read_start(file: Readable) -> Start:
    """The schema message of a segment; raises `Damaged`."""
    data = memoryview(file.read_at(0, 64 << 10))
    if bytes(data[: len(FILE_START)]) != FILE_START:
        raise Damaged(file.name, 0, "it does not start like an Arrow file")
    header = _sound_header(file, data, len(FILE_START), len(FILE_START))
    if header.kind != SCHEMA:
        raise Damaged(file.name, len(FILE_START), "the first message is not a schema")
    message = file.read_at(len(FILE_START), header.length)
    wrong = check_body(header, memoryview(message))
    if wrong:
        raise Damaged(file.name, len(FILE_START), wrong)
    schema = pa.ipc.read_schema(message)
    metadata = dict(schema.metadata)
    fields = json.loads(metadata.pop(_CARRY))
    carry = Carry(
        base64.b64decode(fields["stream"]),
        fields["segment"],
        fields["position"],
        {int(name): (state[0], state[1]) for name, state in fields["producers"].items()},
        fields["last_ts"],
        fields["last_seq"],
    )
    if not file.name.endswith(segment_name(carry.segment)):
        raise Damaged(file.name, len(FILE_START), f"it is segment {carry.segment}, under the name of another")
    reused = fields.get("reused", False) is True
    end = len(FILE_START) + header.length
    return Start(schema.with_metadata(metadata or None), carry, header.written_at, end, reused)


def _sound_header(file: Readable, data: memoryview, at: int, offset: int) -> FrameHeader:
    header = read_header(data, at)
    if isinstance(header, str):
        raise Damaged(file.name, offset, header)
    return header


def walk(
    file: Readable, stream: bytes, offset: int, end: int, position: int | None, bodies: bool = True
) -> Generator[LocatedMessage, None, None]:
    """The batches and marks from `offset` to `end`, each checked before it is yielded; raises `Damaged` at the first
    that is incomplete or does not belong there. `position`: of the first row, None if unknown."""
    ahead = HEADER_SIZE
    if bodies:  # a short rest, as a following read finds it, is read at once
        ahead = end - offset if end - offset <= 4 * file.chunk else file.chunk
    chunk, at, before = pa.py_buffer(b""), 0, 0
    view, there = memoryview(chunk), 0
    while offset < end:
        if there - at < HEADER_SIZE:
            chunk, at = file.read_at(offset, min(ahead, end - offset)), 0
            view, there = memoryview(chunk), chunk.size
        header = read_header(view, at)
        if isinstance(header, str):
            raise Damaged(file.name, offset, header)
        length = header.length
        elsewhere = header.position != position and position is not None
        if elsewhere or header.stream != stream or header.kind not in ENTRIES:
            raise Damaged(file.name, offset, "a message that belongs elsewhere")
        if bodies:
            if there - at < length and offset + there - at < end:
                # Batches of a stream are of similar sizes: read a few whole ones, so that little is read twice.
                ahead = max(1, file.chunk // length) * length
                if length != before:
                    ahead = ahead * 17 // 16
                before = length
                chunk, at = file.read_at(offset, min(ahead, end - offset)), 0
                view, there = memoryview(chunk), chunk.size
            wrong = check_body(header, view, at)
            if wrong is not None:
                raise Damaged(file.name, offset, wrong)
        else:
            length = HEADER_SIZE
        yield _located(LocatedMessage, (offset, header, chunk.slice(at, length)))
        at += header.length
        offset += header.length
        position = header.position + header.rows


class Recovered(NamedTuple):
    """Where the whole batches of a segment end, and the state of the stream there."""

    builder: Builder
    carry: Carry
    reason: str  # why the walk ended: what is wrong behind the last whole batch; "" where the file ends there


def recover(file: Readable, start: Start) -> Recovered:
    """Find the last whole, checksummed atomic append of a segment, checking every byte before it."""
    builder, carry, pending, reason = Builder(start.end), start.carry, [], ""
    try:
        for found in walk(file, carry.stream, start.end, file.size(), carry.position):
            pending.append((found.header, metadata_size(memoryview(found.data))))
            if found.header.remaining == 0:
                for header, metadata in pending:
                    builder.add(header, metadata)
                carry = carry.after([header for header, _ in pending])
                pending = []
    except Damaged as damage:
        reason = damage.what
    return Recovered(builder, carry, reason or ("an append of several batches is incomplete" if pending else ""))


def read_summary(file: Readable) -> Summary | None:
    """The record of a finished segment; None if it is missing or its checksum does not match."""
    size = file.size()
    tail = bytes(memoryview(file.read_at(max(0, size - 10), 10)))
    if tail[4:] != MAGIC:
        return None
    (footer_size,) = struct.unpack_from("<i", tail)
    at = size - len(tail) - footer_size - RECORD_SIZE
    if footer_size < 0 or at < 0:
        return None
    return unpacked(bytes(memoryview(file.read_at(at, RECORD_SIZE))))


def read_entries(file: Readable, summary: Summary) -> np.ndarray:
    """The sparse index of a finished segment; rebuilt from its headers if the checksum does not match."""
    data = memoryview(file.read_at(summary.end + len(END_OF_STREAM), summary.entries * ENTRY.itemsize))
    if _xxh3(data) == summary.entries_check:
        return np.frombuffer(data, ENTRY)
    return scan_headers(file, read_start(file), summary.end).entries()


def scan_headers(file: Readable, start: Start, end: int) -> Builder:
    """Collect the index of the batches up to `end` from their headers; raises `Damaged` if one is not sound."""
    builder = Builder(start.end)
    for found in walk(file, start.carry.stream, start.end, end, start.carry.position, bodies=False):
        builder.add(found.header, metadata_size(memoryview(found.data)))
    return builder


def read_batch(found: LocatedMessage, schema: pa.Schema) -> pa.RecordBatch:
    """Parse a message that `walk` has checked. Zero copy: the batch references the chunk that contains it."""
    return pa.ipc.read_record_batch(found.data, schema)
