"""The persistent stream: the durable image of a stream. One object to create, write, read and trim it."""

import os
import threading
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from riprap.base import files as own
from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.base.errors import UsageError, known
from riprap.graph.order_keys import OrderKey
from riprap.streams import retention
from riprap.streams import segment_index as catalogues
from riprap.streams.backwards import StoredRecord, records_backwards
from riprap.streams.description import (
    Description,
    StreamSettings,
    is_stream,
    load_description,
    new_description,
    store_description,
)
from riprap.streams.frame import END_OF_STREAM, HEADER_SIZE, read_header
from riprap.streams.live import Live, written_here
from riprap.streams.lock import is_written
from riprap.streams.mark import MARK, Mark, read_mark, watch
from riprap.streams.positions import NOTHING, Bounds, as_microseconds
from riprap.streams.reader import Reader
from riprap.streams.segment import read_start, recover, segment_name, segment_numbers
from riprap.streams.segment_index import Catalogue
from riprap.streams.segment_summary import Summary
from riprap.streams.stream_errors import Damaged
from riprap.streams.stream_files import Files, LocalFiles, SpooledFiles, files_at
from riprap.streams.writer import StreamWriter

Location = str | os.PathLike[str] | Files
Time = int | str | datetime  # microseconds, ISO 8601 text (UTC where it names no zone), datetime


