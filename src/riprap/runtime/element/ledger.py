"""The ledger of an element: counters in memory that outlives the process.

A ledger is a file of signed 64-bit cells, mapped into memory. A store is one instruction and survives `kill -9`,
because the page belongs to the kernel. (After a machine crash the last counts may be too low; otherwise only the
position at which a source without checkpoint resumes depends on it.) Each incarnation of an element has its own file,
`ledgers/PE/EPOCH`, which starts with the numbers of the previous one, so a fenced incarnation cannot change the counts.

    0    8 bytes  RPRPLEDG
    8    u64      xxh3-64 of the shape: which records the ledger has, in which order
    16   i64 …    the records: of input channels (30 cells each), of output channels (7), of operators that other
                  elements feed (4), of sources (6), of the items that held channels missed (8), of stateful
                  operators (2)
         i64      1 while a call is being counted, else 0
         i64 …    the records as they were before that call

The changes of one engine call belong together: what was processed, and what was numbered. They are made between `begin`
and `commit`, and a restart discards a call that was not committed. So a process that is killed at any instruction
leaves the counts of a call complete or not at all, and no output of an uncommitted call has left.

The place of each record is known when a ledger is opened; a record is an object that reads and writes its cells.
"""

import mmap
import struct
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xxhash

from riprap.base import files
from riprap.base.disk import retry_while_full
from riprap.base.errors import DataError
from riprap.graph.order_keys import START_KEY, OrderKey
from riprap.graph.reach import BEGINNING, END, Span
from riprap.protocols.channel import Delivered
from riprap.protocols.channels import ChannelId

if TYPE_CHECKING:
    from riprap.runtime.layout import Layout, Pe

MAGIC = b"RPRPLEDG"
_HEAD = struct.Struct("<8sQ")
_DAMAGE = 14  # cells of a channel's record before its time spans


def _cell(offset: int, meaning: str) -> property:
    def read(record: "_Record") -> int:
        return record.cells[record.at + offset]

    def write(record: "_Record", value: int) -> None:
        record.cells[record.at + offset] = value

    return property(read, write, doc=meaning)


def _time(offset: int, meaning: str, unset: int = BEGINNING) -> property:
    """An event time; a cell that was never written reads as `unset`."""

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
    """An input channel."""

    __slots__ = ()
    WIDTH = 30
    next = _cell(0, "number of the first item that was not delivered and still may be")
    missed = _cell(1, "items below it that were lost. The others were received, so one store counts them")
    repeated = _cell(2, "items delivered again after a crash, unless their first effects were undone")
    retained_from = _cell(
        3, "number of the first item in the state of an operator that cannot tolerate loss, or `next`"
    )
    forgotten = _cell(4, "delivered items whose effects a crash undid, if they are not delivered again")
    at_start = _cell(5, "items received before this incarnation: those among them that were forgotten are counted")
    late = _cell(6, "items delivered after others with greater keys, because a merge had not waited for them")
    position = _time(12, "all items at or before this event time were delivered, or counted as missing")
    reached = _time(13, "its operator has processed nothing after this event time")

    @property
    def received(self) -> int:
        return int(self.next - self.missed)

    @property
    def delivered(self) -> Delivered:
        """The delivered position: as `next`, if replicas or copies with their own numbers send on the channel."""
        cells, at = self.cells, self.at + 7
        items = cells[at + 4]  # 0: nothing was delivered, and the key is not set
        return Delivered(OrderKey(*cells[at : at + 4]), items) if items else Delivered()

    @delivered.setter
    def delivered(self, delivered: Delivered) -> None:
        cells, at = self.cells, self.at + 7
        (cells[at], cells[at + 1], cells[at + 2], cells[at + 3]), cells[at + 4] = delivered

    @property
    def damage(self) -> list[Span]:
        """Event times of items that this incarnation missed or got late, in the order in which it noticed them."""
        times = [cell ^ BEGINNING for cell in self.cells[self.at + _DAMAGE : self.at + self.WIDTH]]
        return [Span(*times[at : at + 2]) for at in range(0, len(times), 2) if times[at + 1] != BEGINNING]

    def add_damage(self, since: int, until: int) -> int:
        """Add a span; without room, extend the last one. Returns where the extended span ended, or BEGINNING."""
        spans, new, ended = self.damage, Span(since, until), BEGINNING
        full = 2 * len(spans) == self.WIDTH - _DAMAGE
        if spans and (full or new.since <= spans[-1].until):
            ended = spans[-1].until
            new = new.joined(spans.pop())
        at = self.at + _DAMAGE + 2 * len(spans)
        self.cells[at], self.cells[at + 1] = new.since ^ BEGINNING, new.until ^ BEGINNING
        return ended

    def end_damage(self, until: int) -> None:
        """Set the end of the last span."""
        self.cells[self.at + _DAMAGE + 2 * len(self.damage) - 1] = until ^ BEGINNING

    def reset_incarnation(self) -> None:
        for cell in range(self.at + _DAMAGE, self.at + self.WIDTH):
            self.cells[cell] = 0


