"""Restores the newest usable checkpoint of a unit, and reassembles its windows.

A damaged manifest is skipped for an older one. A damaged window part loses only its own tuples: the window closes up
around them. State that is one blob (a user-defined operator's) needs its part, so an older manifest is used. For replay
(`gap=False`) an older manifest is used if any part is damaged: it is exact and only makes the replay longer. If no
checkpoint is intact, fresh state is exact as long as the whole input can still be replayed; else the newest checkpoint
with holes is used, for elements that tolerate loss.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from riprap.base.errors import DataError
from riprap.checkpoints.manifest import Manifest, SavedState, SavedWindows, decode, read_part
from riprap.checkpoints.names import MANIFEST, files_in, folder_of
from riprap.checkpoints.parts import (
    FROM,
    HASH,
    HEAD,
    NUMBER,
    RATE,
    ROWS,
    SPOKE,
    TAIL,
    WindowPart,
    clipped,
    decode_part,
    with_columns,
)
from riprap.checkpoints.state_tables import joined
from riprap.checkpoints.storage import Storage
from riprap.engine.engine import Engine, EngineState
from riprap.engine.merger import MergerState
from riprap.graph.order_keys import OrderKey
from riprap.operators.contract import OperatorState


@dataclass(frozen=True)
class Loaded:
    """A checkpoint, loaded into memory. States are snapshots."""

    epoch: int
    number: int
    taken_at: int  # microseconds
    states: Mapping[str, OperatorState]
    mergers: Mapping[str, MergerState]
    watermark: Mapping[str, OrderKey]
    positions: Mapping[str, Any]
    messages: bytes
    warnings: tuple[str, ...]

    def into(self, engine: Engine) -> None:
        """Restore the unit's part of a fragment; the rest of the engine stays unchanged."""
        engine.restore(EngineState(self.states, self.mergers, self.watermark))


def load(
    storage: Storage,
    pe: str,
    unit: str,
    now: int,
    *,
    gap: bool = False,
    spare: int = 0,
    holes: bool = True,
    only: tuple[int, int] | None = None,
    fits: Callable[[Mapping[str, Any]], bool] | None = None,
    warn: Callable[[str], None] = lambda text: None,
) -> Loaded | None:
    """Load a checkpoint; None if none is usable. Damage is reported to `warn` and in `Loaded.warnings`.

    `only`: epoch and number of the checkpoint to load; default: the newest usable one. `fits`: only checkpoints with
    positions for which it is true, and only intact ones.

    `gap`: tuples since the checkpoint are lost for good; then the tuples that they would have evicted from count
    windows are evicted, estimated by the rate of each key.

    `spare`: while fewer checkpoints than this exist, fresh state is exact and preferred to one with holes. `holes`: a
    checkpoint with holes is acceptable; without it, and if fresh state is not exact either, `load` raises.
    """
    folder = folder_of(pe, unit)
    warnings: list[str] = []
    manifests: list[Manifest] = []
    files = [file for file in files_in(storage, folder, MANIFEST) if only is None or (file.epoch, file.number) == only]
    for file in reversed(files):
        try:
            manifest = decode(storage.read(f"{folder}/{file.name}"))
            if fits is None or fits(manifest.positions):
                manifests.append(manifest)
        except (DataError, FileNotFoundError) as error:
            warnings.append(f"checkpoint {file.number} of epoch {file.epoch} of {unit} is damaged ({error})")
    candidates = [_Candidate(storage, folder, manifest) for manifest in manifests]
    usable = (c for c in candidates if not c.lacks_a_blob and (gap or not c.lost))
    chosen = next(usable, None)
    if chosen is None and fits is None and len(files) >= max(1, spare):
        if not holes:
            raise DataError(
                f"{pe} cannot be restored exactly: all of its remaining checkpoints are damaged ({folder}); "
                "run again from the start, with another `out`"
            )
        chosen = next((c for c in candidates if not c.lacks_a_blob), None)
    for candidate in candidates:
        manifest = candidate.manifest
        if candidate is chosen:
            warnings += [
                f"part {name} of checkpoint {manifest.number} of {unit} is damaged or missing: its tuples are lost"
                for name in candidate.lost
            ]
            break
        warnings.append(f"checkpoint {manifest.number} of epoch {manifest.epoch} of {unit} lacks {candidate.lost[0]}")
    if chosen is None and warnings:
        warnings.append(f"no checkpoint of {unit} is usable: it starts with fresh state")
    for text in warnings:
        warn(text)
    return chosen.loaded(now, gap, tuple(warnings)) if chosen is not None else None


