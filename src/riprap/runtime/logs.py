"""Replay channels: the producer appends to a persistent stream, the consumer follows it.

An entry's sequence is the number of its last item, for progress and the end that of the item before. So numbers follow
from headers, a restarted producer repeats itself without harm, and a consumer begins at the position of its checkpoint
and knows the number there. Positions count rows: a consumer that begins at one sees the marks at it again, and their
numbers say so.

Survives the death of any process. What a crash of the machine costs is the stability of the log:

    async   its last second; a producer whose checkpoint is ahead of its log is then told to start afresh
    group   nothing that anybody has read: consumers get an item when it is synced, many with one sync, and the producer
            goes on meanwhile
    fsync   nothing that its producer has gone on from: it waits for the sync of each message

Whoever comes first, producer or consumer, creates the stream. The consumer registers the position of its oldest
checkpoint as reader; the producer trims what no reader needs, now and then.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Event, Thread
from typing import Protocol

import pyarrow as pa

from riprap.base import files as own
from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.base.errors import DataError
from riprap.graph.annotations import Stability
from riprap.graph.order_keys import END_KEY, START_KEY, OrderKey
from riprap.graph.types import plain_schema
from riprap.protocols.channels import ChannelId
from riprap.runtime.messages import Message, MessageKind, marked_header, unmarked_header
from riprap.runtime.stored_text import StoredText
from riprap.streams import PersistentStream, StoredBatch, StoredMark
from riprap.streams.description import Stability as StreamStability
from riprap.streams.description import is_stream
from riprap.streams.stream_files import LocalFiles
from riprap.streams.writer import Appended

_TRIM_EVERY = 1.0  # seconds. What is trimmed soon is soon written over (`streams/spares.py`)
_OWN = "own-records"  # the name under which a producer reads its own log
_KINDS = {
    "punctuation": MessageKind.PUNCTUATION,
    "progress": MessageKind.WATERMARK,
    "end": MessageKind.END,
    "marker": MessageKind.MARKER,
}
_STORED: dict[Stability, StreamStability] = {"async": "async", "group": "fsync", "fsync": "fsync"}


class LogSink(Protocol):
    """Where a follower puts what it read: blocks while there is no room; False: nobody takes it any more."""

    def __call__(self, channel: ChannelId, message: Message, position: int) -> bool: ...


def open_log(
    path: Path, schema: pa.Schema, stability: Stability = "async", clock: Clock = SYSTEM_CLOCK
) -> PersistentStream:
    """The stream of a channel, created if it is not there; both ends may come at once."""
    files = LocalFiles(path)
    own.make(path)
    with files.exclusive():
        if is_stream(files):
            return PersistentStream.open(files, clock=clock)
        # Plain: each file and batch has to be readable by itself.
        # Unordered: after a gap an element may repeat keys. No memory: followers with marks read the file.
        return PersistentStream.create(
            files, plain_schema(schema), stability=_STORED[stability], ordered=False, memory_bytes=0, clock=clock
        )


class LogSender:
    """The producer's end of one channel."""

    def __init__(
        self,
        path: Path,
        channel: ChannelId,
        schema: pa.Schema,
        epoch: int,
        *,
        stability: Stability = "async",
        clock: Clock = SYSTEM_CLOCK,
        holes: bool = False,
        beside: bool = False,
    ) -> None:
        """An older epoch than one that has written is refused (`Fenced`); an older one that still writes is fenced.

        `holes`: items may be left out; else that is an error. `beside`: messages may be written a little later,
        for producers that make again what a log does not have when they come back.
        """
        self._holes = holes
        self._channel = channel
        self._clock = clock
        self._stream = open_log(path, schema, stability, clock)
        self._schema = self._stream.schema
        self._writer = self._stream.writer(producer=str(channel), epoch=epoch, beside=beside)
        self._watermark = START_KEY  # told in this life
        self._waits = stability == "fsync"  # for every message
        self._trimmed_at = clock.monotonic()
        self._recorded: deque[Future[Appended]] = deque()  # appends with records that are not known to be stable
        self._stable_records = 0

    @property
    def next(self) -> int:
        """Number of the first item that the log does not have."""
        return self._writer.last_sequence + 1

    @property
    def until(self) -> int:
        """The greatest event time in the log."""
        return self._stream.stable().max_ts

    @property
    def written(self) -> int:
        """Bytes, by this sender."""
        return self._writer.appended_bytes

    def append(self, message: Message, record: bytes = b"") -> None:
        """Append what is new in a message. Blocks while too much waits to be written; raises what went wrong.

        A record goes with the rows, in the same append; where none is new, behind the message.
        """
        repeated = self.next - message.number
        if repeated < 0 and self._holes:
            repeated = 0
        if repeated < 0:
            raise DataError(
                f"the log of channel {self._channel} ends before item {self.next} and its producer goes on at "
                f"{message.number}: the machine crashed and lost its end; run again from the start, "
                "or with --stability group"
            )
        told = message.watermark
        if message.batch is not None and repeated < message.items:
            key = self._new(told)
            batch = plain(message.batch.slice(repeated).batch(), self._schema)
            last = message.number + message.items - 1
            future = self._writer.append(
                batch, sequence=last, watermark=key, born=message.born, payload=marked_header(message), record=record
            )
            if record:
                self._recorded.append(future)
                record = b""
        elif message.punctuation is not None and repeated == 0:
            behind, number = message.punctuation, message.number
            payload = marked_header(message)
            self._writer.mark(behind, kind="punctuation", sequence=number, born=message.born, payload=payload)
        if message.kind is MessageKind.END:
            self._writer.mark(None, kind="end")
        elif message.kind is MessageKind.MARKER:
            self._writer.mark(None, kind="marker", payload=message.header)
        elif message.number + message.items == self.next:
            key = self._new(told)
            if key is not None:
                self._writer.mark(key, kind="progress")
        if record:
            self.record(record)
        if self._waits:
            self._writer.flush()
        if self._clock.monotonic() - self._trimmed_at >= _TRIM_EVERY:
            self.trim()

    def record(self, record: bytes) -> None:
        """Append a record alone."""
        self._recorded.append(self._writer.mark(None, kind="record", payload=record))

    def records(self) -> Iterator[bytes]:
        """What was recorded, newest first."""
        return (found.payload for found in self._stream.records_backwards())

    @property
    def stable_records(self) -> int:
        """How many records of this life are there for good."""
        while self._recorded and self._recorded[0].done():
            self._recorded.popleft().result()
            self._stable_records += 1
        return self._stable_records

    @property
    def row(self) -> int:
        return self._writer.position

    def retain(self, row: int) -> None:
        """Trimming is to leave what was recorded from this row on: the producer is a reader of its own log."""
        self._stream.register_reader(_OWN, max(row - 1, 0))

    def _new(self, watermark: OrderKey | None) -> OrderKey | None:
        """The progress, if it was not told already; it then counts as told."""
        if watermark is None or watermark <= self._watermark:
            return None
        self._watermark = watermark
        return watermark

    def trim(self) -> None:
        """Delete what the consumer has said it will never ask for again."""
        self._trimmed_at = self._clock.monotonic()
        readers = self._stream.readers()
        if readers.keys() - {_OWN}:
            self._stream.trim(before_position=min(readers.values()), discard=self._writer.discard)

    def flush(self) -> None:
        """Return when everything kept is in the log, as stability has it."""
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def reader_of(consumer: str) -> str:
    """The name under which an element reads logs."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", consumer)


class LogFollower:
    """The consumer's end of one channel: a thread that delivers from a position on until it is closed."""

    def __init__(
        self,
        path: Path,
        channel: ChannelId,
        schema: pa.Schema,
        consumer: str,
        deliver: LogSink,
        *,
        position: int = 0,
        number: int = 0,
        stability: Stability = "async",
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`position` and `number` are of the consumer's checkpoint: where it goes on, and the item it expects."""
        self.failure: BaseException | None = None  # what ended the thread early
        self._channel = channel
        self._deliver = deliver
        self._position = position
        self._number = number
        self._reader = reader_of(consumer)
        self._stream = open_log(path, schema, stability, clock)
        if self._reader not in self._stream.readers():
            self.released(position)
        self._missed = self._stream.stable().position  # what was there before this life began ends here
        self._stop = Event()
        self._thread = Thread(target=self._run, name=f"riprap-log-{channel}", daemon=True)
        self._thread.start()

    def released(self, position: int) -> None:
        """No checkpoint is left that begins before `position`."""
        # Marks at a position may lie in the segment that ends there: one row less keeps it.
        self._stream.register_reader(self._reader, max(position - 1, 0))

    @property
    def behind(self) -> bool:
        """Whether it is still delivering what was there before this life began."""
        return self._position < self._missed

    def stop(self) -> None:
        """Bring nothing more; at most what is being delivered now."""
        self._stop.set()

    def close(self) -> None:
        """Stop. A `deliver` that waits for room has to be let go before."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            items = self._stream.read(from_position=self._position, follow=True, stop=self._stop, marks=True)
            for message, behind in stored_messages(items):
                if message.items and message.number + message.items <= self._number:
                    continue
                if self._stop.is_set() or not self._deliver(self._channel, message, behind):
                    return
                self._position = behind
        except BaseException as error:
            self.failure = error


def stored_messages(
    items: Iterable[StoredBatch | StoredMark], text: StoredText | None = None
) -> Iterator[tuple[Message, int]]:
    """What a log has for its consumer, each with the position behind it. `text`: of one who goes on reading."""
    text = text or StoredText()
    for item in items:
        if not isinstance(item, StoredMark) or item.kind in _KINDS:  # others are the producer's own
            yield _stored_message(item, text), item.next_position


def _stored_message(item: StoredBatch | StoredMark, text: StoredText) -> Message:
    header = item.header
    if isinstance(item, StoredBatch):
        number = header.sequence + 1 - item.batch.num_rows
        rows = text.views(item.batch)
        own = unmarked_header(item.payload)
        return Message(MessageKind.ROWS, header.epoch, number, rows, None, item.watermark, header.born, *own)
    kind, key = _KINDS[item.kind], item.key
    if kind is MessageKind.PUNCTUATION:
        own = unmarked_header(item.payload)
        return Message(kind, header.epoch, header.sequence, None, key, None, header.born, *own)
    if kind is MessageKind.MARKER:
        return Message(kind, header.epoch, header.sequence + 1, header=item.payload)
    return Message(kind, header.epoch, header.sequence + 1, watermark=END_KEY if kind is MessageKind.END else key)


def plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a stream's schema, in its order and types; those that are so already are not copied."""
    columns = [batch.column(field.name) for field in schema]
    return pa.RecordBatch.from_arrays(
        [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(columns, schema, strict=True)
        ],
        schema=schema,
    )