class _KeyRecord(_Record):
    """A record with an order key in four cells from `KEY` on; before it is set, it is START_KEY."""

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
    """An output channel; its key is the promised one: nothing at or below it will be emitted."""

    __slots__ = ()
    WIDTH, KEY = 7, 2
    number = _cell(0, "of the next item")
    log_until = _time(
        6, "the greatest event time in a log that lacked items at the start of this incarnation; else END", END
    )
    discarded = _cell(1, "items discarded because the consumer was down; of a log, items not in it at a crash")


class OperatorRecord(_KeyRecord):
    """An operator that other elements feed: the key up to which it has processed its input."""

    __slots__ = ()
    WIDTH = 4


class SourceRecord(_Record):
    __slots__ = ()
    WIDTH = 6
    position = _cell(0, "rows read from its input: where a restart without checkpoint resumes")
    started_at = _cell(1, "wall clock, microseconds, when its first row was due; 0: not known yet")
    waiting = _cell(2, "rows before `position` that wait in merges of the element and are not read again")
    lost = _cell(3, "rows that waited so at a crash")
    reached = _time(4, "event time of the last row that was read")
    at_start = _cell(5, "`position` at the start of this incarnation")


class StateRecord(_Record):
    """A stateful operator, of an element that may roll back without replaying its input."""

    __slots__ = ()
    WIDTH = 2
    undone = _cell(0, "rows that it had processed and that its state at the start of this incarnation lacks")
    unsure = _cell(1, "1: that state may lack something")


class MissedRecord(_Record):
    """An input channel with the retention hold: which items below `next` were not delivered.

    An item that was late for one incarnation may be in time for the next, which gets all items after its operator's
    checkpoint again. Only the newest ranges are stored: one for each time that the merge did not wait for a producer.
    """

    __slots__ = ()
    WIDTH = 8

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Ranges [first, stop), ascending."""
        cells, at = self.cells, self.at
        pairs = [(cells[cell], cells[cell + 1]) for cell in range(at, at + self.WIDTH, 2)]
        return [(first, stop) for first, stop in pairs if first < stop]

    @ranges.setter
    def ranges(self, ranges: list[tuple[int, int]]) -> None:
        newest = [number for range_ in ranges for number in range_][-self.WIDTH :]
        for cell, number in enumerate(newest + [0] * (self.WIDTH - len(newest)), self.at):
            self.cells[cell] = number

    def add(self, first: int, stop: int) -> None:
        """Add a range of items that were not delivered, beyond all others."""
        ranges = self.ranges
        if ranges and ranges[-1][1] == first:
            first = ranges.pop()[0]
        self.ranges = [*ranges, (first, stop)]

    def remove(self, first: int, stop: int) -> int:
        """These items were delivered after all; returns how many of them were missing."""
        removed, left = 0, []
        for low, high in self.ranges:
            begin, end = max(low, first), min(high, stop)
            if begin >= end:
                left.append((low, high))
                continue
            removed += end - begin
            left += [part for part in ((low, begin), (end, high)) if part[0] < part[1]]
        if removed:
            self.ranges = left
        return removed


@dataclass(frozen=True)
class LedgerShape:
    """Which records a ledger has."""

    inputs: tuple[ChannelId, ...]
    outputs: tuple[ChannelId, ...]
    operators: tuple[str, ...]
    sources: tuple[str, ...]
    held: tuple[ChannelId, ...]  # input channels with the retention hold
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


def ledger_shape(layout: "Layout", pe: "Pe") -> LedgerShape:
    fed = dict.fromkeys(link.stream.target for link in layout.links if link.target == pe.fragment)
    sources = tuple(s.name for s in layout.graph.sources if s.name in pe.fragment.members)
    held = tuple(channel for channel in layout.inputs(pe) if layout.kind(channel).acknowledged)
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
        """Clear what belongs to one incarnation: what its start cost, and what it missed."""
        for record in self.inputs.values():
            record.reset_incarnation()
        for output in self.outputs.values():
            output.log_until = END
        for state in self.states.values():
            state.undone = state.unsure = 0
        return self

    def begin(self) -> None:
        """Start a call: its counts take effect with `commit`."""
        cells, width = self.cells, self._width
        cells[width + 1 :] = cells[:width]
        cells[width] = 1

    def commit(self) -> None:
        self.cells[self._width] = 0

    def validate(self) -> None:
        assert not self.cells[self._width], "a call is still being counted"
        for channel, record in self.inputs.items():
            assert 0 <= record.missed <= record.next, f"{channel}: {record.missed} of {record.next} items missed"
            assert record.retained_from <= record.next, f"{channel}: retained from {record.retained_from}"
        for channel, missed in self.missed.items():
            edges = [edge for range_ in missed.ranges for edge in range_]
            assert edges == sorted(edges), f"{channel}: ranges of missed items overlap, {edges}"

    def settled(self) -> bytes:
        """All records, without a call that was not committed."""
        cells, width = self.cells, self._width
        records = cells[width + 1 :] if cells[width] else cells[:width]
        return records.tobytes() + bytes(8 * (width + 1))


Ledgers = Mapping[str, Ledger]  # by element


def reshaped(before: Ledger, new: LedgerShape) -> Ledger:
    """A ledger of another shape with the records that both shapes have."""
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
            old, copy = records[key], others[key]
            copy.cells[copy.at : copy.at + copy.WIDTH] = old.cells[old.at : old.at + old.WIDTH]
    return after


def memory_ledger(shape: LedgerShape, before: "Ledger | None" = None) -> Ledger:
    """A ledger without a file: the simulated host's outlives a simulated crash."""
    cells = bytes(_size(shape)) if before is None else before.settled()
    return Ledger(shape, memoryview(bytearray(cells)).cast("q"))