class PersistentStream:
    """Created by `PersistentStream.create` or `PersistentStream.open`. Any number of objects, in any number of
    processes, may refer to one location."""

    def __init__(self, files: Files, spool: Path | None, description: Description, clock: Clock) -> None:
        self.files = files
        self.description = description
        self.clock = clock
        self._spool = spool  # the local directory of the open segment; None: a remote location, read only
        self._real = "" if spool is None else os.path.realpath(spool)  # resolved once: readers need it often
        self._catalogue: Catalogue | None = None

    @classmethod
    def create(
        cls,
        location: Location,
        schema: pa.Schema,
        *,
        spool: str | os.PathLike[str] | None = None,
        clock: Clock = SYSTEM_CLOCK,
        **settings: Any,
    ) -> "PersistentStream":
        """Create a stream; `settings` are the fields of `StreamSettings`. A remote location needs a local `spool`
        directory for writing."""
        files, directory = _placed(location, spool)
        if is_stream(files):
            raise UsageError(f"{files.location} is already a stream: open it, or choose another location")
        unknown = [name for name in settings if name not in StreamSettings.__dataclass_fields__]
        if unknown:
            raise UsageError(f"unknown setting {unknown[0]}: {known(StreamSettings.__dataclass_fields__, unknown[0])}")
        description = new_description(files.location, schema, StreamSettings(**settings), clock)
        store_description(files, description)
        return cls(files, directory, description, clock)

    @classmethod
    def open(
        cls, location: Location, *, spool: str | os.PathLike[str] | None = None, clock: Clock = SYSTEM_CLOCK
    ) -> "PersistentStream":
        files, directory = _placed(location, spool)
        return cls(files, directory, load_description(files), clock)

    @property
    def schema(self) -> pa.Schema:
        return self.description.schema

    def writer(self, *, producer: str = "", epoch: int = 0, beside: bool = True) -> StreamWriter:
        """Append as incarnation `epoch` of `producer`. One writer at a time; an older epoch is fenced.

        `beside`: appends of an async stream may be written shortly after `append` returns. If False, each is written
        when `append` returns, for callers that ignore the future.
        """
        if self._spool is None:
            raise UsageError(
                f"writing to {self.files.location} needs a local directory for the open segment: pass spool="
            )
        own.make(self._spool)
        for name in (MARK, catalogues.CATALOGUE):
            if own.is_directory(self._spool / name):
                raise Damaged(str(self._spool / name), 0, "it is a directory; remove it, and it is created again")
        self._catalogue = None
        self.description = load_description(self.files)
        return StreamWriter(self.files, self._spool, self.description, producer, epoch, self.clock, beside=beside)

    def read(
        self,
        *,
        from_position: int = 0,
        to_position: int | None = None,
        from_ts: Time | None = None,
        to_ts: Time | None = None,
        from_seq: int | None = None,
        to_seq: int | None = None,
        after_key: OrderKey | None = None,
        columns: Sequence[str] | None = None,
        follow: bool = False,
        idle: float | None = None,
        stop: threading.Event | None = None,
        marks: bool = False,
    ) -> Reader:
        """Batches of the rows within all the bounds (ends are exclusive), in append order.

        Without `follow`, up to the current stable end. With it, also later appends, until the reader is closed, `stop`
        is set, an end is passed, or nothing was appended for `idle` seconds. With `marks`, also a `StoredMark` for each
        mark at or after `from_position`, in its place.
        """
        self.description = load_description(self.files)
        bounds = Bounds(
            from_position,
            to_position,
            None if from_ts is None else as_microseconds(from_ts),
            None if to_ts is None else as_microseconds(to_ts),
            from_seq,
            to_seq,
            after_key,
        )
        if marks and bounds != Bounds(from_position):
            raise UsageError("marks=True allows only from_position as a bound: leave out the others, or marks=True")
        for name in columns or ():
            if name not in self.schema.names:
                raise UsageError(f"the stream has no column {name}: {known(self.schema.names, name)}")
        return Reader(self, bounds, None if columns is None else list(columns), follow, idle, stop, marks)

    def records_backwards(self) -> Iterator[StoredRecord]:
        """The records that producers appended (`StreamWriter.append(record=…)`), newest first."""
        return records_backwards(self)

    def live(self) -> Live | None:
        """The memory of the writer, if it is in this process."""
        return None if self._spool is None else written_here(self._real)

    def stable(self) -> Mark:
        """The end up to which the stream may be read: everything before it is stable and whole. Reads 64 bytes."""
        live = self.live()
        if live is not None:
            return live.mark
        mark = None if self._spool is None else read_mark(self._spool)
        if mark is not None and not self._may_be_stale(mark):
            return mark
        return self._found_end()

    def wait(self, known: Mark, seconds: float) -> bool:
        """Wait about `seconds` until another process has moved the end from `known`; False, at once, without a mark."""
        return self._spool is not None and watch(self._spool, known, seconds, self.clock)

    def _may_be_stale(self, mark: Mark) -> bool:
        """Whether there are bytes behind the mark and no writer is active: a crash prevented an update of the mark."""
        assert self._spool is not None
        try:
            size = os.path.getsize(self._spool / segment_name(mark.segment))
        except FileNotFoundError:
            size = -1
        if size == mark.offset or is_written(self._spool):
            return False
        return size < mark.offset or not self._rest_of_another(mark)

    def _rest_of_another(self, mark: Mark) -> bool:
        """Whether the bytes behind the mark are only left over from before the file was reused."""
        assert self._spool is not None
        file = LocalFiles(self._spool).open(segment_name(mark.segment))
        try:
            behind = memoryview(file.read_at(mark.offset, HEADER_SIZE))
            header = read_header(behind)
            own = not isinstance(header, str) and header.position == mark.position
            return not own and bytes(behind[: len(END_OF_STREAM)]) != END_OF_STREAM and read_start(file).reused
        except Damaged:
            return False
        finally:
            file.close()

    def _found_end(self) -> Mark:
        """The end without a mark: that of the last whole append, which is then made stable."""
        self._catalogue = found = catalogues.load(self.files)
        end = Mark(-1, 0, found.next_position, max((item.range.max_ts for item in found.finished), default=NOTHING), 0)
        if found.open is None or self._spool is None:
            return end
        file = LocalFiles(self._spool).open(segment_name(found.open))
        try:
            recovered = recover(file, read_start(file))
            file.sync()
        except Damaged:  # torn while it was created
            return end
        finally:
            file.close()
        return Mark(found.open, recovered.builder.end, recovered.carry.position, recovered.carry.last_ts, 0)

    def loss(self) -> Damaged | None:
        """Acknowledged data that is missing; also a missing or damaged mark, since loss cannot be ruled out then.

        A crash does not cause this: it leaves a mark that may be older than the bytes (see `mark.py`). The first rows
        are missing only if `trimmed.json` records it.
        """
        first = self.first_position()  # read before `trimmed.json`, which is written before anything is deleted
        try:
            if first > retention.trimmed(self.files):
                return Damaged(
                    self.files.location, 0, f"the rows before position {first} are missing, and they were not trimmed"
                )
        except Damaged as damage:
            return damage
        if self._spool is None or self.live() is not None:
            return None
        mark = read_mark(self._spool)
        if mark is None:
            path, unknown = self._spool / MARK, "so it is unknown how much of the stream should exist"
            if own.exists(path):
                return Damaged(str(path), 0, f"its checksum does not match, {unknown}")
            names = self.files.names()
            begun = segment_numbers(names) or catalogues.CATALOGUE in names
            return Damaged(str(path), 0, f"it is missing, {unknown}") if begun else None
        if not self._may_be_stale(mark):
            return None
        end = self._found_end()
        found = {item.segment: item.end for item in self.catalogue(end).finished} | {end.segment: end.offset}
        reached = found.get(mark.segment, 0 if mark.segment >= max(found) else mark.offset)  # older ones may be trimmed
        if reached >= mark.offset:
            return None
        name = str(self._spool / segment_name(mark.segment))
        return Damaged(name, reached, f"{mark.offset - reached} acknowledged bytes are missing from here on")

    def require_whole(self) -> "PersistentStream":
        """This stream; raises `Damaged` if data was lost. For readers of the whole stream that would not notice."""
        loss = self.loss()
        if loss is not None:
            raise loss
        return self

    def catalogue(self, end: Mark | None = None) -> Catalogue:
        """The finished segments, as of `end` or later; without `end`, as of now."""
        if self._catalogue is None or end is None or self._catalogue.open != end.segment:
            self._catalogue = catalogues.load(self.files)
        return self._catalogue

    def first_position(self) -> int:
        """The position of the oldest retained row."""
        found = self.catalogue()
        if found.finished:
            return found.finished[0].position
        if found.open is None:
            return 0
        file = self.files.open(segment_name(found.open))
        try:
            return read_start(file).carry.position
        except Damaged:
            return 0
        finally:
            file.close()

    def register_reader(self, name: str, position: int, *, run: str = "") -> None:
        """Retain everything from `position` on, the oldest that the reader may need again. Call again to advance.

        `run`: the directory of the run that reads it, to show why it is retained.
        """
        with self.files.exclusive():
            retention.register(self.files, self.first_position(), name, retention.RegisteredReader(position, run))

    def unregister_reader(self, name: str) -> None:
        retention.unregister(self.files, name)

    def readers(self) -> dict[str, int]:
        """Registered positions by name."""
        return {name: reader.position for name, reader in retention.registered(self.files).items()}

    def held_by(self) -> dict[str, str]:
        """By reader that belongs to a run: the directory of the run."""
        return {name: reader.run for name, reader in retention.registered(self.files).items() if reader.run}

    def trim(
        self,
        *,
        before_position: int | None = None,
        before_ts: Time | None = None,
        force: bool = False,
        discard: retention.Discard | None = None,
    ) -> list[Summary]:
        """Delete the finished segments that lie entirely before a position or a time, as far as registered readers
        allow.

        `force` ignores the readers; `discard` is `StreamWriter.discard`. Returns the records of the deleted segments.
        """
        if (before_position is None) == (before_ts is None):
            raise UsageError("trim needs either before_position or before_ts")
        found = self.catalogue()
        candidates = found.finished if found.open is not None else found.finished[:-1]
        limit = None if before_ts is None else as_microseconds(before_ts)
        doomed = []
        for item in candidates:
            if item.range.max_ts >= limit if limit is not None else item.next_position > (before_position or 0):
                break
            doomed.append(item)
        deleted = retention.delete(self.files, doomed, force, discard)
        self._catalogue = None
        return deleted


def _placed(location: Location, spool: str | os.PathLike[str] | None) -> tuple[Files, Path | None]:
    files = files_at(location)
    if isinstance(files, LocalFiles):
        if spool is not None:
            raise UsageError("a stream in a local directory needs no spool: leave it out")
        return files, files.directory
    if spool is None:
        return files, None
    directory = own.real(spool)
    return SpooledFiles(files, LocalFiles(directory)), directory
