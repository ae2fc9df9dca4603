"""The story of an element or of the director: its last events and commands, in memory that outlives the process.

A story is a ring of slots in a mapped file, `stories/PE/EPOCH` (`stories/director/N` of the director), so it is there
after an error and after `kill -9`, whoever killed the process. An incarnation that ends properly removes its file, and
a new one removes all but the newest `_KEPT` of its element. Nothing is synced: a machine crash may cost it.

    0    8 bytes  RPRPSTRY
    8    u32      bytes of the JSON text
    12   u32      number of slots
    16   i64      how many slots were ever filled; the newest is the one before
    24   text     {"name", "epoch", "channels": [[stream, source, target], …]}
    …    64 bytes a slot, in a ring

A slot starts with the time (i64, microseconds of the wall clock), its kind (u8), flags (u8) and a channel (u16, its
place in the list). A message that arrived fills one: epoch, number, items, watermark. Every other entry is a text over
one or several slots: an event as JSON, a command, the positions of the element twice per turn of the ring (a story is
replayed from such an entry, `testing/story_replay.py`), or what the incarnation failed with.
"""

import json
import mmap
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from riprap.base import files
from riprap.base.disk import retry_while_full
from riprap.base.errors import DataError, UsageError
from riprap.graph.order_keys import OrderKey
from riprap.protocols.channels import ChannelId
from riprap.runtime.messages import Message, MessageKind

MAGIC = b"RPRPSTRY"
DIRECTOR = "director"  # the name of its story
_SLOTS = 4096
_KEPT = 4  # files of earlier incarnations of an element
_HEAD = struct.Struct("<8sIIq")
_COUNT_AT = 16
_ARRIVAL = struct.Struct("<qBBHqqi4q")
_TEXT = struct.Struct("<qBBH52s")
_SLOT, _ROOM, _MOST = 64, 52, 64  # bytes of a slot, of text in it, and slots of one text
_NO_WATERMARK = (0, 0, 0, 0)
_HAS_WATERMARK, _LATE = 8, 16  # flags; the lowest three bits are the kind of the message

ARRIVED, EVENT, COMMAND, POSITIONS, FAILED, _CONTINUED = 1, 2, 3, 4, 5, 6
_KINDS = {EVENT: "event", COMMAND: "command", POSITIONS: "positions", FAILED: "failed"}


class Story:
    """Records one incarnation over cells: those of a mapped file, or of a bytearray."""

    def __init__(self, name: str, epoch: int, channels: Sequence[ChannelId] = (), path: Path | None = None) -> None:
        """`path`: of the file to create; None: in memory."""
        text = json.dumps({"name": name, "epoch": epoch, "channels": channels}).encode()
        self._at = _HEAD.size + len(text)
        content = _HEAD.pack(MAGIC, len(text), _SLOTS, 0) + text
        content += bytes(_SLOT * _SLOTS)
        self._path, self.cells = path, memoryview(bytearray(content)) if path is None else _mapped(path, content)
        self._channels = {channel: place for place, channel in enumerate(channels)}
        self._filled = self._due = 0  # slots; when the next positions are due

    @property
    def positions_due(self) -> bool:
        """Half a turn has passed since the positions were recorded, or nothing was recorded yet."""
        return self._filled >= self._due

    def positions(self, at: int, positions: Mapping[str, Any]) -> None:
        """The element stands here; a replay may start from it."""
        self._due = self._filled + _SLOTS // 2
        self._write(at, POSITIONS, json.dumps(positions))

    def arrived(self, at: int, channel: ChannelId, message: Message) -> None:
        flags, watermark = int(message.kind), _NO_WATERMARK
        if message.watermark is not None:
            flags, watermark = flags | _HAS_WATERMARK, message.watermark
        if message.at is not None:
            flags |= _LATE
        slot = self._at + _SLOT * (self._filled % _SLOTS)
        _ARRIVAL.pack_into(
            self.cells, slot, at, ARRIVED, flags, self._channels[channel], message.epoch, message.number,
            message.items, *watermark,
        )  # fmt: skip
        self._filled += 1
        self.cells[_COUNT_AT : _COUNT_AT + 8] = self._filled.to_bytes(8, "little")
        if message.kind is MessageKind.MARKER:
            self.event(at, "Marker", message.header.hex())
        elif message.at is not None:
            self.event(at, "LateAt", message.at)

    def event(self, at: int, name: str, *values: Any) -> None:
        """Any other event, or rows that were read from a source."""
        self._write(at, EVENT, json.dumps([name, *values], default=str))

    def happened(self, at: int, event: object) -> None:
        """An event that nobody replays."""
        self._write(at, EVENT, repr(event))

    def ordered(self, at: int, command: object) -> None:
        self._write(at, COMMAND, repr(command))

    def failed(self, at: int, text: str) -> None:
        self._write(at, FAILED, text)

    def remove(self) -> None:
        """The incarnation has ended properly: nobody will ask."""
        if self._path is not None:
            files.unlink(self._path, missing_ok=True)

    def _write(self, at: int, kind: int, text: str) -> None:
        data = text.encode(errors="backslashreplace")[: _ROOM * _MOST]
        for start in range(0, max(len(data), 1), _ROOM):
            part = data[start : start + _ROOM]
            slot = self._at + _SLOT * (self._filled % _SLOTS)
            _TEXT.pack_into(self.cells, slot, at, kind if not start else _CONTINUED, len(part), 0, part)
            self._filled += 1
        self.cells[_COUNT_AT : _COUNT_AT + 8] = self._filled.to_bytes(8, "little")


