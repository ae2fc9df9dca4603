"""Appending: batches in, futures out, many appends per sync.

`append` checks and frames the batch in the caller's thread and queues it; one thread per writer takes everything
queued, writes it with one system call, syncs once, publishes how far the stream is stable, and completes the futures
(group commit). While a sync runs, the next group gathers. `append` blocks while `outstanding` appends or bytes wait, so
memory is bounded. Where no append waits for a sync, it is written by the caller itself, if nothing is queued; but a
large one, while there is a core to spare, is framed by the thread as well, so that who appends goes on while its bytes
are checked and copied.

When an append counts as done, by the stream's `stability`:

    fsync   after fdatasync: it survives a crash of the machine
    async   after write: it survives a crash of the process; synced about once a second and when the segment is finished
    none    at once: it is written soon, and may be lost in any crash

Whatever the setting, what is lost is a tail: never a batch whose successor is there, never a part of an atomic append.

Identity: a *producer* (a name) numbers its appends with rising sequences, and each life of it has a higher *epoch*.
An append whose sequence is not higher than the last one stored for the producer is a repetition: it is acknowledged
and not written. A *mark* is an append without rows: a punctuation, which has a sequence of its own, or any other kind,
which carries the sequence of what it follows and may be told again. A *record* belongs to the append that it is written
with: after any crash both are there or neither, and a repetition writes neither.

A writer that fails (disk full, fenced) stays failed; opening another recovers.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from riprap.base.clock import Clock
from riprap.base.errors import DataError, UsageError
from riprap.graph.keys import OrderKey
from riprap.streams.beside import SpareCore
from riprap.streams.body import SMALLEST, Part, Template
from riprap.streams.description import Description, evolved, shown, store_description
from riprap.streams.errors import Fenced
from riprap.streams.files import Files, LocalFiles
from riprap.streams.frame import BATCH, HEADER_SIZE, MARKS, RECORD, MarkKind, Message, frame, payload_of, producer_id
from riprap.streams.keys import EMPTY, Range, int64_of
from riprap.streams.live import Live, Recent, announce, withdraw
from riprap.streams.lock import acquire
from riprap.streams.log import Cut, Log
from riprap.streams.mark import MarkFile
from riprap.streams.retention import Discard, enforce
from riprap.streams.syncing import BackgroundSync

_KINDS: dict[str, int] = {name: kind for kind, name in MARKS.items()}

_SYNC_EVERY = 1_000_000  # microseconds between syncs where stability is "async"
_SYNC_BYTES = 16 << 20  # or so many bytes
BESIDE = 32 << 10  # bytes of an append that is worth handing to the thread, where none waits for a sync


class Appended(NamedTuple):
    """Where an append lies. `repeated`: it was there already, or so the sequence says, and nothing was written."""

    position: int  # of its first row; of a repetition, the end of the stream
    rows: int
    repeated: bool = False


_Messages = tuple[Message, ...]


@dataclass(frozen=True)
class _Append:
    messages: Callable[[], _Messages]  # made when they are written, or before
    batches: tuple[pa.RecordBatch, ...]
    appended: Appended
    future: "Future[Appended]"
    size: int  # bytes, about


_Serialized = tuple[pa.Buffer | bytearray, Sequence[Part]]  # a message, and parts of its body that are not in it


class _Nothing(NamedTuple):
    """A batch without rows, which marks are made of."""

    batch: pa.RecordBatch
    serialized: pa.Buffer


def _nothing_of(schema: pa.Schema) -> _Nothing:
    # Not from Python values: to look at those, Arrow imports pandas.
    batch = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
    return _Nothing(batch, batch.serialize())


class Writer:
    """Made by `Stream.writer`. May be used from several threads; appends are numbered in the order of the calls."""

    def __init__(
        self,
        files: Files,
        directory: Path,
        description: Description,
        producer: str,
        epoch: int,
        clock: Clock,
        *,
        beside: bool = True,
    ) -> None:
        self._beside = SpareCore(clock) if beside and description.settings.stability == "async" else None
        self._files = files
        self._description = description
        self._nothing, self._template = _nothing_of(description.schema), Template(description.schema)
        self._key_places = tuple(description.schema.get_field_index(name) for name in ("_ts", "_seq"))
        self._never_falls = description.keys_never_fall
        self._rows_share = "_n" in description.schema.names  # rows of one trigger share its `_seq`
        self._row_bytes = 0.0  # of the last batch: what the next one will be like
        self._clock = clock
        self._producer = producer_id(producer)
        self._lock = acquire(directory, producer, epoch, clock)
        try:
            self._log = Log(files, directory, description, self._lock, clock)
            known_epoch, self._sequence = self._log.carry.producers.get(self._producer, (epoch, -1))
            if known_epoch > epoch:
                raise Fenced(f"{directory} knows epoch {known_epoch} of producer {producer!r}: epoch {epoch} is older")
        except BaseException:
            self._lock.release()
            raise
        self.epoch = epoch
        carry = self._log.carry
        self._position, self._last_ts, self._last_seq = carry.position, carry.last_ts, carry.last_seq
        self._mark = MarkFile(directory, self._log.end())
        self._live = Live(self._log.end(), description.settings.memory_bytes)
        self._directory = os.path.realpath(directory)
        announce(self._directory, self._live)
        self._queue: deque[_Append] = deque()
        self._waiting = 0  # appends not yet done, and their bytes
        self._waiting_bytes = 0
        self.appended_bytes = 0  # by this writer, stable or not
        self._mutex = lock = threading.RLock()
        self._changed = threading.Condition(lock)  # there is room, or all is done
        self._work = threading.Condition(lock)  # for the thread alone: to wake it costs who appends its turn
        self._closing = False
        self._writing = False  # somebody commits a group
        self._failure: BaseException | None = None
        self._synced_at = clock.now()
        self._unsynced = 0  # bytes since
        self._syncing = BackgroundSync()
        self._thread = threading.Thread(target=self._run, name=f"riprap-writer-{directory.name}", daemon=True)
        self._thread.start()

    @property
    def cut(self) -> Cut | None:
        """What recovery cut from the stream when this writer was opened."""
        return self._log.cut

    @property
    def upload_failure(self) -> OSError | None:
        """Why the last upload to a remote location failed; finished segments then wait in the spool."""
        return self._log.upload_failure

    @property
    def discard(self) -> Discard | None:
        """For `Stream.trim`: what was trimmed is written over, rather than deleted; None at a remote location."""
        return self._log.spares.keep if isinstance(self._files, LocalFiles) else None

    @property
    def last_sequence(self) -> int:
        """Of this producer's last append, stored or queued, -1 if there was none: whoever comes back goes on here."""
        return self._sequence

    @property
    def position(self) -> int:
        """Behind the last row appended, stable or not."""
        return self._position

    def append(
        self,
        batch: pa.RecordBatch,
        *,
        sequence: int | None = None,
        progress: OrderKey | None = None,
        born: int = 0,
        payload: bytes = b"",
        record: bytes = b"",
    ) -> "Future[Appended]":
        """Append a batch; the future is done when it is stable. Without `sequence` it is the producer's next."""
        return self.append_all(
            (batch,), sequence=sequence, progress=progress, born=born, payload=payload, record=record
        )

    def append_all(
        self,
        batches: Sequence[pa.RecordBatch],
        *,
        sequence: int | None = None,
        progress: OrderKey | None = None,
        born: int = 0,
        payload: bytes = b"",
        record: bytes = b"",
    ) -> "Future[Appended]":
        """Append batches as one: after any crash all of them are there or none, and no reader sees a part.

        `born`, microseconds, is for whoever measures delays: when the oldest input that caused this entered the app.
        `payload` goes with each batch, to every reader; `record` is a mark behind them, for readers that ask for marks.
        """
        kept = tuple([batch for batch in batches if batch.num_rows])
        ranges = tuple([self._range(batch) for batch in kept])
        size = int(self._row_bytes * sum(batch.num_rows for batch in kept)) + len(record)
        beside = self._beside is not None and size >= BESIDE and self._beside.there()
        marked = (self._nothing.batch,) if record else ()
        serialized: tuple[_Serialized, ...] = ()
        if not beside:
            serialized = tuple(self._serialized(batch) for batch in kept)  # before the lock: this may copy the rows
            size = sum(map(_length, serialized)) + len(record)

        def place() -> Callable[[], _Messages] | None:
            if sequence is not None and sequence <= self._sequence:
                return None
            self._check_order(ranges)
            self._sequence = number = self._sequence + 1 if sequence is None else sequence
            at, now, more = self._position, self._clock.now(), len(marked)
            for batch, range_ in zip(kept, ranges, strict=True):
                self._position += batch.num_rows
                self._last_ts, self._last_seq = max(self._last_ts, range_.max_ts), max(self._last_seq, range_.max_seq)

            def messages() -> _Messages:
                made, position, last = [], at, len(kept) - 1 + more
                bodies = serialized or tuple(self._serialized(batch) for batch in kept)
                for place_, (body, batch, range_) in enumerate(zip(bodies, kept, ranges, strict=True)):
                    told = progress if place_ == len(kept) - 1 else None
                    made.append(self._message(
                        body, BATCH, range_, told, number, position, now, born, batch.num_rows, last - place_, payload
                    ))  # fmt: skip
                    position += batch.num_rows
                if record:
                    nothing = (self._nothing.serialized, ())
                    made.append(
                        self._message(nothing, RECORD, EMPTY, None, number, position, now, born, payload=record)
                    )
                return tuple(made)

            return messages if beside else _made(messages())

        return self._enqueue((*kept, *marked), size, place, beside=beside)

    def _serialized(self, batch: pa.RecordBatch) -> _Serialized:
        found = self._template.message(batch) if self._row_bytes * batch.num_rows >= SMALLEST else None
        made: _Serialized = found or (batch.serialize(), ())
        self._row_bytes = _length(made) / batch.num_rows
        return made

    def mark(
        self,
        key: OrderKey | None,
        *,
        kind: MarkKind,
        sequence: int | None = None,
        born: int = 0,
        payload: bytes = b"",
    ) -> "Future[Appended]":
        """Append an entry without rows, which only readers with `marks=True` see.

        A punctuation is numbered as an append is. The other kinds belong to the last append: `sequence`, where given,
        is that of the last one; a lower one is a repetition.
        """
        if kind not in _KINDS:
            raise UsageError(f"a mark is one of {', '.join(_KINDS)}, not {kind!r}")
        nothing, buffer = self._nothing

        def place() -> Callable[[], _Messages] | None:
            least = self._sequence + (kind == "punctuation")
            number = least if sequence is None else sequence
            if number < least:
                return None
            self._sequence = number
            at, now = self._position, self._clock.now()
            made = self._message((buffer, ()), _KINDS[kind], EMPTY, key, number, at, now, born, payload=payload)
            return _made((made,))

        return self._enqueue((nothing,), buffer.size + len(payload), place)

    def _enqueue(
        self,
        batches: tuple[pa.RecordBatch, ...],
        size: int,
        place: Callable[[], Callable[[], _Messages] | None],
        *,
        beside: bool = False,
    ) -> "Future[Appended]":
        """Queue what `place` makes of the batches, once there is room; it makes None of a repetition."""
        settings = self._description.settings
        future: Future[Appended] = Future()
        with self._mutex:
            while self._waiting and self._failure is None and not self._closing:
                if self._waiting < settings.outstanding and self._waiting_bytes + size <= settings.outstanding_bytes:
                    break
                self._changed.wait()
            if self._failure is not None:
                raise self._failure
            if self._closing:
                raise UsageError("this writer is closed: open another one to append")
            messages = place()
            if messages is None:
                append = _Append(_made(()), (), Appended(self._position, 0, repeated=True), future, 0)
            else:
                rows = batches[0].num_rows if len(batches) == 1 else sum(batch.num_rows for batch in batches)
                append = _Append(messages, batches, Appended(self._position - rows, rows), future, size)
            self._waiting += 1
            self._waiting_bytes += append.size
            self.appended_bytes += append.size
            if settings.stability == "none":
                future.set_result(append.appended)
            at_once = not beside and self._at_once(append)
            if at_once:
                self._writing = True
            else:
                self._queue.append(append)
                if len(self._queue) == 1:
                    self._work.notify()
        if at_once:
            self._finish([append])
        return future

    def _at_once(self, append: _Append) -> bool:
        """Whether an append is written by who made it, rather than by the thread.

        Where nobody waits for a sync that is quicker: two threads that take turns at the interpreter's lock spend more
        time on that than the write takes. Finishing a segment syncs, and is left to the thread.
        """
        idle = not self._queue and not self._writing
        return idle and self._description.settings.stability == "async" and not self._log.must_roll(append.size)

    def _message(
        self,
        serialized: _Serialized,
        kind: int,
        range_: Range,
        key: OrderKey | None,
        sequence: int,
        position: int,
        now: int,
        born: int,
        rows: int = 0,
        more: int = 0,
        payload: bytes = b"",
    ) -> Message:
        """`more` messages will follow in the same append."""
        arrow, body = serialized
        return frame(
            arrow,
            kind,
            stream=self._description.id,
            producer=self._producer,
            epoch=self.epoch,
            sequence=sequence,
            position=position,
            rows=rows,
            remaining=more,
            range_=range_,
            progress=key,
            written_at=now,
            born=born,
            payload=payload,
            body=body,
        )

    def _range(self, batch: pa.RecordBatch) -> Range:
        """Of its keys; raises where it is not a batch of this stream."""
        description = self._description
        if not batch.schema.equals(description.schema):
            raise DataError(
                f"this batch has ({shown(batch.schema)}), the stream has ({shown(description.schema)}): see `evolve`"
            )
        ts_column, seq_column = batch.column(self._key_places[0]), batch.column(self._key_places[1])
        for name, column in (("_ts", ts_column), ("_seq", seq_column)):
            if column.null_count:
                raise DataError(f"the column {name} has nulls: every row of a stream has an order key")
        ts, seq = int64_of(ts_column), int64_of(seq_column)
        if not self._never_falls:
            return Range(int(ts.min()), int(ts.max()), int(seq.min()), int(seq.max()))
        rising = np.greater_equal if self._rows_share else np.greater
        if not (ts[1:] >= ts[:-1]).all() or not rising(seq[1:], seq[:-1]).all():
            raise DataError(
                "within this batch `_ts` falls or `_seq` does not rise: sort it by order key, give the stream a `_src` "
                "column if it has several sources, or create it with ordered=False"
            )
        return Range(int(ts[0]), int(ts[-1]), int(seq[0]), int(seq[-1]))

    def _check_order(self, ranges: tuple[Range, ...]) -> None:
        if not self._never_falls:
            return
        least = 0 if self._rows_share else 1
        last_ts, last_seq = self._last_ts, self._last_seq
        for range_ in ranges:
            if range_.min_ts < last_ts or range_.min_seq < last_seq + least:
                raise DataError(
                    f"this batch begins at _ts {range_.min_ts}, _seq {range_.min_seq}, and the stream is already at "
                    f"_ts {last_ts}, _seq {last_seq}: append in the order of the keys, or create the stream with "
                    "ordered=False"
                )
            last_ts, last_seq = range_.max_ts, range_.max_seq

    def flush(self) -> None:
        """Return when everything appended so far is done, as `stability` has it; raise what went wrong."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or not self._waiting)
            if self._failure is not None:
                raise self._failure

    def evolve(self, schema: pa.Schema) -> None:
        """Add nullable columns at the end: the next segment begins with the new schema."""
        wanted = evolved(self._description.schema, schema)
        if wanted.equals(self._description.schema):
            return
        with self._idle():
            self._description = replace(self._description, schemas=(*self._description.schemas, wanted))
            self._nothing, self._template = _nothing_of(wanted), Template(wanted)
            store_description(self._files, self._description)
            self._log.roll(wanted)
            self._publish([])

    def finish_segment(self) -> None:
        """Finish the open segment now, so that other Arrow readers can open it."""
        with self._idle():
            self._log.roll()
            self._publish([])

    @contextmanager
    def _idle(self) -> Iterator[None]:
        """Holds back new appends until the block ends, once everything queued is done."""
        with self._changed:
            self.flush()
            yield

    def close(self) -> None:
        """Make everything stable and let go of the stream. The newest segment stays open for the next writer."""
        with self._changed:
            if self._closing:
                return
            self._closing = True
            self._changed.notify_all()
            self._work.notify()
        self._thread.join()
        self._syncing.close()
        withdraw(self._directory, self._live)
        try:
            if self._failure is None and self._description.settings.stability != "none":
                self._log.sync()
        finally:
            self._log.close()
            self._mark.close()
            self._lock.release()
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> "Writer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except BaseException:
            if error is None:  # do not hide what ended the block
                raise

    def _run(self) -> None:
        while True:
            with self._changed:
                self._work.wait_for(lambda: (self._queue or self._closing) and not self._writing)
                if not self._queue:
                    return
                group = list(self._queue)
                self._queue.clear()
                self._writing = True
            if not self._finish(group):
                return

    def _finish(self, group: list[_Append]) -> bool:
        """Commit a group, as the only one who writes, and complete its futures; False: the writer has failed."""
        try:
            self._commit(group)
            failure: BaseException | None = None
        except BaseException as error:
            failure = error
        with self._mutex:
            if failure is not None:
                self._failure = failure
                group += self._queue
                self._queue.clear()
            self._writing = False
            self._waiting -= len(group)
            self._waiting_bytes -= sum(append.size for append in group)
            self._changed.notify_all()
            if self._queue or self._closing:
                self._work.notify()
        for append in group:
            if failure is not None and not append.future.done():
                append.future.set_exception(failure)
            elif not append.future.done():
                append.future.set_result(append.appended)
        return failure is None

    def _commit(self, group: list[_Append]) -> None:
        settings = self._description.settings
        messages: list[Message] = []
        recent: list[Recent] = []
        size = 0
        for append in group:
            if self._log.must_roll(size):
                self._log.write(messages)
                messages, size = [], 0
                self._log.roll()
                enforce(self._files, self._log.finished, settings, self._clock, self.discard)
            made = append.messages()
            messages += made
            recent += _recent(made, append.batches)
            size += append.size
        self._log.write(messages)
        if settings.stability == "fsync":
            self._log.sync()
        elif settings.stability == "async":
            self._sync_beside(size)
        self._log.check_lock()
        self._publish(recent)

    def _sync_beside(self, size: int) -> None:
        """About once a second; and after so many bytes that finishing a segment does not wait for all of them."""
        now = self._clock.now()
        self._unsynced += size
        if (now - self._synced_at >= _SYNC_EVERY or self._unsynced >= _SYNC_BYTES) and not self._syncing.busy:
            self._synced_at, self._unsynced = now, 0
            self._log.sync_beside(self._syncing)

    def _publish(self, recent: list[Recent]) -> None:
        mark = self._log.end(self._live.mark.commits + 1)
        self._mark.store(mark)
        self._live.publish(recent, mark)


def _length(serialized: _Serialized) -> int:
    arrow, body = serialized
    return len(memoryview(arrow)) + HEADER_SIZE + sum(map(len, body))


def _made(messages: _Messages) -> Callable[[], _Messages]:
    return lambda: messages


def _recent(messages: _Messages, batches: Sequence[pa.RecordBatch]) -> list[Recent]:
    return [
        Recent(message.header, batch, payload_of(message.header, memoryview(message.head)))
        for message, batch in zip(messages, batches, strict=True)
        if message.header.kind == BATCH
    ]
