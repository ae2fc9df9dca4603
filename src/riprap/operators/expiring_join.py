"""The join that emits tuples without a match when they leave their window.

Semantics: `riprap.graph.specs.ExpiringJoin`.

Every tuple of a port that emits such tuples is stored with its `_seq`, a hash of the rest of its key, and whether it
has had a match. Each call ends with the eviction of all that time has passed, so that a row is emitted by the call that
evicts it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from riprap.expressions import Bound
from riprap.graph.order_keys import KEY_COLUMNS, SEQ, KeyShape, N, OrderKey
from riprap.graph.specs import ExpiringJoin, user_columns
from riprap.graph.windows import Time
from riprap.operators.columns import (
    ALL_VALID,
    LATE_N,
    Keys,
    Numbering,
    WordColumn,
    batch_of,
    concatenated,
    key_columns,
    keys_of,
    renumbered_watermark,
    to_words,
)
from riprap.operators.contract import Channel, Emission, OperatorState, Punctuation, Setting
from riprap.operators.groups import GroupTable
from riprap.operators.kernels.hashing import SEED, hash_words
from riprap.operators.kernels.matches import TIME, list_matches, meet
from riprap.operators.kernels.rings import positions_of
from riprap.operators.row_store import MATCHED, RowStore
from riprap.operators.windowed import WindowedOperator

_EARLIEST = np.iinfo(np.int64).min // 2  # before every time, with room to subtract a window
_LATEST = np.iinfo(np.int64).max // 2
_NOTHING = np.empty(0, np.int64)
_NO_KEYS = Keys(_NOTHING, _NOTHING, _NOTHING, _NOTHING)
_POSITIVE = np.uint64(2**63 - 1)


class _Pairs(NamedTuple):
    """Rows to emit: positions in the stores of the ports (-1: null), the order key, and the merged row that caused
    each.
    """

    left: np.ndarray
    right: np.ndarray
    keys: Keys
    triggers: np.ndarray

    def chosen(self, rows: np.ndarray) -> "_Pairs":
        return _Pairs(self.left[rows], self.right[rows], _rows(self.keys, rows), self.triggers[rows])


class ExpiringJoinOperator(WindowedOperator):
    def __init__(self, setting: Setting) -> None:
        self.spec = spec = cast(ExpiringJoin, setting.spec)
        combined, shown = spec.combined_schema(setting.schemas), spec.shown_schema(setting.schemas)
        self._predicate = spec.bind(spec.predicate, combined) if spec.predicate is not None else None
        self._tested = sorted(user_columns(spec.predicate)) if spec.predicate is not None else []
        self._projections: list[tuple[str, Bound]] | None = None
        if spec.projections is None:
            self._shown = [name for name in shown.names if name in setting.wanted[0]]
        else:
            chosen = [(name, expression) for name, expression in spec.projections if name in setting.wanted[0]]
            self._projections = [(name, spec.bind(expression, shown)) for name, expression in chosen]
            read = frozenset[str]().union(*(user_columns(expression) for _, expression in chosen))
            self._shown = [name for name in shown.names if name in read]
        self._shared = {left for left, right in spec.on if left == right}
        stored = {*self._shown, *self._tested}
        self.stored = [[name for name in schema.names if name in stored] for schema in setting.schemas]
        self._sizes = [cast(Time, window).size for window in spec.windows]
        self._emptied = [spec.outer(port) for port in (0, 1)]  # whether rows without a match are emitted
        self._flagged = [spec.outer(port) or (spec.how == "left_semi" and port == 0) for port in (0, 1)]
        self._rank = spec.expiry_rank(setting.shapes)
        super().__init__(setting)

    def _fresh(self) -> None:
        schemas = self.setting.schemas
        self.groups = GroupTable([schemas[0].field(left).type for left, _ in self.spec.on], self.pool)
        self.stores = {}
        for port, schema in enumerate(schemas):
            fields = [(name, schema.field(name).type) for name in self.stored[port]]
            fields += [(SEQ, pa.int64()), (N, pa.int64())] if self._emptied[port] else []
            fields += [(MATCHED, pa.int64())] if self._flagged[port] else []
            self.stores[port] = RowStore(self.groups, fields, self.pool, stamped=True)
        self._now = np.full(1, _EARLIEST)  # no row before this time can follow
        self._numbering = Numbering()

    # Rows -------------------------------------------------------------------------------------------------------------

    def process(self, channel: Channel, batch: pa.RecordBatch) -> list[Emission]:
        batches = [batch.slice(0, 0), batch.slice(0, 0)]
        batches[channel.port] = batch
        return self.process_merged(batches, np.full(batch.num_rows, channel.port, np.int8))

    def process_merged(self, batches: Sequence[pa.RecordBatch], ports: np.ndarray) -> list[Emission]:
        if not len(ports):
            return []
        self.version += len(ports)
        heads, clock, pairs, _ = self._join(batches, ports)
        gone = self._expired(heads, int(self._now[0]))
        gone = gone._replace(triggers=np.searchsorted(clock, gone.keys.ts))
        emissions = self._emission(_together(gone, pairs))
        self.tidy(len(ports))
        return emissions

    def late(self, channel: Channel, batch: pa.RecordBatch, at: OrderKey) -> list[Emission]:
        """A row that is too old for its window meets the other port's window, and is not stored."""
        self._now[0] = max(self._now[0], at.ts)
        keys = keys_of(batch, self.setting.shapes[channel.port])
        young = keys.ts > self._now[0] - self._sizes[channel.port]
        with self._numbering.apart(LATE_N * (1 + channel.port)):
            emissions = self.process(channel, batch.filter(pa.array(young))) if young.any() else []
            if not young.all():
                old = [batch.slice(0, 0), batch.slice(0, 0)]
                old[channel.port] = batch.filter(pa.array(~young))
                count = old[channel.port].num_rows
                self.version += count
                store = self.stores[channel.port]
                tails = store.tail.copy()
                _, _, pairs, positions = self._join(old, np.full(count, channel.port, np.int8))
                if self._emptied[channel.port]:
                    alone = np.flatnonzero(store.column(MATCHED).values[positions] == 0)
                    mine = self._alone(channel.port, positions[alone])
                    pairs = _together(mine._replace(triggers=alone), pairs)
                emissions += self._emission(pairs)
                store.tail[: len(tails)] = tails
                store.tail[len(tails) :] = store.head[len(tails) :]
                np.minimum(store.head, store.tail, out=store.head)
        return emissions

    def _join(
        self, batches: Sequence[pa.RecordBatch], ports: np.ndarray
    ) -> tuple[list[np.ndarray], np.ndarray, _Pairs, np.ndarray]:
        """Insert rows and find their matches: the stores' heads before, the time at each merged row, the matches, and
        the positions of the rows of the last port that has any.
        """
        shapes = self.setting.shapes
        keys = [keys_of(batch, shapes[port]) if batch.num_rows else _NO_KEYS for port, batch in enumerate(batches)]
        groups, keyed = zip(*(self._groups(port, batch) for port, batch in enumerate(batches)), strict=True)
        heads, rings, positions = [], [], []
        for port, store in self.stores.items():
            store.reserve(groups[port])
            heads.append(store.head.copy())
            rings.append((store.base, store.cap, store.head, store.tail))
            positions.append(np.empty(len(groups[port]), np.int64))
        merged = _merged(ports, keys)
        clock = np.maximum(np.maximum.accumulate(merged.ts), self._now[0])
        lo, hi = np.empty(len(ports), np.int64), np.empty(len(ports), np.int64)
        stamps = [store.stamps for store in self.stores.values()]
        meet(
            ports, *groups, keys[0].ts, keys[1].ts, *rings[0], *rings[1], *stamps, TIME, TIME, *self._sizes, True,
            np.zeros(2, np.int64), self._now, *positions, lo, hi,
        )  # fmt: skip
        for port, batch in enumerate(batches):
            if batch.num_rows:
                self._store(port, batch, keys[port], positions[port])
        found = list_matches(ports, *groups, lo, hi, *rings[0][:2], *rings[1][:2], int((hi - lo).sum()))
        rows, sides, met, triggers = found
        own = [met.copy(), met.copy()]
        for port, at in enumerate(own):
            mine = sides == port
            at[mine] = positions[port][rows[mine]]
        pairs = _Pairs(own[0], own[1], _rows(merged, triggers), triggers)
        valid = np.ones(len(ports), bool)
        for port in (0, 1):
            valid[ports == port] = keyed[port]
        pairs = pairs.chosen(np.flatnonzero(valid[triggers]))
        if self._predicate is not None and len(pairs.left):
            pairs = pairs.chosen(self._predicate.selection(self._columns(pairs, self._tested)))
        if self.spec.semi:
            _, first = np.unique(pairs.left, return_index=True)
            new = pairs.chosen(np.sort(first))
            flags = self.stores[0].column(MATCHED).values
            new = new.chosen(np.flatnonzero(flags[new.left] == 0))
            flags[pairs.left] = 1
            pairs = new if self.spec.how == "left_semi" else _no_pairs()
            pairs = pairs._replace(right=np.full(len(pairs.left), -1))
        else:
            for port, at in enumerate((pairs.left, pairs.right)):
                if self._flagged[port]:
                    self.stores[port].column(MATCHED).values[at] = 1
        last = 1 if batches[1].num_rows else 0
        return heads, clock, pairs, positions[last]

    def _groups(self, port: int, batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
        """The group of each row (-1: it is not stored), and whether it can match: no part of its key is null."""
        keyed = np.ones(batch.num_rows, bool)
        if not batch.num_rows:
            return np.empty(0, np.int64), keyed
        columns = [batch.column(pair[port]) for pair in self.spec.on]
        for column in columns:
            if column.null_count:
                keyed &= column.is_valid().to_numpy(zero_copy_only=False)
        return self.groups.groups(columns, null_is_a_key=self._emptied[port]), keyed

    def _store(self, port: int, batch: pa.RecordBatch, keys: Keys, positions: np.ndarray) -> None:
        store = self.stores[port]
        for name, words in self.words_of(port, batch).items():
            store.write(name, positions, words)
        if self._emptied[port]:
            store.write(SEQ, positions, WordColumn(keys.seq, ALL_VALID))
            tags = np.full(len(positions), SEED, np.uint64)
            for part in (np.array([port]), keys.src, keys.n):
                hash_words(np.ascontiguousarray(np.broadcast_to(part, len(positions))), ALL_VALID, tags)
            store.write(N, positions, WordColumn((tags & _POSITIVE).view(np.int64), ALL_VALID))
        if self._flagged[port]:
            store.write(MATCHED, positions, WordColumn(np.zeros(len(positions), np.int64), ALL_VALID))

    def _expired(self, heads: Sequence[np.ndarray], now: int) -> _Pairs:
        """Evict what time has passed; the rows that left since `heads` without a match, in the order of their keys."""
        gone = []
        for port, store in self.stores.items():
            store.forget(now - self._sizes[port])
            if self._emptied[port]:
                groups = np.flatnonzero(store.head[: len(heads[port])] > heads[port])
                left = positions_of(groups, heads[port][groups], store.head[groups], store.base, store.cap)
                gone.append(self._alone(port, left[store.column(MATCHED).values[left] == 0]))
        if not gone:
            return _no_pairs()
        both = _Pairs(
            np.concatenate([part.left for part in gone]),
            np.concatenate([part.right for part in gone]),
            Keys(*(np.concatenate([part.keys[j] for part in gone]) for j in range(4))),
            np.concatenate([part.triggers for part in gone]),
        )
        return both.chosen(np.lexsort((both.keys.n, both.keys.seq, both.keys.ts)))

    def _alone(self, port: int, at: np.ndarray) -> _Pairs:
        """Rows of a port without a match, with their keys."""
        store, nothing = self.stores[port], np.full(len(at), -1)
        ts = store.stamps[at] + self._sizes[port]
        keys = Keys(ts, np.full(len(at), self._rank), store.column(SEQ).values[at], store.column(N).values[at])
        left, right = (at, nothing) if port == 0 else (nothing, at)
        return _Pairs(left, right, keys, np.zeros(len(at), np.int64))

    def _emission(self, pairs: _Pairs, *, caused_by_rows: bool = True) -> list[Emission]:
        if not len(pairs.left):
            return []
        expired = pairs.keys.src == self._rank if self._rank is not None else np.zeros(len(pairs.left), bool)
        numbers = pairs.keys.n.copy()
        matched = np.flatnonzero(~expired)
        if len(matched):
            numbers[matched] = self._numbering.number(_rows(pairs.keys, matched)).n
        pairs = pairs._replace(keys=pairs.keys._replace(n=numbers))
        shown = self._columns(pairs, self._shown)
        columns = dict(zip(shown.schema.names, shown.columns, strict=True))
        if self._projections is not None:
            columns = {name: bound.evaluate(shown) for name, bound in self._projections}
        user = {name: column for name, column in columns.items() if name not in KEY_COLUMNS}
        order = key_columns(pairs.keys, self.setting.output_shapes[0])
        return [Emission(0, batch_of(user | order), pairs.triggers if caused_by_rows else None)]

    def _columns(self, pairs: _Pairs, names: Sequence[str]) -> pa.RecordBatch:
        """These columns of pairs, and their order keys."""
        columns: dict[str, pa.Array] = {}
        for name in names:
            if name in self._shared:
                sides = [self._gathered(port, name, at) for port, at in enumerate((pairs.left, pairs.right))]
                count = len(pairs.left)
                present = np.arange(count) + np.where(pairs.left >= 0, 0, count)
                columns[name] = concatenated(sides).take(pa.array(present))
            else:
                port = 0 if name in self.setting.schemas[0].names else 1
                columns[name] = self._gathered(port, name, (pairs.left, pairs.right)[port])
        every = KeyShape(src=None, n=True, origins=frozenset())
        return batch_of(columns | key_columns(pairs.keys, every))

    def _gathered(self, port: int, name: str, at: np.ndarray) -> pa.Array:
        """A column of rows of a store; null at position -1."""
        there = np.flatnonzero(at >= 0)
        if not len(there):
            return pa.nulls(len(at), self.setting.schemas[port].field(name).type)
        values = self.stores[port].gather(name, at[there])
        if len(there) == len(at):
            return values
        place = np.full(len(at), -1)
        place[there] = np.arange(len(there))
        return values.take(pa.array(place, mask=place < 0))

    # Time -------------------------------------------------------------------------------------------------------------

    def watermark(self, key: OrderKey) -> list[Emission]:
        return self._reach(key.ts)

    def end(self) -> list[Emission]:
        return self._reach(_LATEST)

    def _reach(self, ts: int) -> list[Emission]:
        """Evict what no row at or after this time can match."""
        if ts <= self._now[0]:
            return []
        heads = [store.head.copy() for store in self.stores.values()]
        gone = self._expired(heads, ts)
        if ts < _LATEST:
            self._now[0] = ts
        self.version += bool(len(gone.left))
        return self._emission(gone, caused_by_rows=False)

    def next_boundary(self) -> int | None:
        ends = []
        for port, store in self.stores.items():
            if self._emptied[port] and len(live := store.live()):
                at = positions_of(live, store.head[live], store.head[live] + 1, store.base, store.cap)
                ends.append(int(store.stamps[at].min()) + self._sizes[port])
        return min(ends) if ends else None

    def punctuate(self, channel: Channel, punctuation: Punctuation) -> list[Emission]:
        return [Emission(0, Punctuation(self._numbering.key(punctuation.key)))]

    def output_watermark(self, key: OrderKey) -> OrderKey:
        return renumbered_watermark(key, self.setting.shapes)

    # State ------------------------------------------------------------------------------------------------------------

    def delta(self, since: int) -> OperatorState:
        return self.snapshot()  # a match changes a row that is stored already

    def turned_over(self, since: int) -> bool:
        return True

    def words_of(self, port: int, batch: pa.RecordBatch) -> dict[str, WordColumn]:
        return {name: to_words(batch.column(name), self.pool) for name in self.stored[port]}

    def settle(self, groups: np.ndarray | None = None) -> None:
        """Nothing: every call ends with the eviction of what time has passed."""

    def scalars(self) -> dict[str, int]:
        return {"now": int(self._now[0]), **self._numbering.scalars()}

    def restore_scalars(self, scalars: Mapping[str, int]) -> None:
        self._now[0] = scalars["now"]
        self._numbering.restore(scalars)


def _merged(ports: np.ndarray, keys: Sequence[Keys]) -> Keys:
    """The keys of rows of several ports, in merged order."""
    parts = [np.empty(len(ports), np.int64) for _ in range(4)]
    for port, own in enumerate(keys):
        mine = ports == port
        for part, values in zip(parts, own, strict=True):
            part[mine] = values
    return Keys(*parts)


def _rows(keys: Keys, rows: np.ndarray) -> Keys:
    """The keys of these rows; every part has an entry per row."""
    return Keys(*(part[rows] for part in keys))


def _together(gone: _Pairs, pairs: _Pairs) -> _Pairs:
    """Rows that left, and matches, in the order of their triggers; the rows that left first."""
    order = np.argsort(np.concatenate([gone.triggers, pairs.triggers]), kind="stable")
    both = _Pairs(
        np.concatenate([gone.left, pairs.left]),
        np.concatenate([gone.right, pairs.right]),
        Keys(*(np.concatenate([gone.keys[j], pairs.keys[j]]) for j in range(4))),
        np.concatenate([gone.triggers, pairs.triggers]),
    )
    return both.chosen(order)


def _no_pairs() -> _Pairs:
    return _Pairs(_NOTHING, _NOTHING, _NO_KEYS, _NOTHING)
