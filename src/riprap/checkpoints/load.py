"""Restoring: the newest checkpoint of a unit that can be used, with its windows put together again.

A damaged manifest is passed over for an older one. A damaged part of a window costs its own tuples: the window closes
up around them. State that is a whole (a user-defined operator's) cannot do without its part, so an older manifest is
taken. For replay (`gap=False`) so it is too if any other part is damaged, as an older checkpoint is exact and only
makes the replay longer. If none is whole the beginning serves as well, while it can still be had; else the newest with
its holes, for whoever bears them.
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
    """A checkpoint in memory again. States are snapshots."""

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
        """Put the unit's part of a fragment back; the rest of the engine stays as it is."""
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
    """None if there is no usable checkpoint. `warn` hears of damage, as `Loaded.warnings` does.

    `only`: epoch and number of the one that is wanted; without it, the newest good one. `fits`: of those whose
    positions are so, the newest that is whole.

    `gap`: tuples since the checkpoint are lost for good; then what they would have pushed out of windows of the newest
    tuples goes, by the rate of each key.

    `spare`: while there are fewer checkpoints than this, fresh state is exact, and one with holes is not. `holes`: one
    with holes is better than none; without it, and where the beginning is out of reach too, it is an error.
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
    usable = (c for c in candidates if not c.lacks_a_whole and (gap or not c.lost))
    chosen = next(usable, None)
    if chosen is None and fits is None and len(files) >= max(1, spare):
        if not holes:
            raise DataError(
                f"{pe} cannot go back exactly: every checkpoint of it that is left is damaged ({folder}); "
                "run again from the beginning, with another --out"
            )
        chosen = next((c for c in candidates if not c.lacks_a_whole), None)
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
        warnings.append(f"no checkpoint of {unit} can be used: it begins with fresh state")
    for text in warnings:
        warn(text)
    return chosen.loaded(now, gap, tuple(warnings)) if chosen is not None else None


class _Candidate:
    """A sound manifest and what can be read of its parts, which are read once."""

    def __init__(self, storage: Storage, folder: str, manifest: Manifest) -> None:
        self._storage, self._folder, self.manifest = storage, folder, manifest
        self._data: dict[str, bytes] | None = None

    def _parts(self) -> dict[str, bytes]:
        if self._data is None:
            found = {part.name: read_part(self._storage, self._folder, part) for part in self.manifest.parts()}
            self._data = {name: data for name, data in found.items() if data is not None}
        return self._data

    @property
    def lost(self) -> list[str]:
        return [part.name for part in self.manifest.parts() if part.name not in self._parts()]

    @property
    def lacks_a_whole(self) -> bool:
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
                # The window of a join's whole port forgets by the number of the newest tuple: pass over those lost.
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
    # The window ends where it ended, as that decides when it speaks; what was lost is missing at its beginning. One of
    # which nothing is left has nothing to say.
    bounds = {HEAD: tail - count, TAIL: tail, SPOKE: np.where(count > 0, spoke, tail), ROWS: count}
    return with_columns(part.entries.take(pa.array(newest)), bounds), content


def _stale(saved: SavedWindows, size: np.ndarray, rate: np.ndarray, elapsed: float) -> np.ndarray:
    """How many of the oldest tuples of each window others would have pushed out meanwhile."""
    if saved.kind.count is None or not saved.kind.per_key:
        return np.zeros(len(size), np.int64)
    return np.clip(size + (rate * elapsed).astype(np.int64) - saved.kind.count, 0, size)
