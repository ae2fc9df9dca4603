"""Logged channels: the producer appends to a persistent stream, the consumer follows it.

An entry's sequence is the number of its last item; for a watermark or the end, that of the item before. So numbers
follow from headers, a restarted producer may repeat itself, and a consumer starts at the position of its checkpoint and
knows the number there. Positions count rows: a consumer that starts at one sees the marks there again, and recognises
them by their numbers.

A log survives the death of any process. What a machine crash costs depends on its stability:

    async   its last second; a producer whose checkpoint is ahead of its log then has to start from scratch
    group   nothing that was read: consumers get an item when it is synced, many with one sync, and the producer
            continues meanwhile
    fsync   nothing: the producer waits for the sync of each message

The producer or the consumer creates the stream, whichever opens it first. The consumer registers the position of its
oldest checkpoint as reader; the producer periodically trims what no reader needs.
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
from riprap.streams.positions import Appended
from riprap.streams.stream_files import LocalFiles

_TRIM_EVERY = 1.0  # seconds. Files trimmed early are reused early (`streams/spares.py`)
_OWN = "own-records"  # the name under which a producer reads its own log
_KINDS = {
    "punctuation": MessageKind.PUNCTUATION,
    "progress": MessageKind.WATERMARK,
    "end": MessageKind.END,
    "marker": MessageKind.MARKER,
}
_STORED: dict[Stability, StreamStability] = {"async": "async", "group": "fsync", "fsync": "fsync"}


class LogSink(Protocol):
    """Receives what a follower has read: blocks while there is no room; False: the consumer has stopped."""

    def __call__(self, channel: ChannelId, message: Message, position: int) -> bool: ...


def open_log(
    path: Path, schema: pa.Schema, stability: Stability = "async", clock: Clock = SYSTEM_CLOCK
) -> PersistentStream:
    """Open the stream of a channel, or create it; both ends may do so at once."""
    files = LocalFiles(path)
    own.make(path)
    with files.exclusive():
        if is_stream(files):
            return PersistentStream.open(files, clock=clock)
        # Plain schema: each file and batch has to be readable by itself.
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
        """An epoch older than the newest writer's is refused (`Fenced`); an older writer is fenced.

        `holes`: items may be skipped; else that is an error. `beside`: messages may be written a little later, for
        producers that recompute what the log lacks when they restart.
        """
        self._holes = holes
        self._channel = channel
        self._clock = clock
        self._stream = open_log(path, schema, stability, clock)
        self._schema = self._stream.schema
        self._writer = self._stream.writer(producer=str(channel), epoch=epoch, beside=beside)
        self._watermark = START_KEY  # announced in this incarnation
        self._waits = stability == "fsync"  # for every message
        self._trimmed_at = clock.monotonic()
        self._recorded: deque[Future[Appended]] = deque()  # appends with records, not known to be stable
        self._stable_records = 0

    @property
    def next(self) -> int:
        """The number after the last item in the log."""
        return self._writer.last_sequence + 1

    @property
    def until(self) -> int:
        """The greatest event time in the log."""
        return self._stream.stable().max_ts

    @property
    def written(self) -> int:
        """Bytes written by this sender."""
        return self._writer.appended_bytes

    def append(self, message: Message, record: bytes = b"") -> None:
        """Append the new items of a message. Blocks while too much waits to be written; raises write errors.

        A record goes into the same append as the rows; if no row is new, after the message.
        """
        repeated = self.next - message.number
        if repeated < 0 and self._holes:
            repeated = 0
        if repeated < 0:
            raise DataError(
                f"the log of channel {self._channel} ends before item {self.next} and its producer resumes at "
                f"{message.number}: the machine crashed and lost its end; run again from the start, "
                "or with `stability=group`"
            )
        if message.batch is not None and repeated < message.items:
            key = self._news(message.watermark)
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
            key = self._news(message.watermark)
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
        """The records, newest first."""
        return (record.payload for record in self._stream.records_backwards())

    @property
    def stable_records(self) -> int:
        """How many records of this incarnation are stable."""
        while self._recorded and self._recorded[0].done():
            self._recorded.popleft().result()
            self._stable_records += 1
        return self._stable_records

    @property
    def row(self) -> int:
        return self._writer.position

    def retain(self, row: int) -> None:
        """Protect records from this row on against trimming: the producer registers as a reader of its log."""
        self._stream.register_reader(_OWN, max(row - 1, 0))

    def _news(self, watermark: OrderKey | None) -> OrderKey | None:
        """The watermark, if it was not announced yet; it then counts as announced."""
        if watermark is None or watermark <= self._watermark:
            return None
        self._watermark = watermark
        return watermark

    def trim(self) -> None:
        """Delete what no reader needs any more."""
        self._trimmed_at = self._clock.monotonic()
        readers = self._stream.readers()
        if readers.keys() - {_OWN}:
            self._stream.trim(before_position=min(readers.values()), discard=self._writer.discard)

    def flush(self) -> None:
        """Return when everything appended is in the log, with its stability."""
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def reader_of(consumer: str) -> str:
    """The name under which an element reads logs."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", consumer)


class LogFollower:
    """The consumer's end of one channel: a thread that reads from a position on until it is closed."""

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
        """`position` and `number` are of the consumer's checkpoint: where to resume, and the item expected there."""
        self.failure: BaseException | None = None  # what ended the thread early
        self._channel = channel
        self._deliver = deliver
        self._position = position
        self._number = number
        self._reader = reader_of(consumer)
        self._stream = open_log(path, schema, stability, clock)
        if self._reader not in self._stream.readers():
            self.released(position)
        self._backlog_end = self._stream.stable().position  # what was logged before the start ends here
        self._stop = Event()
        self._thread = Thread(target=self._run, name=f"riprap-log-{channel}", daemon=True)
        self._thread.start()

    def released(self, position: int) -> None:
        """No remaining checkpoint needs anything before `position`."""
        # Marks at a position may lie in the segment that ends there: one row less retains it.
        self._stream.register_reader(self._reader, max(position - 1, 0))

    @property
    def behind(self) -> bool:
        """Whether it still reads what was logged before this incarnation started."""
        return self._position < self._backlog_end

    def stop(self) -> None:
        """Deliver nothing more, except what is being delivered now."""
        self._stop.set()

    def close(self) -> None:
        """Stop. A `deliver` that waits for room has to be released before."""
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
    """The messages of a log, each with the position behind it. `text`: of a reader that continues."""
    text = text or StoredText()
    for item in items:
        if not isinstance(item, StoredMark) or item.kind in _KINDS:  # other marks are for the producer
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
    """The columns of a stream's schema, in its order and types; columns of the right type are not copied."""
    columns = [batch.column(field.name) for field in schema]
    return pa.RecordBatch.from_arrays(
        [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(columns, schema, strict=True)
        ],
        schema=schema,
    )
