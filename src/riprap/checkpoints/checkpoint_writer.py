"""Writes the checkpoints of one unit: new parts, then the manifest. Then it deletes parts that no manifest references,
and merges window parts for the next manifest. Manifests stay until `delete`.

A crash between any two of these steps leaves the newest manifest with all its parts. It may leave unreferenced parts;
the next checkpoint deletes them. Files of a newer epoch are never touched.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import xxhash

from riprap.base.errors import DataError
from riprap.checkpoints.capture import CapturedState
from riprap.checkpoints.manifest import (
    Manifest,
    PartRef,
    SavedState,
    SavedWindows,
    decode,
    encode,
    read_part,
    write_part,
)
from riprap.checkpoints.names import MANIFEST, PART, Claim, File, files_in, folder_of, parsed
from riprap.checkpoints.parts import WindowPart
from riprap.checkpoints.storage import Contents, Storage
from riprap.checkpoints.window_parts import WindowLog
from riprap.operators.contract import OperatorState

_KEYS, _ROWS = ".keys", ".rows"  # suffixes of the names of a state's tables


class UnitWriter:
    def __init__(self, storage: Storage, pe: str, unit: str, epoch: int, claim: Claim) -> None:
        self._storage, self._unit, self._epoch, self._claim = storage, unit, epoch, claim
        self._folder = folder_of(pe, unit)
        self._number = max((f.number for f in files_in(storage, self._folder, MANIFEST) if f.epoch == epoch), default=0)
        self._part = max((f.number for f in files_in(storage, self._folder, PART) if f.epoch == epoch), default=0)
        self._logs: dict[tuple[str, str], WindowLog] = {}
        # Copies of each operator's last blob; the last element is the one that the newest manifest references.
        self._blobs: dict[str, list[PartRef]] = {}
        self._bytes = 0
        self._files: set[str] = set()  # known files in the folder
        self._manifests: dict[File, frozenset[str]] = {}  # live manifests, and the parts that they reference
        self.found: dict[File, Mapping[str, Any]] = {}  # intact manifests of earlier incarnations, and their positions
        for file in files_in(storage, self._folder, MANIFEST):
            if file.epoch <= epoch:
                self._manifests[file] = self._named_by(file)

    def gone(self) -> bool:
        """Whether manifests that this incarnation wrote, or parts that they reference, were deleted."""
        return any(file.epoch == self._epoch and not intact for file, intact in self._intact().items())

    def forget(self) -> None:
        """Drop incomplete checkpoints. The next capture must be a full one."""
        self._logs, self._blobs = {}, {}
        for file, intact in self._intact().items():
            if not intact:
                del self._manifests[file]
                self._storage.delete(f"{self._folder}/{file.name}")

    def _intact(self) -> dict[File, bool]:
        present = self._files = set(self._storage.names(self._folder))
        return {file: file.name in present and parts <= present for file, parts in self._manifests.items()}

    def write(self, capture: CapturedState) -> tuple[int, int]:
        """Make a checkpoint durable; returns its number within the epoch, and the bytes written for it."""
        self._bytes = 0
        self._number += 1
        states = {name: self._state(name, state, capture) for name, state in capture.states.items()}
        manifest = Manifest(
            self._unit,
            self._epoch,
            self._number,
            capture.taken_at,
            states,
            capture.mergers,
            capture.watermark,
            capture.positions,
            capture.messages,
        )
        data = encode(manifest)
        self._claim.check()
        file = File(self._epoch, self._number, MANIFEST)
        self._storage.write(f"{self._folder}/{file.name}", data)
        self._bytes += len(data)
        self._manifests[file] = frozenset(part.name for part in manifest.parts())
        return self._number, self._bytes

    def delete(self, files: Iterable[File]) -> None:
        """Delete these manifests. Parts that only they reference are deleted after the next checkpoint."""
        for file in files:
            if self._manifests.pop(file, None) is not None:
                self._storage.delete(f"{self._folder}/{file.name}")

    def maintain(self, capture: CapturedState) -> int:
        """Collect garbage and merge parts, after the checkpoint is durable; returns the bytes written."""
        self._bytes = 0
        self._collect()
        for (name, prefix), log in self._logs.items():
            log.maintain(capture.kinds[name][prefix], self._number)
        return self._bytes

    @property
    def damaged(self) -> bool:
        """Whether a part that this incarnation wrote is unreadable: the next checkpoint must be a full one."""
        return any(log.damaged for log in self._logs.values())

    def _state(self, name: str, state: OperatorState, capture: CapturedState) -> SavedState:
        windows: dict[str, SavedWindows] = {}
        for table, keys in state.tables.items():
            if table.endswith(_KEYS):
                prefix = table.removesuffix(_KEYS)
                captured = WindowPart(keys, state.tables[prefix + _ROWS])
                log = self._logs.setdefault((name, prefix), WindowLog(self._write_part, self._read_part))
                kind, whole = capture.kinds[name][prefix], state.since is None
                windows[prefix] = log.take(captured, kind, self._number, capture.taken_at, whole=whole)
        blob = self._blob(name, state.blob) if state.blob else None
        return SavedState(state.version, state.scalars, blob, windows)

    def _blob(self, name: str, blob: bytes) -> PartRef:
        """An unchanged blob is written twice, and manifests reference the copies in turn: damage to one copy leaves
        other checkpoints usable.

        If only one manifest is live, its copy serves the next one too.
        """
        same = (len(blob), xxhash.xxh3_64_intdigest(blob))
        copies = [part for part in self._blobs.get(name, ()) if (part.length, part.check) == same]
        named = frozenset().union(*self._manifests.values())
        others = [part for part in copies[:-1] if part.name in named]
        if not copies or (not others and len(self._manifests) > 1):
            others = [self._write_part(blob)]
        self._blobs[name] = copies[-1:] + others[:1]
        return self._blobs[name][-1]

    def _write_part(self, data: Contents) -> PartRef:
        self._part += 1
        self._bytes += len(data)
        name = File(self._epoch, self._part, PART).name
        self._files.add(name)
        return write_part(self._storage, self._folder, name, data)

    def _read_part(self, part: PartRef) -> bytes | None:
        return read_part(self._storage, self._folder, part)

    def _named_by(self, file: File) -> frozenset[str]:
        """The parts that a manifest references; none if it is damaged."""
        try:
            manifest = decode(self._storage.read(f"{self._folder}/{file.name}"))
            self.found[file] = manifest.positions
            return frozenset(part.name for part in manifest.parts())
        except (DataError, FileNotFoundError):
            return frozenset()

    def _collect(self) -> None:
        """Delete the known parts that no manifest references."""
        named = frozenset().union(*self._manifests.values())
        for name in sorted(self._files - named):
            if (file := parsed(name)) is not None and file.kind == PART and file.epoch <= self._epoch:
                self._storage.delete(f"{self._folder}/{name}")
                self._files.discard(name)