def _mapped(path: Path, content: bytes) -> memoryview:
    files.make(path.parent)
    for older in _epochs(path.parent)[:-_KEPT]:
        files.unlink(path.parent / str(older), missing_ok=True)
    retry_while_full(lambda: files.write_bytes(path, content), path)
    with files.open_file(path, "r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), 0))


def _epochs(directory: Path) -> list[int]:
    names = files.names(directory) if files.is_directory(directory) else []
    return sorted(int(name) for name in names if name.isascii() and name.isdecimal())


def story_path(run_directory: Path, name: str, epoch: int | None = None) -> Path:
    """`epoch`: by default, after the newest one there is."""
    folder = run_directory / "stories" / quote(name, safe="")
    return folder / str(max(_epochs(folder), default=0) + 1 if epoch is None else epoch)


# Reading --------------------------------------------------------------------------------------------------------------


class RecordedMessage(NamedTuple):
    """A message that arrived, without its rows."""

    kind: MessageKind
    epoch: int
    number: int
    items: int
    watermark: OrderKey | None
    late: bool


class StoryEntry(NamedTuple):
    at: int  # microseconds of the wall clock
    what: str  # "arrived", "event", "command", "positions" or "failed"
    text: str = ""
    channel: ChannelId | None = None  # on which `message` arrived
    message: RecordedMessage | None = None


@dataclass(frozen=True)
class RecordedStory:
    """The entries that were left in the ring, oldest first."""

    name: str
    epoch: int
    entries: tuple[StoryEntry, ...]

    def replayable(self) -> "RecordedStory":
        """From the oldest positions on."""
        first = next((at for at, entry in enumerate(self.entries) if entry.what == "positions"), len(self.entries))
        return replace(self, entries=self.entries[first:])


def decode_story(cells: bytes | memoryview, where: object = "the story") -> RecordedStory:
    data = bytes(cells)
    damaged = DataError(f"{where} is not the story of an element, or is damaged: nothing else depends on it, remove it")
    if len(data) < _HEAD.size:
        raise damaged
    magic, length, slots, filled = _HEAD.unpack_from(data)
    base = _HEAD.size + length
    if magic != MAGIC or slots < 1 or filled < 0 or len(data) != base + _SLOT * slots:
        raise damaged
    try:
        head = json.loads(data[_HEAD.size : base])
        channels = [ChannelId(str(stream), int(source), int(target)) for stream, source, target in head["channels"]]
        ring = range(max(0, filled - slots), filled)
        entries = _decoded((data[base + _SLOT * (at % slots) :][:_SLOT] for at in ring), channels)
        return RecordedStory(str(head["name"]), int(head["epoch"]), tuple(entries))
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        raise damaged from None


def _decoded(slots: Iterable[bytes], channels: Sequence[ChannelId]) -> list[StoryEntry]:
    entries: list[StoryEntry] = []
    parts: list[bytes] = []  # of the last entry's text

    def finish() -> None:
        if parts and entries:
            entries[-1] = entries[-1]._replace(text=b"".join(parts).decode(errors="replace"))
        parts.clear()

    for slot in slots:
        at, kind, flags, _, text = _TEXT.unpack(slot)
        if kind == _CONTINUED:
            if parts:  # else the ring has overwritten where it starts
                parts.append(text[:flags])
            continue
        finish()
        if kind == ARRIVED:
            _, _, _, place, epoch, number, items, *watermark = _ARRIVAL.unpack(slot)
            key = OrderKey(*watermark) if flags & _HAS_WATERMARK else None
            message = RecordedMessage(MessageKind(flags & 7), epoch, number, items, key, bool(flags & _LATE))
            entries.append(StoryEntry(at, "arrived", channel=channels[place], message=message))
        elif kind in _KINDS:
            entries.append(StoryEntry(at, _KINDS[kind]))
            parts.append(text[:flags])
        else:
            raise ValueError(kind)
    finish()
    return entries


def read_story(run_directory: Path, name: str) -> RecordedStory:
    """The newest story of an element, or the one that is named, as in `Aggregator@3`."""
    name, _, wanted = name.partition("@")
    folder = run_directory / "stories"
    epochs = _epochs(folder / quote(name, safe=""))
    if not epochs:
        left = [other for other in files.names(folder) if _epochs(folder / other)] if files.is_directory(folder) else []
        raise UsageError(
            f"{run_directory} has no story of {name}: an element leaves one when it fails or is killed"
            + (f"; there are those of {', '.join(sorted(map(unquote, left)))}" if left else "")
        )
    if wanted and wanted not in map(str, epochs):
        raise UsageError(f"{name} left no story of epoch {wanted}; it left {', '.join(map(str, epochs))}")
    path = story_path(run_directory, name, int(wanted) if wanted else epochs[-1])
    try:
        return decode_story(files.read_bytes(path), path)
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}), and a story was written there: remove it") from None


def line_of(entry: StoryEntry, since: int) -> str:
    """An entry as a line of text; `since`: the time that counts as zero."""
    at = f"{(entry.at - since) / 1e6:+11.6f} s  "
    message = entry.message
    if message is None:
        return f"{at}{entry.what:<9} {entry.text}"
    numbers = f"{message.number}" if message.items < 2 else f"{message.number}–{message.number + message.items - 1}"
    late = ", late" if message.late else ""
    watermark = f", watermark {message.watermark.ts}" if message.watermark is not None else ""
    kind = message.kind.name.lower()
    return f"{at}arrived   {entry.channel} {kind} {numbers} of epoch {message.epoch}{watermark}{late}"