class _Candidate:
    """An intact manifest and its readable parts, which are read once."""

    def __init__(self, storage: Storage, folder: str, manifest: Manifest) -> None:
        self._storage, self._folder, self.manifest = storage, folder, manifest
        self._data: dict[str, bytes] | None = None

    def _parts(self) -> dict[str, bytes]:
        if self._data is None:
            parts = {part.name: read_part(self._storage, self._folder, part) for part in self.manifest.parts()}
            self._data = {name: data for name, data in parts.items() if data is not None}
        return self._data

    @property
    def lost(self) -> list[str]:
        return [part.name for part in self.manifest.parts() if part.name not in self._parts()]

    @property
    def lacks_a_blob(self) -> bool:
        blobs = [state.blob for state in self.manifest.states.values() if state.blob is not None]
        return any(blob.name not in self._parts() for blob in blobs)

    def loaded(self, now: int, gap: bool, warnings: tuple[str, ...]) -> Loaded:
        manifest = self.manifest
        elapsed = max(0, now - manifest.taken_at) / 1e6 if gap else 0.0
        return Loaded(
            manifest.epoch,
            manifest.number,
            manifest.taken_at,
            {name: self._state(state, elapsed) for name, state in manifest.states.items()},
            manifest.mergers,
            manifest.watermark,
            manifest.positions,
            manifest.messages,
            warnings,
        )

    def _state(self, saved: SavedState, elapsed: float) -> OperatorState:
        tables: dict[str, pa.RecordBatch] = {}
        scalars = dict(saved.scalars)
        for prefix, windows in saved.windows.items():
            parts = [decode_part(self._parts()[part.name]) for part in windows.parts if part.name in self._parts()]
            entries, rows = _windows(windows, parts, elapsed)
            tables[f"{prefix}.keys"], tables[f"{prefix}.rows"] = entries, rows
            if windows.kind.count is not None and not windows.kind.per_key:
                # The window over a join's whole port evicts by the number of the newest tuple: count the lost ones.
                scalars[f"arrived{prefix.removeprefix('port')}"] += int(windows.rate * elapsed)
        blob = self._parts()[saved.blob.name] if saved.blob is not None else b""
        return OperatorState(saved.version, None, scalars, tables, blob)


def _windows(saved: SavedWindows, parts: list[WindowPart], elapsed: float) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The tables of a snapshot: each key once, with the rows of its window."""
    part = WindowPart(*(joined([part[j] for part in parts], saved.schemas[j]) for j in (0, 1)))
    hashes, number = part.column(HASH), part.column(NUMBER)
    order = np.lexsort((number, hashes))
    is_newest = np.append(hashes[order][1:] != hashes[order][:-1], True)[: len(order)]
    newest = order[is_newest]  # the newest entry of each key, by ascending hash
    of_key = np.searchsorted(hashes[newest], hashes)
    head, tail = part.column(HEAD)[newest], part.column(TAIL)[newest]
    spoke = part.column(SPOKE)[newest]
    if saved.bounds is not None and len(newest):
        head, tail, spoke = (np.full(1, bound, np.int64) for bound in saved.bounds)
    head = head + _stale(saved, tail - head, part.column(RATE)[newest], elapsed)
    first = np.clip(part.column(FROM), head[of_key], tail[of_key])
    stop = np.clip(part.column(FROM) + part.column(ROWS), first, np.maximum(tail[of_key], first))
    order = np.lexsort((number, first, hashes))
    content = clipped(part, order, first[order], (stop - first)[order]).rows
    count = np.bincount(of_key, weights=stop - first, minlength=len(newest)).astype(np.int64)
    # The window's end stays, because it decides when the window emits; lost rows are missing at its start. A window
    # without rows emits nothing.
    bounds = {HEAD: tail - count, TAIL: tail, SPOKE: np.where(count > 0, spoke, tail), ROWS: count}
    return with_columns(part.entries.take(pa.array(newest)), bounds), content


def _stale(saved: SavedWindows, size: np.ndarray, rate: np.ndarray, elapsed: float) -> np.ndarray:
    """The number of oldest tuples of each window that lost tuples would have evicted."""
    if saved.kind.count is None or not saved.kind.per_key:
        return np.zeros(len(size), np.int64)
    return np.clip(size + (rate * elapsed).astype(np.int64) - saved.kind.count, 0, size)
