"""The open segment: writing, syncing, rolling. Used by one thread at a time; independent of futures and producers.

Order of effects, so that a crash at any point leaves a stream that opens:
    append   the messages, then fdatasync; a crash leaves a prefix, and garbage behind the synced part
    roll     the ending, fdatasync; the next segment under a temporary name, fsync, link; then the catalogue
             (a crash in between leaves a finished segment without a record or without a successor: recovery handles
             both)

The next segment may overwrite the file of a trimmed one (`spares.py`); it is truncated to its own length when it is
finished, and when the writer closes.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from riprap.base import files as own
from riprap.base.clock import Clock
from riprap.base.disk import retry_while_full
from riprap.streams import segment_index as catalogue
from riprap.streams.description import Description
from riprap.streams.frame import FramedMessage
from riprap.streams.lock import WriterLock
from riprap.streams.mark import Mark, read_mark
from riprap.streams.segment import Builder, Carry, Running, Start, opening, read_start, recover, segment_name, walk
from riprap.streams.segment_summary import Summary
from riprap.streams.spares import Spares
from riprap.streams.stream_errors import Damaged, Fenced
from riprap.streams.stream_files import Files, LocalFiles, SpooledFiles
from riprap.streams.syncing import BackgroundSync

_VECTORS = 512  # buffers per writev; the system allows 1024
MOST_MESSAGES = 1 << 16  # in a segment, so that walking its headers stays quick


@dataclass(frozen=True)
class TornTail:
    """What recovery removed from the end of the newest segment."""

    file: str
    offset: int
    size: int  # bytes
    reason: str
    kept: str  # file with the removed bytes, if they had been acknowledged; else ""

    def __str__(self) -> str:
        aside = f"; they had been acknowledged and are saved in {self.kept}" if self.kept else ""
        return f"cut {self.size} bytes of {self.file} at byte {self.offset} ({self.reason}){aside}"


class Log:
    def __init__(self, files: Files, directory: Path, description: Description, lock: WriterLock, clock: Clock) -> None:
        """Open for writing: recover the newest segment, or start the first."""
        self.cut: TornTail | None = None
        self.upload_failure: OSError | None = None
        self._files = files
        self._directory = directory
        self._description = description
        self._lock = lock
        self._clock = clock
        self._file = -1
        settings = description.settings
        self._segment_bytes, self._segment_age = settings.segment_bytes, settings.segment_age
        self.spares = Spares(directory)
        found = catalogue.load(files)
        self.finished: tuple[Summary, ...] = found.finished
        self.carry = Carry(description.id, 0)
        self._upload()  # a crash or a network failure may have prevented earlier uploads
        if found.open is not None and own.exists(directory / segment_name(found.open)):
            self._reopen(found.open)
        else:
            self._begin_after_finished()

    @property
    def carry(self) -> Carry:
        """The carry after the last written message."""
        return self._running.carry()

    @carry.setter
    def carry(self, carry: Carry) -> None:
        self._running = Running(carry)

    def _reopen(self, number: int) -> None:
        """Continue the newest segment after its last whole append."""
        path = self._directory / segment_name(number)
        file = LocalFiles(self._directory).open(path.name)
        try:
            try:
                start = read_start(file)
            except Damaged as damage:  # torn while it was created: nothing in it was ever acknowledged
                self.cut = self._set_aside(path, 0, damage.what)
                own.unlink(path)
                self._begin_after_finished()
                return
            recovered = recover(file, start)
        finally:
            file.close()
        self._start, self._builder, self.carry = start, recovered.builder, recovered.carry
        if own.status(path).st_size > self._builder.end:
            cut = self._set_aside(path, self._builder.end, recovered.reason)
            if not start.reused or cut.kept:  # else these are bytes of the file's previous content
                self.cut = cut
        if self._lock.took_over:
            self._replace(path)
            return
        self._file = own.descriptor(path, os.O_WRONLY)
        os.ftruncate(self._file, self._builder.end)
        os.fdatasync(self._file)
        if start.schema != self._description.schema:
            self.roll()

    def _set_aside(self, path: Path, offset: int, reason: str) -> TornTail:
        """Describe the tail to remove. Bytes before the mark had been acknowledged: they are damaged, and are saved."""
        mark = read_mark(self._directory)
        number = int(path.stem)
        kept = ""
        if mark is not None and mark.segment == number and mark.offset > offset:
            kept = f"{path.stem}-{offset}.cut"
            LocalFiles(self._directory).put(kept, own.read_bytes(path)[offset:])
        return TornTail(str(path), offset, own.status(path).st_size - offset, reason or "torn by a crash", kept)

    def _replace(self, path: Path) -> None:
        """Finish a copy of a segment that a fenced writer may still have open: its writes then go to the old file."""
        summary, ending = self._builder.finished(self._start, self._clock.now())
        LocalFiles(self._directory).put(path.name, own.read_bytes(path)[: self._builder.end] + ending)
        self._go_on(summary)

    def _begin_after_finished(self) -> None:
        """Start the next segment after the last finished one, if there is no open one."""
        if self.finished:
            last = self.finished[-1]
            file = self._files.open(segment_name(last.segment))
            try:
                start = read_start(file)
                found = walk(file, start.carry.stream, start.end, last.end, last.position, bodies=False)
                self.carry = replace(start.carry.after([item.header for item in found]), segment=last.segment + 1)
            finally:
                file.close()
        self._begin()

    def _begin(self) -> None:
        path = self._directory / segment_name(self.carry.segment)
        now = self._clock.now()
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        reused = self.spares.take(temporary, self.carry.position)
        data = opening(self._description.schema, self.carry, now, reused)
        self._file = own.descriptor(temporary, os.O_WRONLY | os.O_CREAT | (0 if reused else os.O_TRUNC))
        _write_all(self._file, path, [data], 0)
        os.fsync(self._file)
        try:
            own.link(temporary, path)
            own.unlink(temporary)
        except FileExistsError:  # left over from a fenced writer; or this writer was fenced
            self.check_lock()
            own.rename(temporary, path)
        own.sync_directory(self._directory)
        self._start = Start(self._description.schema, self.carry, now, len(data), reused)
        self._builder = Builder(len(data))

    def end(self, commits: int = 0) -> Mark:
        """The mark after the last written message."""
        running = self._running
        return Mark(running.segment, self._builder.end, running.position, running.last_ts, commits)

    def must_roll(self, unwritten: int) -> bool:
        """Whether the open segment is full, counting bytes that are about to be written to it."""
        builder, age = self._builder, self._segment_age
        return builder.messages + unwritten > 0 and (
            builder.end + unwritten >= self._segment_bytes
            or builder.messages >= MOST_MESSAGES
            or (age is not None and self._clock.now() - self._start.written_at >= age)
        )

    def write(self, messages: Sequence[FramedMessage]) -> None:
        """Append whole messages, without copies, with as few system calls as possible."""
        parts: list[bytes | memoryview] = []
        for message in messages:
            parts.append(message.head)
            parts += message.rest
        builder, running = self._builder, self._running
        offset = builder.end
        for at in range(0, len(parts), _VECTORS):
            offset += _write_all(self._file, self._directory, parts[at : at + _VECTORS], offset)
        for message in messages:
            builder.add(message.header, message.metadata)
            running.add(message.header)

    def sync(self) -> None:
        os.fdatasync(self._file)

    def sync_beside(self, syncing: BackgroundSync) -> None:
        """Start a sync of what was written, without waiting."""
        syncing.start(self._file)

    def check_lock(self) -> None:
        if not self._lock.held():
            raise Fenced(f"a newer epoch of this producer has taken over {self._directory}: stop this one")

    def roll(self, schema: pa.Schema | None = None) -> None:
        """Finish the open segment, which becomes an Arrow file, and start the next, perhaps with a newer schema."""
        self.check_lock()
        if schema is not None:
            self._description = replace(self._description, schemas=(*self._description.schemas, schema))
        summary, ending = self._builder.finished(self._start, self._clock.now())
        if self._start.reused:
            os.ftruncate(self._file, self._builder.end)
        _write_all(self._file, self._directory, [ending], self._builder.end)
        os.fdatasync(self._file)
        os.close(self._file)
        self._file = -1
        self._go_on(summary)

    def _go_on(self, summary: Summary) -> None:
        """Start the segment after one that was just finished, and add that one to the catalogue."""
        self.finished = (*self.finished, summary)
        number = self.carry.segment
        self.carry = replace(self.carry, segment=number + 1)
        self._begin()
        if self._upload():
            there = set(self._files.names())  # without what was trimmed
            self.finished = tuple(item for item in self.finished if segment_name(item.segment) in there)
            catalogue.store(self._files, self.finished)

    def _upload(self) -> bool:
        """Upload finished segments from the spool. While the remote location fails they stay there: no append depends
        on it, and the next roll tries again."""
        if not isinstance(self._files, SpooledFiles):
            return True
        try:
            waiting = set(self._files.spool.names())
            for item in self.finished:
                if segment_name(item.segment) in waiting:
                    self._files.upload(segment_name(item.segment))
        except OSError as error:
            self.upload_failure = error
            return False
        self.upload_failure = None
        return True

    def close(self) -> None:
        self.spares.close()
        if self._file >= 0:
            if self._start.reused and self._lock.held():
                os.ftruncate(self._file, self._builder.end)
            os.close(self._file)
            self._file = -1


def _write_all(file: int, path: Path, parts: list[bytes | memoryview], offset: int) -> int:
    """`pwritev` until everything is written; returns the number of bytes."""
    size = sum(map(len, parts))
    done = retry_while_full(lambda: os.pwritev(file, parts, offset), path)
    while done < size:  # rare: a signal, or a nearly full disk
        rest, at = memoryview(b"".join(parts))[done:], offset + done
        done += retry_while_full(partial(os.pwritev, file, [rest], at), path)
    return size
