"""What an element has counted, in memory that outlives its process.

A ledger is a file of signed 64-bit cells, mapped into memory: a number is stored with one instruction and is still
there after `kill -9`, because the page belongs to the kernel. (It may not survive a crash of the machine, and then
counts of the last moments are too low; nothing else depends on it but where a source without checkpoint goes on.)
Each life of an element has a file of its own, `ledgers/PE/EPOCH`, and begins with the numbers of the life before: one
that was replaced without knowing it cannot spoil the counts.

    0    8 bytes  RPRPLEDG
    8    u64      xxh3-64 of the shape: which records there are, in which order
    16   i64 …    the records, one after the other: of channels that come in (30 cells each), that go out (7),
                  of operators that other elements feed (4), of sources (6), of what held channels missed (8), of
                  operators with state (2)
         i64      1 while a call is being counted, else 0
         i64 …    the records as they were before that call

What one call of the engine changes belongs together: what was taken, and what was numbered. So it is counted between
`begin` and `commit`, and a life that finds a call half counted goes back to what was before it: a process that is
killed at any instruction leaves the counts of a call whole or not at all, and nothing of a call that was not counted
has left.

Which cell is whose is known when a ledger is opened; a record is an object that reads and writes its own.
"""

import mmap
import struct
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import xxhash

from riprap.base import files
from riprap.base.disk import when_room
from riprap.base.errors import DataError
from riprap.graph.order_keys import START_KEY, OrderKey
from riprap.graph.reach import BEGINNING, END, Span
from riprap.protocols.channel import Delivered
from riprap.protocols.channels import ChannelId
from riprap.runtime.layout import Layout, Pe

MAGIC = b"RPRPLEDG"
_HEAD = struct.Struct("<8sQ")
_DAMAGE = 14  # cells of a channel's record before its spans


def _cell(offset: int, meaning: str) -> property:
    def read(record: "_Record") -> int:
        return record.cells[record.at + offset]

    def write(record: "_Record", value: int) -> None:
        record.cells[record.at + offset] = value

    return property(read, write, doc=meaning)


def _time(offset: int, meaning: str, unset: int = BEGINNING) -> property:
    """An event time; a cell that was never written says `unset`."""

    def read(record: "_Record") -> int:
        return record.cells[record.at + offset] ^ unset

    def write(record: "_Record", value: int) -> None:
        record.cells[record.at + offset] = value ^ unset

    return property(read, write, doc=meaning)


class _Record:
    """Some cells of a ledger."""

    __slots__ = ("at", "cells")
    WIDTH = 0

    def __init__(self, cells: memoryview, at: int) -> None:
        self.cells, self.at = cells, at


class InputChannelRecord(_Record):
    """A channel that comes in."""

    __slots__ = ()
    WIDTH = 30
    next = _cell(0, "number of the first item that the operators have not had and may still get")
    missed = _cell(1, "items below it that they never had: lost. The others were received, and one store counts them")
    repeated = _cell(2, "items that they were given again after a crash, unless all that they did before was undone")
    retained_from = _cell(
        3, "number of the first item that an operator that cannot bear loss still has in its state, or `next`"
    )
    forgotten = _cell(4, "items that operators had had and whose traces a crash took; where they are not given again")
    at_start = _cell(5, "of those received, how many were when this life began: what is forgotten of them is counted")
    late = _cell(6, "items that they had behind others that belong after them: a merge had gone on without them")
    position = _time(12, "all items at or before this event time were had, or counted as missing")
    reached = _time(13, "nothing that its operator has had is after this event time")

    @property
    def received(self) -> int:
        return int(self.next - self.missed)

    @property
    def delivered(self) -> Delivered:
        """The same as `next`, for producers that number on their own: where replicas or copies bring the channel."""
        cells, at = self.cells, self.at + 7
        items = cells[at + 4]  # 0: nothing was had, and the key says nothing
        return Delivered(OrderKey(*cells[at : at + 4]), items) if items else Delivered()

    @delivered.setter
    def delivered(self, delivered: Delivered) -> None:
        cells, at = self.cells, self.at + 7
        (cells[at], cells[at + 1], cells[at + 2], cells[at + 3]), cells[at + 4] = delivered

    @property
    def damage(self) -> list[Span]:
        """Event times of items that this life never got, or got late; ascending as they were noticed."""
        times = [cell ^ BEGINNING for cell in self.cells[self.at + _DAMAGE : self.at + self.WIDTH]]
        return [Span(*times[at : at + 2]) for at in range(0, len(times), 2) if times[at + 1] != BEGINNING]

    def add_damage(self, since: int, until: int) -> int:
        """Where there is no room for another span, the last one grows; gives where that one ended, or BEGINNING."""
        spans, new, ended = self.damage, Span(since, until), BEGINNING
        full = 2 * len(spans) == self.WIDTH - _DAMAGE
        if spans and (full or new.since <= spans[-1].until):
            ended = spans[-1].until
            new = new.joined(spans.pop())
        at = self.at + _DAMAGE + 2 * len(spans)
        self.cells[at], self.cells[at + 1] = new.since ^ BEGINNING, new.until ^ BEGINNING
        return ended

    def end_damage(self, until: int) -> None:
        """The last span ends there."""
        self.cells[self.at + _DAMAGE + 2 * len(self.damage) - 1] = until ^ BEGINNING

    def reset_incarnation(self) -> None:
        for cell in range(self.at + _DAMAGE, self.at + self.WIDTH):
            self.cells[cell] = 0


