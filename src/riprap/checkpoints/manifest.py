"""A checkpoint of a unit on disk: a manifest that references its parts. All numbers are little-endian.

    offset  size
    0       8     "RIPRAPCK"
    8       4     version, 2
    12      8     xxh3-64 of everything from byte 20 on
    20      8     length of the JSON text
    28            the JSON text (UTF-8): an object, see `Manifest`; then the attachments, which it references by
                  [offset, length], offsets counted from the end of the text: the contents of mergers (`waiting.py`),
                  and channel state

A manifest is written after all its parts are durable, and appears by a rename: a crash leaves the previous one. A part
is referenced with its length and xxh3-64, so a reader detects damage. `parts.py` describes the contents of a part.
"""

import json
import struct
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import xxhash

from riprap.base.errors import DataError
from riprap.checkpoints.storage import Contents, Storage
from riprap.checkpoints.waiting import decode_waiting, encode_waiting
from riprap.engine.merger import MergerState
from riprap.graph.order_keys import OrderKey

_MAGIC = b"RIPRAPCK"
_HEAD = struct.Struct("<8sIQQ")
_VERSION = 2


class PartRef(NamedTuple):
    """A reference to a part's file."""

    name: str  # within the unit's folder
    length: int  # bytes
    check: int  # xxh3-64


@dataclass(frozen=True)
class WindowKind:
    """The properties of a port's windows that decide what is saved of them."""

    period: int = 1  # a key without tuples is retained while its tail is not a multiple of this
    count: int | None = None  # the size of a sliding count window
    per_key: bool = True  # whether `count` is for each key, or for all keys together


@dataclass(frozen=True)
class SavedWindows:
    """What the manifest itself stores about the windows of one port."""

    kind: WindowKind
    parts: tuple[PartRef, ...]
    schemas: tuple[pa.Schema, pa.Schema]  # of the entries and the rows of every part
    rate: float  # tuples per second on the port between the last two checkpoints; the parts have the rates of keys
    bounds: tuple[int, int, int] | None  # head, tail and spoke of the only window, if there are no keys


@dataclass(frozen=True)
class SavedState:
    """The state of one operator."""

    version: int
    scalars: Mapping[str, int]
    blob: PartRef | None
    windows: Mapping[str, SavedWindows]  # by the prefix of the tables' names

    def parts(self) -> list[PartRef]:
        blobs = [self.blob] if self.blob is not None else []
        return blobs + [part for windows in self.windows.values() for part in windows.parts]


@dataclass(frozen=True)
class Manifest:
    unit: str
    epoch: int
    number: int  # counts the checkpoints of an epoch, from 1
    taken_at: int  # microseconds, the clock of the run
    states: Mapping[str, SavedState]
    mergers: Mapping[str, MergerState] = field(default_factory=dict)
    watermark: Mapping[str, OrderKey] = field(default_factory=dict)
    positions: Mapping[str, Any] = field(default_factory=dict)  # where the element continues: an opaque JSON object
    messages: bytes = b""  # channel state of the element, opaque here; an attachment

    def parts(self) -> list[PartRef]:
        return [part for state in self.states.values() for part in state.parts()]


def encode(manifest: Manifest) -> bytes:
    attached = bytearray()
    mergers = {}
    for name, state in manifest.mergers.items():
        waiting = encode_waiting(state)
        mergers[name] = [len(attached), len(waiting)]
        attached += waiting
    messages = [len(attached), len(manifest.messages)]
    attached += manifest.messages
    text = json.dumps(
        {
            "unit": manifest.unit,
            "epoch": manifest.epoch,
            "number": manifest.number,
            "taken_at": manifest.taken_at,
            "states": {name: _state_json(state) for name, state in manifest.states.items()},
            "mergers": mergers,
            "progress": manifest.watermark,
            "positions": dict(manifest.positions),
            "messages": messages,
        },
        separators=(",", ":"),
    ).encode()
    body = struct.pack("<Q", len(text)) + text + bytes(attached)
    return _MAGIC + struct.pack("<IQ", _VERSION, xxhash.xxh3_64_intdigest(body)) + body


def decode(data: bytes) -> Manifest:
    """The inverse of `encode`; raises `DataError` for any other data."""
    if len(data) < _HEAD.size:
        raise DataError("it is too short to be a manifest")
    magic, version, check, length = _HEAD.unpack_from(data)
    if magic != _MAGIC or xxhash.xxh3_64_intdigest(data[20:]) != check:
        raise DataError("its checksum is wrong")
    if version != _VERSION:
        raise DataError(f"it has version {version}, and this program reads {_VERSION}")
    values = json.loads(data[_HEAD.size : _HEAD.size + length])
    attached = data[_HEAD.size + length :]
    at_messages, size_messages = values["messages"]
    return Manifest(
        values["unit"],
        values["epoch"],
        values["number"],
        values["taken_at"],
        {name: _state(state) for name, state in values["states"].items()},
        {name: decode_waiting(attached[at : at + size]) for name, (at, size) in values["mergers"].items()},
        {name: OrderKey(*key) for name, key in values["progress"].items()},
        values["positions"],
        attached[at_messages : at_messages + size_messages],
    )


def _state_json(state: SavedState) -> dict[str, Any]:
    return {
        "version": state.version,
        "scalars": dict(state.scalars),
        "blob": state.blob,
        "windows": {
            name: {
                "period": windows.kind.period,
                "count": windows.kind.count,
                "per_key": windows.kind.per_key,
                "rate": windows.rate,
                "bounds": windows.bounds,
                "parts": windows.parts,
                "schemas": [b64encode(schema.serialize()).decode() for schema in windows.schemas],
            }
            for name, windows in state.windows.items()
        },
    }


def _state(values: dict[str, Any]) -> SavedState:
    windows = {
        name: SavedWindows(
            WindowKind(w["period"], w["count"], w["per_key"]),
            tuple(PartRef(*part) for part in w["parts"]),
            (_schema(w["schemas"][0]), _schema(w["schemas"][1])),
            w["rate"],
            tuple(w["bounds"]) if w["bounds"] is not None else None,
        )
        for name, w in values["windows"].items()
    }
    blob = PartRef(*values["blob"]) if values["blob"] is not None else None
    return SavedState(values["version"], values["scalars"], blob, windows)


def _schema(text: str) -> pa.Schema:
    """From the base64 of an Arrow IPC schema message."""
    return pa.ipc.read_schema(pa.py_buffer(b64decode(text)))


# Parts as files -------------------------------------------------------------------------------------------------------


def write_part(storage: Storage, folder: str, name: str, data: Contents) -> PartRef:
    storage.write(f"{folder}/{name}", data)
    return PartRef(name, len(data), xxhash.xxh3_64_intdigest(data))


def read_part(storage: Storage, folder: str, part: PartRef) -> bytes | None:
    """The contents of a part; None if it is missing or damaged."""
    try:
        data = storage.read(f"{folder}/{part.name}")
    except (FileNotFoundError, DataError):
        return None
    return data if len(data) == part.length and xxhash.xxh3_64_intdigest(data) == part.check else None
