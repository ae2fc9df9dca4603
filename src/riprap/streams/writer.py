"""Appending: batches in, futures out, many appends per sync.

`append` checks the batch in the caller's thread and queues it; one thread per writer writes everything queued with one
system call, syncs once, publishes how far the stream is stable, and completes the futures (group commit). While a sync
runs, the next group accumulates. `append` blocks while `outstanding` appends or bytes wait, so memory is bounded. Where
no append waits for a sync, the appending thread writes the queue; but small appends in quick succession are gathered
for a millisecond, and those that may share one entry are joined (`gathering.py`).

When an append counts as done, by the stream's `stability`:

    fsync   after fdatasync: it survives a crash of the machine
    async   after write: it survives a crash of the process; synced about once a second and when the segment is finished
    none    at once: it is written soon, and may be lost in any crash

In each case only a tail can be lost: never a batch whose successor survives, never a part of an atomic append.

Identity: a *producer* (a name) numbers its appends with ascending sequences, and each incarnation of it has a higher
*epoch*. An append whose sequence is not higher than the last one stored for the producer is a repetition: it is
acknowledged and not written. A *mark* is an append without rows: a punctuation, which has its own sequence, or any
other kind, which has the sequence of the append before it and may be repeated. A *record* belongs to the append that it
is written with: after any crash either both exist or neither, and a repetition writes neither.

A writer that fails (disk full, fenced) stays failed; opening another one recovers the stream.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import pyarrow as pa

from riprap.base.clock import Clock
from riprap.base.errors import UsageError
from riprap.graph.order_keys import OrderKey
from riprap.streams.body import SMALLEST, Part, Template, empty_batch
from riprap.streams.description import Description, evolved, store_description
from riprap.streams.frame import (
    BATCH,
    HEADER_SIZE,
    MARKS,
    RECORD,
    FramedMessage,
    MarkKind,
    frame,
    producer_id,
)
from riprap.streams.gathering import Unframed, joined
from riprap.streams.live import Live, Recent, announce, recent_batches, withdraw
from riprap.streams.lock import acquire
from riprap.streams.log import Log, TornTail
from riprap.streams.mark import BEGINNING, MARK, MarkFile
from riprap.streams.order import AppendOrder
from riprap.streams.positions import EMPTY, Appended, Range
from riprap.streams.retention import Discard, enforce
from riprap.streams.segment import segment_numbers
from riprap.streams.stream_errors import Fenced
from riprap.streams.stream_files import Files, LocalFiles
from riprap.streams.syncing import BackgroundSync

_KINDS: dict[str, int] = {name: kind for kind, name in MARKS.items()}

_SYNC_EVERY = 1_000_000  # microseconds between syncs where stability is "async"
_SYNC_BYTES = 16 << 20  # or this many bytes
GATHERED = 0.001  # seconds between two commits while appends are gathered
_ENOUGH = 256 << 10  # bytes that are written without waiting for more


_Messages = tuple[FramedMessage, ...]


class _Append(NamedTuple):
    messages: _Messages | Unframed  # `Unframed` is framed when it is written, perhaps joined with others
    batches: tuple[pa.RecordBatch, ...]
    appended: Appended
    future: "Future[Appended]"
    size: int  # bytes, about


_Serialized = tuple[pa.Buffer | bytearray, Sequence[Part]]  # a message, and parts of its body that are not in it


class StreamWriter:
    """Created by `PersistentStream.writer`. Thread-safe; appends are numbered in the order of the calls."""

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
        self._gathers = beside and description.settings.stability == "async"
        self._committed_at = 0.0
        self._files = files
        self._description = description
        self._empty, self._template = empty_batch(description.schema), Template(description.schema)
        self._order = AppendOrder(description)
        self._stability = description.settings.stability
        self._row_bytes = 0.0  # of the last batch: an estimate for the next one
        self._clock = clock
        self._producer = producer_id(producer)
        self._lock = acquire(directory, producer, epoch, clock)
        try:
            if not (directory / MARK).exists() and not segment_numbers(files.names()):
                MarkFile(directory, BEGINNING).close()  # before any segment, so that a missing mark means loss
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
        self._waited_for = 0  # callers that wait for room, or until all is done
        self.appended_bytes = 0  # by this writer, stable or not
        self._mutex = lock = threading.RLock()
        self._changed = threading.Condition(lock)  # there is room, or all is done
        self._work = threading.Condition(lock)  # for the thread alone: waking it is expensive for appending threads
        self._closing = False
        self._writing = False  # a thread is committing a group
        self._commits = 0
        self._hurries = False  # the queue is written without waiting for more
        self._attends = False  # the thread waits with a short timeout
        self._failure: BaseException | None = None
        self._synced_at = clock.now()
        self._unsynced = 0  # bytes since
        self._syncing = BackgroundSync()
        self._thread = threading.Thread(target=self._run, name=f"riprap-writer-{directory.name}", daemon=True)
        self._thread.start()

    @property
    def cut(self) -> TornTail | None:
        """The tail that recovery removed when this writer was opened."""
        return self._log.cut

    @property
    def upload_failure(self) -> OSError | None:
        """Why the last upload to a remote location failed; finished segments then wait in the spool."""
        return self._log.upload_failure

    @property
    def discard(self) -> Discard | None:
        """For `PersistentStream.trim`: reuse trimmed files instead of deleting them; None at a remote location."""
        return self._log.spares.keep if isinstance(self._files, LocalFiles) else None

    @property
    def last_sequence(self) -> int:
        """The sequence of this producer's last append, stored or queued; -1: none. A new incarnation continues it."""
        return self._sequence

    @property
    def position(self) -> int:
        """The position after the last appended row, stable or not."""
        return self._position

    def append(
        self,
        batch: pa.RecordBatch,
        *,
        sequence: int | None = None,
        watermark: OrderKey | None = None,
        born: int = 0,
        payload: bytes = b"",
        record: bytes = b"",
    ) -> "Future[Appended]":
        """Append a batch; the future is done when it is stable. The default `sequence` is the producer's next."""
        rows = batch.num_rows
        if record or not rows:
            return self.append_all(
                (batch,), sequence=sequence, watermark=watermark, born=born, payload=payload, record=record
            )
        range_ = self._order.range_of(batch)
        gathers = self._gathers and self._row_bytes > 0  # else the size of a row is unknown
        serialized = None if gathers else self._serialized(batch)  # before the lock: this may copy the rows
        size = _length(serialized) if serialized is not None else int(rows * self._row_bytes)
        with self._mutex:
            self._make_room(size)
            counted, least = sequence is None, self._sequence + 1
            number = least if sequence is None else sequence
            if number < least:
                return self._repeated()
            at, now = self._position, self._clock.now()
            self._follow(((range_, rows),))
            self._sequence = number
            entry: _Messages | Unframed
            if serialized is None:
                entry = Unframed(batch, range_, watermark, counted, number, at, now, born, payload)
            else:
                entry = (self._message(serialized, BATCH, range_, watermark, number, at, now, born, rows, 0, payload),)
            append = _Append(entry, (batch,), Appended(at, rows), Future(), size)
            group = self._queued(append)
        if group:
            self._finish(group)
        return append.future

    def append_all(
        self,
        batches: Sequence[pa.RecordBatch],
        *,
        sequence: int | None = None,
        watermark: OrderKey | None = None,
        born: int = 0,
        payload: bytes = b"",
        record: bytes = b"",
    ) -> "Future[Appended]":
        """Append batches atomically: after any crash all of them exist or none, and no reader sees a part.

        `born`, microseconds, is for latency measurements: when the oldest input that caused this entered the app.
        `payload` goes with each batch, to every reader; `record` is a mark after them, for readers with `marks=True`.
        """
        filled = tuple([batch for batch in batches if batch.num_rows])
        ranges = tuple([self._order.range_of(batch) for batch in filled])
        marked = (self._empty.batch,) if record else ()
        serialized = tuple([self._serialized(batch) for batch in filled])  # before the lock: this may copy the rows
        size = sum(map(_length, serialized)) + len(record)

        def place(number: int) -> _Messages:
            position, now, last = self._position, self._clock.now(), len(filled) - 1 + len(marked)
            self._follow([(range_, batch.num_rows) for batch, range_ in zip(filled, ranges, strict=True)])

            made = []
            for place_, (body, batch, range_) in enumerate(zip(serialized, filled, ranges, strict=True)):
                key = watermark if place_ == len(filled) - 1 else None
                made.append(self._message(
                    body, BATCH, range_, key, number, position, now, born, batch.num_rows, last - place_, payload
                ))  # fmt: skip
                position += batch.num_rows
            if record:
                nothing = (self._empty.serialized, ())
                made.append(self._message(nothing, RECORD, EMPTY, None, number, position, now, born, payload=record))
            return tuple(made)

        return self._enqueue((*filled, *marked), size, sequence, 1, place)

    def _follow(self, batches: Sequence[tuple[Range, int]]) -> None:
        """Advance over batches with these ranges and row counts; raises if one violates the order."""
        last_ts, last_seq, position = self._last_ts, self._last_seq, self._position
        for range_, rows in batches:
            self._order.check(range_, last_ts, last_seq)
            last_ts, last_seq = max(last_ts, range_.max_ts), max(last_seq, range_.max_seq)
            position += rows
        self._last_ts, self._last_seq, self._position = last_ts, last_seq, position

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

        A punctuation is numbered like an append. The other kinds belong to the last append: `sequence`, if given, is
        that of the last append; a lower one is a repetition.
        """
        if kind not in _KINDS:
            raise UsageError(f"the kind of a mark is one of {', '.join(_KINDS)}, not {kind!r}")
        nothing, buffer = self._empty

        def place(number: int) -> _Messages:
            at, now = self._position, self._clock.now()
            return (self._message((buffer, ()), _KINDS[kind], EMPTY, key, number, at, now, born, payload=payload),)

        return self._enqueue((nothing,), buffer.size + len(payload), sequence, int(kind == "punctuation"), place)

    def _enqueue(
        self,
        batches: tuple[pa.RecordBatch, ...],
        size: int,
        sequence: int | None,
        step: int,
        place: Callable[[int], _Messages],
    ) -> "Future[Appended]":
        """Queue the messages that `place` builds for a sequence, which is at least `step` after the last one."""
        with self._mutex:
            self._make_room(size)
            least = self._sequence + step
            number = least if sequence is None else sequence
            if number < least:
                return self._repeated()
            messages = place(number)
            self._sequence = number
            rows = sum(batch.num_rows for batch in batches)
            append = _Append(messages, batches, Appended(self._position - rows, rows), Future(), size)
            group = self._queued(append)
        if group:
            self._finish(group)
        return append.future

    def _make_room(self, size: int) -> None:
        """Wait until an append of this size may be queued; raise if the writer is closed or has failed."""
        settings = self._description.settings
        while self._waiting and self._failure is None and not self._closing:
            if self._waiting < settings.outstanding and self._waiting_bytes + size <= settings.outstanding_bytes:
                break
            self._wait()
        if self._failure is not None:
            raise self._failure
        if self._closing:
            raise UsageError("this writer is closed: open a new one to append")

    def _repeated(self) -> "Future[Appended]":
        """The future of a repetition: done when everything queued is."""
        append = _Append((), (), Appended(self._position, 0, repeated=True), Future(), 0)
        if self._waiting:
            self._waiting += 1
            self._queue.append(append)
            self._work.notify()
        else:
            append.future.set_result(append.appended)
        return append.future

    def _queued(self, append: _Append) -> list[_Append]:
        """Queue an append; returns the group, removed from the queue, that the calling thread has to write now."""
        self._waiting += 1
        self._waiting_bytes += append.size
        self.appended_bytes += append.size
        if self._stability == "none":
            append.future.set_result(append.appended)
        self._queue.append(append)
        if self._at_once():
            if not self._log.must_roll(self._waiting_bytes):
                return self._taken()
            self._hurries = True  # finishing a segment syncs, and is left to the thread
            self._work.notify()
        elif not self._attends:
            self._work.notify()
        return []

    def _taken(self) -> list[_Append]:
        """Empty the queue, for the thread that writes it now."""
        self._writing = True
        self._hurries = False
        group = list(self._queue)
        self._queue.clear()
        return group

    def _at_once(self) -> bool:
        """Whether the appending thread writes the queue, rather than the writer's thread.

        If no append waits for a sync this is faster: handing over the interpreter's lock takes longer than the write.
        """
        if self._stability != "async" or self._writing:
            return False
        if not self._gathers or self._waiting_bytes >= _ENOUGH:
            return True
        return self._clock.monotonic() - self._committed_at >= GATHERED

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
    ) -> FramedMessage:
        """`more`: how many messages follow in the same append."""
        arrow, body = serialized
        return frame(
            arrow, kind, self._description.id, self._producer, self.epoch, sequence, position, rows, more, range_, key,
            now, born, payload, body,
        )  # fmt: skip

    def flush(self) -> None:
        """Wait until everything appended so far is done, as `stability` defines it; raises the writer's failure."""
        with self._mutex:
            while self._waiting:
                self._wait()
            if self._failure is not None:
                raise self._failure

    def _wait(self) -> None:
        """Wait until there may be room, or all may be done."""
        self._waited_for += 1
        self._work.notify()
        try:
            self._changed.wait()
        finally:
            self._waited_for -= 1

    def evolve(self, schema: pa.Schema) -> None:
        """Add nullable columns at the end: a new segment starts with the new schema."""
        wanted = evolved(self._description.schema, schema)
        if wanted.equals(self._description.schema):
            return
        with self._idle():
            self._description = replace(self._description, schemas=(*self._description.schemas, wanted))
            self._empty, self._template, self._order = (
                empty_batch(wanted),
                Template(wanted),
                AppendOrder(self._description),
            )
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
        """Wait for everything queued, and block new appends until the block ends."""
        with self._changed:
            self.flush()
            yield

    def close(self) -> None:
        """Make everything stable and release the stream. The newest segment stays open for the next writer."""
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

    def __enter__(self) -> "StreamWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except BaseException:
            if error is None:  # do not hide the exception that ended the block
                raise

    def _run(self) -> None:
        while True:
            with self._mutex:
                if not self._work_comes():
                    return
                group = self._taken()
            if not self._finish(group):
                return

    def _work_comes(self) -> bool:
        """Wait until the thread has to write the queue; False: the writer is closing.

        Appending threads usually write what is gathered; this thread writes what is left.
        """
        left_alone = not self._gathers
        while True:
            if not self._writing:
                if self._queue and (left_alone or self._hurries or self._waited_for or self._closing):
                    return True
                if self._closing:
                    return False
            commits = self._commits
            self._attends = self._gathers and (bool(self._queue) or not left_alone)
            notified = self._work.wait(2 * GATHERED if self._attends else None)
            self._attends = False
            left_alone = not self._gathers or not (notified or commits != self._commits)

    def _finish(self, group: list[_Append]) -> bool:
        """Commit a group, as the only writing thread, and complete its futures; False: the writer has failed."""
        try:
            self._commit(group)
            failure: BaseException | None = None
        except BaseException as error:
            failure = error
        if failure is not None:
            with self._mutex:
                self._failure = failure
                group += self._queue
                self._queue.clear()
        for append in group:  # before `flush` returns: its caller may look at them at once
            if not append.future.done():
                if failure is None:
                    append.future.set_result(append.appended)
                else:
                    append.future.set_exception(failure)
        with self._mutex:
            self._writing = False
            self._commits += 1
            self._waiting -= len(group)
            for append in group:
                self._waiting_bytes -= append.size
            if self._waited_for:
                self._changed.notify_all()
            if self._closing or (self._queue and not self._attends):
                self._work.notify()
        return failure is None

    def _commit(self, group: list[_Append]) -> None:
        log, messages, size = self._log, list[FramedMessage](), 0
        recent: list[Recent] = []
        for made, batches, bytes_ in self._framed(group):
            if log.must_roll(size):
                log.write(messages)
                messages, size = [], 0
                log.roll()
                enforce(self._files, log.finished, self._description.settings, self._clock, self.discard)
            messages += made
            if self._live.remembers:
                recent += recent_batches(made, batches)
            size += bytes_
        log.write(messages)
        if self._stability == "fsync":
            log.sync()
        elif self._stability == "async":
            self._sync_beside(size)
        log.check_lock()
        self._publish(recent)
        if self._gathers:
            self._committed_at = self._clock.monotonic()

    def _framed(self, group: list[_Append]) -> Iterator[tuple[_Messages, tuple[pa.RecordBatch, ...], int]]:
        """The messages of a group with their batches and bytes: per append, or joined."""
        run: list[Unframed] = []
        for append in group:
            if isinstance(append.messages, Unframed):
                run.append(append.messages)
                continue
            yield from self._joined(run)
            run = []
            yield append.messages, append.batches, append.size
        yield from self._joined(run)

    def _joined(self, run: list[Unframed]) -> Iterator[tuple[_Messages, tuple[pa.RecordBatch, ...], int]]:
        for batch, range_, watermark, _, number, at, now, born, payload in (
            joined(run, int(_ENOUGH / self._row_bytes)) if run else ()
        ):
            serialized = self._serialized(batch)
            made = self._message(
                serialized, BATCH, range_, watermark, number, at, now, born, batch.num_rows, 0, payload
            )
            yield (made,), (batch,), _length(serialized)

    def _sync_beside(self, size: int) -> None:
        """Sync in the background about once a second, or after `_SYNC_BYTES`, so that finishing a segment is quick."""
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
    return memoryview(arrow).nbytes + HEADER_SIZE + sum(map(len, body))