class _KeyRecord(_Record):
    """A record with an order key in four cells from `KEY` on; before it is set, one below all others."""

    __slots__ = ()
    KEY = 0

    @property
    def key(self) -> OrderKey:
        at = self.at + self.KEY
        key = OrderKey(*self.cells[at : at + 4])
        return key if any(key) else START_KEY

    @key.setter
    def key(self, key: OrderKey) -> None:
        cells, at = self.cells, self.at + self.KEY
        cells[at], cells[at + 1], cells[at + 2], cells[at + 3] = key


class OutputChannelRecord(_KeyRecord):
    """A channel that goes out; its key is that up to which it was promised to bring nothing more."""

    __slots__ = ()
    WIDTH, KEY = 7, 2
    number = _cell(0, "of the next item")
    log_until = _time(
        6, "of a log that lacked items when this life began: the greatest event time in it; else END", END
    )
    discarded = _cell(1, "items that nobody was there for; of a log, that had not got into it when the process died")


class OperatorRecord(_KeyRecord):
    """An operator that other elements feed: the key up to which it has had its input."""

    __slots__ = ()
    WIDTH = 4


class SourceRecord(_Record):
    __slots__ = ()
    WIDTH = 6
    position = _cell(0, "rows taken from its input: where a life that has no checkpoint goes on")
    started_at = _cell(1, "wall clock, microseconds, when its first row was due; 0: not known yet")
    waiting = _cell(2, "of those, rows that wait in merges of the element and are not read again")
    lost = _cell(3, "rows that waited so when the process died")
    reached = _time(4, "event time of the last row that was taken")
    at_start = _cell(5, "`position` when this life began")


class StateRecord(_Record):
    """An operator with state, of an element that may go back without being given again what it had."""

    __slots__ = ()
    WIDTH = 2
    undone = _cell(0, "rows that it had had, and that the state with which this life began does not have")
    unsure = _cell(1, "1: that state may lack something")


class MissedRecord(_Record):
    """A channel that comes in, and whose producer holds it: which items below `next` the operators never had.

    What was late for a life may be in time for the next one, which is given again what its operator's checkpoint does
    not have. The newest stretches are known: one for each time that a producer was not waited for.
    """

    __slots__ = ()
    WIDTH = 8

    @property
    def stretches(self) -> list[tuple[int, int]]:
        """First item and the one behind the last, ascending."""
        cells, at = self.cells, self.at
        pairs = [(cells[cell], cells[cell + 1]) for cell in range(at, at + self.WIDTH, 2)]
        return [(first, stop) for first, stop in pairs if first < stop]

    @stretches.setter
    def stretches(self, stretches: list[tuple[int, int]]) -> None:
        newest = [number for stretch in stretches for number in stretch][-self.WIDTH :]
        for cell, number in enumerate(newest + [0] * (self.WIDTH - len(newest)), self.at):
            self.cells[cell] = number

    def add(self, first: int, stop: int) -> None:
        """They never had these, which are beyond all that is known."""
        stretches = self.stretches
        if stretches and stretches[-1][1] == first:
            first = stretches.pop()[0]
        self.stretches = [*stretches, (first, stop)]

    def found(self, first: int, stop: int) -> int:
        """They have had these now: of how many that was not known."""
        found, left = 0, []
        for low, high in self.stretches:
            begin, end = max(low, first), min(high, stop)
            if begin >= end:
                left.append((low, high))
                continue
            found += end - begin
            left += [stretch for stretch in ((low, begin), (end, high)) if stretch[0] < stretch[1]]
        if found:
            self.stretches = left
        return found


