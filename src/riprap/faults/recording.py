"""The recorded stream: the input of the sources, as arrays on disk that every trial memory-maps.

A directory with, for each source, `NAME.arrow` (Arrow IPC, one batch, not compressed, only the columns that the app
reads, with `_ts` and `_seq`) and

    NAME.position.npy  int64  index of each row among the rows of all sources, in key order
    NAME.part.npy      int32  number of the row's key (0 if the app is not partitioned by key)
    NAME.order.npy     int64  rows by part, and by position within a part
    NAME.first.npy     int64  start of each part in `order`; one entry more than parts
    hashes.npy         uint64 hash of each part's key, as operators compute it
    time.npy           int64  `_ts` by position

Written once, sealed (`sealed.py`), never changed. A *cut* is a position p: the sources have read everything below p
and nothing from p on.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from riprap.base import files
from riprap.base.errors import DataError
from riprap.engine.engine import Engine, Output
from riprap.engine.inputs import BATCH_ROWS, keyed
from riprap.engine.pruning import wanted_columns
from riprap.faults.sealed import finished, fresh, mapped, save_array
from riprap.graph.graph import Graph
from riprap.graph.order_keys import END_KEY, SEQ, TS, OrderKey
from riprap.operators.columns import Keys, view
from riprap.operators.groups import GroupTable
from riprap.operators.kernels.selecting import by_part, rows_among, rows_within
from riprap.operators.strings import StringPool
from riprap.operators.views import Views

_SORTED = 30  # rows scanned in the time that sorting takes per row


@dataclass(frozen=True)
class RecordedSource:
    """One source's rows, as in the module's docstring."""

    name: str
    rank: int
    batch: pa.RecordBatch
    position: np.ndarray
    part: np.ndarray
    order: np.ndarray
    first: np.ndarray

    @property
    def seq(self) -> np.ndarray:
        return view(self.batch.column(SEQ), np.int64)

    @property
    def ts(self) -> np.ndarray:
        return view(self.batch.column(TS), np.int64)

    @cached_property
    def numbered(self) -> bool:
        """Whether `_seq` is the number of the row, as in generated data."""
        return bool(self.seq[0] == 0 and self.seq[-1] == self.batch.num_rows - 1)

    @cached_property
    def views(self) -> Views:
        """The same rows, for faster selection."""
        return Views.of(self.batch)

    def rows_at(self, seq: np.ndarray) -> np.ndarray:
        """The rows with these `_seq`."""
        return seq if self.numbered else np.searchsorted(self.seq, seq)

    def rows_of(self, parts: np.ndarray, start: int, stop: int) -> np.ndarray:
        """Rows of these parts with positions in [start, stop), in order."""
        lo, hi = np.searchsorted(self.position, (start, stop))
        most = int((self.first[parts + 1] - self.first[parts]).sum()) * (hi - lo) // len(self.position)
        if most * _SORTED > hi - lo:
            return rows_among(self.part, parts, len(self.first) - 1, lo, hi)
        return np.sort(rows_within(parts, self.order, self.first, lo, hi))


@dataclass(frozen=True)
class Recording:
    sources: tuple[RecordedSource, ...]
    hashes: np.ndarray  # by part
    time: np.ndarray  # by position

    @property
    def tuples(self) -> int:
        return len(self.time)

    @property
    def parts(self) -> int:
        return len(self.hashes)

    def key_at(self, position: int) -> OrderKey:
        """The order key of the tuple at a position."""
        for source in self.sources:
            row = int(np.searchsorted(source.position, position))
            if row < len(source.position) and source.position[row] == position:
                return OrderKey(int(source.ts[row]), source.rank, int(source.seq[row]))
        raise DataError(f"position {position} is beyond the recorded stream of {self.tuples} tuples")

    def positions_of(self, keys: Keys) -> np.ndarray:
        """The position of the source tuple of each key; for a time boundary, of the first tuple at or after it."""
        count = len(keys.ts)
        for source in self.sources:
            if len(keys.src) == 1 and keys.src[0] == source.rank:
                return source.position[source.rows_at(keys.seq)]
        out = np.searchsorted(self.time, keys.ts)
        for source in self.sources:
            own_keys = np.flatnonzero(np.broadcast_to(keys.src, count) == source.rank)
            if len(own_keys):
                out[own_keys] = source.position[source.rows_at(keys.seq[own_keys])]
        return out

    @cached_property
    def part(self) -> np.ndarray:
        """The part of the tuple at each position."""
        if len(self.sources) == 1:
            return self.sources[0].part
        part = np.empty(self.tuples, np.int32)
        for source in self.sources:
            part[source.position] = source.part
        return part

    def parts_of(self, positions: np.ndarray) -> np.ndarray:
        """The part of the source tuple at each position. Output that time triggers after the last tuple counts as the
        last tuple's.
        """
        return self.part[np.minimum(positions, self.tuples - 1)]

    def rows_left(self, parts: np.ndarray, start: int) -> int:
        """Estimated number of tuples of these parts after a cut, at constant rates."""
        total = sum(int((source.first[parts + 1] - source.first[parts]).sum()) for source in self.sources)
        return round(total * (1.0 - start / self.tuples))

    def feed(self, engine: Engine, start: int, stop: int, parts: np.ndarray | None = None) -> Iterator[Output]:
        """Feeds an engine at cut `start` all tuples up to cut `stop`, or only those of `parts`.

        The watermark of every source advances to the cut in any case; the last cut ends the stream.
        """
        if stop <= start and stop < self.tuples:
            return
        reached = self.key_at(stop - 1) if stop < self.tuples else END_KEY
        announced = False
        for source in self.sources:
            lo, hi = np.searchsorted(source.position, (start, stop)).tolist()
            if parts is None:
                for row in range(lo, hi, BATCH_ROWS):
                    yield from engine.push(source.name, source.batch.slice(row, min(BATCH_ROWS, hi - row)))
                continue
            rows = source.rows_of(parts, start, stop)
            if len(rows):
                announced = len(self.sources) == 1
                yield from engine.push(source.name, source.views.take(rows), until=reached if announced else None)
        for source in self.sources if not announced else ():
            yield from engine.advance(source.name, reached)


def record(
    graph: Graph,
    inputs: Mapping[str, Iterable[pa.RecordBatch]],
    columns: Mapping[str, tuple[str, ...]] | None,
    path: Path,
) -> None:
    """Writes a recording. `columns`: partitioning columns by source; None: the app is not partitioned by key."""
    final, path = path, fresh(path)
    wanted = wanted_columns(graph, frozenset(op.name for op in graph.operators))
    tables: dict[str, pa.RecordBatch] = {}
    for source in graph.sources:
        names = wanted[source.name][0] | frozenset((columns or {}).get(source.name, ()))
        batches = list(keyed(inputs[source.name], source, names))
        if not batches:
            raise DataError(f"the input of source {source.name} is empty: no fault can be injected")
        tables[source.name] = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks().to_batches()[0]
    positions = _merged_positions(graph, tables)
    parts, hashes = _parts(graph, tables, columns)
    time = np.empty(sum(len(p) for p in positions.values()), np.int64)
    for name, batch in tables.items():
        time[positions[name]] = view(batch.column(TS), np.int64)
        with files.open_file(path / f"{name}.arrow", "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)
        order, first = by_part(parts[name], len(hashes))
        saved = {"position": positions[name], "part": parts[name], "order": order, "first": first}
        for what, array in saved.items():
            save_array(path / f"{name}.{what}.npy", array)
    save_array(path / "hashes.npy", hashes)
    save_array(path / "time.npy", time)
    finished(path, final)


def load(graph: Graph, path: Path) -> Recording:
    """Memory-maps a recording."""
    sources = []
    for source in graph.sources:
        batch = pa.ipc.open_file(files.mapped(path / f"{source.name}.arrow")).get_batch(0)
        batch.validate(full=True)
        arrays = [mapped(path / f"{source.name}.{what}.npy") for what in ("position", "part", "order", "first")]
        sources.append(RecordedSource(source.name, source.rank, batch, *arrays))
    return Recording(tuple(sources), mapped(path / "hashes.npy"), mapped(path / "time.npy"))


def _merged_positions(graph: Graph, tables: Mapping[str, pa.RecordBatch]) -> dict[str, np.ndarray]:
    if len(tables) == 1:
        return {name: np.arange(batch.num_rows) for name, batch in tables.items()}
    names = [source.name for source in graph.sources]
    ts = np.concatenate([view(tables[name].column(TS), np.int64) for name in names])
    rank = np.concatenate([np.full(tables[s.name].num_rows, s.rank) for s in graph.sources])
    seq = np.concatenate([view(tables[name].column(SEQ), np.int64) for name in names])
    place = np.empty(len(ts), np.int64)
    place[np.lexsort((seq, rank, ts))] = np.arange(len(ts))
    cuts = np.cumsum([tables[name].num_rows for name in names])[:-1]
    return dict(zip(names, np.split(place, cuts), strict=True))


def _parts(
    graph: Graph, tables: Mapping[str, pa.RecordBatch], columns: Mapping[str, tuple[str, ...]] | None
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The part of each row, and the hash of each part. One table of groups numbers the keys of all sources."""
    if columns is None:
        return {name: np.zeros(batch.num_rows, np.int32) for name, batch in tables.items()}, np.zeros(1, np.uint64)
    first = graph.sources[0]
    types = [first.schema.field(name).type for name in columns[first.name]]
    groups = GroupTable(types, StringPool())
    parts = {
        name: groups.groups([batch.column(column) for column in columns[name]]).astype(np.int32)
        for name, batch in tables.items()
    }
    return parts, groups.hashes[: groups.count].copy()