def _size(shape: LedgerShape) -> int:
    return 8 * (2 * shape.cells + 1)


def open_ledger(directory: Path, epoch: int, shape: LedgerShape) -> Ledger:
    """The ledger of a new incarnation, which continues the newest one before it."""
    before = read_ledger(directory, shape, below=epoch)
    files.make(directory)
    # Complete before it gets its name: a crash right here must not leave an empty ledger.
    unnamed = directory / f"new-{epoch:08d}"
    content = _HEAD.pack(MAGIC, shape.digest) + before.reset_incarnation().settled()
    retry_while_full(lambda: files.write_bytes(unnamed, content), unnamed)
    path = directory / f"{epoch:08d}"
    files.rename(unnamed, path)
    with files.open_file(path, "r+b") as file:
        mapped = memoryview(mmap.mmap(file.fileno(), 0))
    return Ledger(shape, mapped[_HEAD.size :].cast("q"))


def reshape_ledger(directory: Path, old: LedgerShape, new: LedgerShape) -> None:
    """Convert the newest ledger, if it has the old shape, to the new shape; records that both have stay."""
    paths = _incarnations(directory)
    if (
        old.digest == new.digest
        or not paths
        or files.read_bytes(paths[-1])[: _HEAD.size] != _HEAD.pack(MAGIC, old.digest)
    ):
        return
    unnamed = directory / f"new-{paths[-1].name}"
    content = _HEAD.pack(MAGIC, new.digest) + reshaped(read_ledger(directory, old), new).settled()
    retry_while_full(lambda: files.write_bytes(unnamed, content), unnamed)
    files.rename(unnamed, paths[-1])


def _incarnations(directory: Path) -> list[Path]:
    """The ledger files of all incarnations, oldest first."""
    names = files.names(directory) if files.is_directory(directory) else []
    return [directory / name for name in names if name.isdecimal()]


def read_ledger(directory: Path, shape: LedgerShape, below: int | None = None) -> Ledger:
    """A copy of the newest incarnation's ledger (before epoch `below`); all 0 if there was none."""
    paths = [path for path in _incarnations(directory) if below is None or int(path.name) < below]
    if not paths:
        return memory_ledger(shape)
    try:
        data = files.read_bytes(paths[-1])
    except IsADirectoryError:
        raise DataError(f"{paths[-1]} is a directory, and a ledger was written there: remove it") from None
    ledger = _decoded(data, shape)
    if ledger is None:
        raise DataError(
            f"{paths[-1]} is the ledger of another layout: resume with the plan, `fuse` and `parallelism` as before"
        )
    return ledger


def read_incarnations(directory: Path, shape: LedgerShape) -> list[tuple[int, Ledger]]:
    """Copies of the ledgers of all incarnations with their epochs, oldest first, except those of another layout."""
    decoded = (
        (int(path.name), _decoded(files.read_bytes(path), shape)) for path in _incarnations(directory) if path.is_file()
    )
    return [(epoch, ledger) for epoch, ledger in decoded if ledger is not None]


def _decoded(data: bytes, shape: LedgerShape) -> Ledger | None:
    if len(data) != _HEAD.size + _size(shape) or _HEAD.unpack_from(data) != (MAGIC, shape.digest):
        return None
    return memory_ledger(shape, Ledger(shape, memoryview(bytearray(data[_HEAD.size :])).cast("q")))