@dataclass(frozen=True)
class LedgerShape:
    """Which records a ledger has."""

    inputs: tuple[ChannelId, ...]
    outputs: tuple[ChannelId, ...]
    operators: tuple[str, ...]
    sources: tuple[str, ...]
    held: tuple[ChannelId, ...]  # of those that come in
    stateful: tuple[str, ...] = ()  # operators

    @property
    def cells(self) -> int:
        return (
            InputChannelRecord.WIDTH * len(self.inputs)
            + OutputChannelRecord.WIDTH * len(self.outputs)
            + OperatorRecord.WIDTH * len(self.operators)
            + SourceRecord.WIDTH * len(self.sources)
            + MissedRecord.WIDTH * len(self.held)
            + StateRecord.WIDTH * len(self.stateful)
        )

    @cached_property
    def digest(self) -> int:
        return xxhash.xxh3_64_intdigest(repr(astuple(self)).encode())


def ledger_shape(layout: Layout, pe: Pe) -> LedgerShape:
    fed = dict.fromkeys(link.stream.target for link in layout.links if link.target == pe.fragment)
    sources = tuple(s.name for s in layout.graph.sources if s.name in pe.fragment.members)
    held = tuple(channel for channel in layout.inputs(pe) if layout.retention(channel) == "hold")
    stateful = tuple(name for name in pe.fragment.members if any(layout.graph[name].stateful))
    return LedgerShape(layout.inputs(pe), layout.all_outputs(pe), tuple(fed), sources, held, stateful)


class Ledger:
    """The records of an element over cells (a memoryview of format "q", or what behaves like one)."""

    def __init__(self, shape: LedgerShape, cells: memoryview) -> None:
        self.shape, self.cells, self._width = shape, cells, shape.cells
        at = 0
        self.inputs: dict[ChannelId, InputChannelRecord] = {}
        self.outputs: dict[ChannelId, OutputChannelRecord] = {}
        self.operators: dict[str, OperatorRecord] = {}
        self.sources: dict[str, SourceRecord] = {}
        self.missed: dict[ChannelId, MissedRecord] = {}
        for channel in shape.inputs:
            self.inputs[channel] = InputChannelRecord(cells, at)
            at += InputChannelRecord.WIDTH
        for channel in shape.outputs:
            self.outputs[channel] = OutputChannelRecord(cells, at)
            at += OutputChannelRecord.WIDTH
        for name in shape.operators:
            self.operators[name] = OperatorRecord(cells, at)
            at += OperatorRecord.WIDTH
        for name in shape.sources:
            self.sources[name] = SourceRecord(cells, at)
            at += SourceRecord.WIDTH
        for channel in shape.held:
            self.missed[channel] = MissedRecord(cells, at)
            at += MissedRecord.WIDTH
        self.states: dict[str, StateRecord] = {}
        for name in shape.stateful:
            self.states[name] = StateRecord(cells, at)
            at += StateRecord.WIDTH

    def reset_incarnation(self) -> "Ledger":
        """Clear what is said of one life alone: what its beginning cost, and what did not come while it lived."""
        for record in self.inputs.values():
            record.reset_incarnation()
        for output in self.outputs.values():
            output.log_until = END
        for state in self.states.values():
            state.undone = state.unsure = 0
        return self

    def begin(self) -> None:
        """What is counted from here on counts only with `commit`."""
        cells, width = self.cells, self._width
        cells[width + 1 :] = cells[:width]
        cells[width] = 1

    def commit(self) -> None:
        self.cells[self._width] = 0

    def settled(self) -> bytes:
        """All of it, without a call that was only half counted."""
        cells, width = self.cells, self._width
        records = cells[width + 1 :] if cells[width] else cells[:width]
        return records.tobytes() + bytes(8 * (width + 1))


Ledgers = Mapping[str, Ledger]  # by element


def reshaped(before: Ledger, new: LedgerShape) -> Ledger:
    """The records of a ledger that another shape has too, in that shape."""
    after = memory_ledger(new)
    alike: tuple[tuple[Mapping[Any, _Record], Mapping[Any, _Record]], ...] = (
        (before.inputs, after.inputs),
        (before.outputs, after.outputs),
        (before.operators, after.operators),
        (before.sources, after.sources),
        (before.missed, after.missed),
        (before.states, after.states),
    )
    for records, others in alike:
        for key in records.keys() & others.keys():
            one, other = records[key], others[key]
            other.cells[other.at : other.at + other.WIDTH] = one.cells[one.at : one.at + one.WIDTH]
    return after


def memory_ledger(shape: LedgerShape, before: "Ledger | None" = None) -> Ledger:
    """For the simulated host: it outlives a simulated crash."""
    cells = bytes(_size(shape)) if before is None else before.settled()
    return Ledger(shape, memoryview(bytearray(cells)).cast("q"))


def _size(shape: LedgerShape) -> int:
    return 8 * (2 * shape.cells + 1)


def open_ledger(directory: Path, epoch: int, shape: LedgerShape) -> Ledger:
    """The ledger of a new life, going on from the newest before it."""
    before = read_ledger(directory, shape, below=epoch)
    files.make(directory)
    # Whole before it has its name: a life that is killed right here must not leave a ledger that has forgotten.
    unnamed = directory / f"new-{epoch:08d}"
    content = _HEAD.pack(MAGIC, shape.digest) + before.reset_incarnation().settled()
    when_room(lambda: files.write_bytes(unnamed, content), unnamed)
    path = directory / f"{epoch:08d}"
    files.rename(unnamed, path)
    with files.open_file(path, "r+b") as file:
        mapped = memoryview(mmap.mmap(file.fileno(), 0))
    return Ledger(shape, mapped[_HEAD.size :].cast("q"))


def reshape_ledger(directory: Path, old: LedgerShape, new: LedgerShape) -> None:
    """The newest life's ledger, where it has the old shape, in the new one: what both have stays."""
    paths = _incarnations(directory)
    if (
        old.digest == new.digest
        or not paths
        or files.read_bytes(paths[-1])[: _HEAD.size] != _HEAD.pack(MAGIC, old.digest)
    ):
        return
    unnamed = directory / f"new-{paths[-1].name}"
    content = _HEAD.pack(MAGIC, new.digest) + reshaped(read_ledger(directory, old), new).settled()
    when_room(lambda: files.write_bytes(unnamed, content), unnamed)
    files.rename(unnamed, paths[-1])


def _incarnations(directory: Path) -> list[Path]:
    """The ledger of each life, oldest first."""
    names = files.names(directory) if files.is_directory(directory) else []
    return [directory / name for name in names if name.isdecimal()]


def read_ledger(directory: Path, shape: LedgerShape, below: int | None = None) -> Ledger:
    """A copy of the newest life's ledger (before epoch `below`), all 0 if there was none."""
    paths = [path for path in _incarnations(directory) if below is None or int(path.name) < below]
    if not paths:
        return memory_ledger(shape)
    try:
        data = files.read_bytes(paths[-1])
    except IsADirectoryError:
        raise DataError(f"{paths[-1]} is a directory, and a ledger was written there: remove it") from None
    found = _decoded(data, shape)
    if found is None:
        raise DataError(
            f"{paths[-1]} is the ledger of another layout: resume with the plan, --fuse and --parallelism of before"
        )
    return found


def read_incarnations(directory: Path, shape: LedgerShape) -> list[tuple[int, Ledger]]:
    """Copies of the ledgers of all paths by their epochs, oldest first, but for those of another layout."""
    found = (
        (int(path.name), _decoded(files.read_bytes(path), shape)) for path in _incarnations(directory) if path.is_file()
    )
    return [(epoch, ledger) for epoch, ledger in found if ledger is not None]


def _decoded(data: bytes, shape: LedgerShape) -> Ledger | None:
    if len(data) != _HEAD.size + _size(shape) or _HEAD.unpack_from(data) != (MAGIC, shape.digest):
        return None
    return memory_ledger(shape, Ledger(shape, memoryview(bytearray(data[_HEAD.size :])).cast("q")))
