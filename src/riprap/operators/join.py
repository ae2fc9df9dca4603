"""The join operator. Semantics: `riprap.graph.specs.Join`."""

import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from riprap.expressions import Bound, Expression
from riprap.graph.order_keys import KEY_COLUMNS, OrderKey, overlapping
from riprap.graph.specs import Join, user_columns
from riprap.graph.types import is_key
from riprap.graph.windows import Count, Time
from riprap.operators.columns import (
    LATE_N,
    Keys,
    Numbering,
    WordColumn,
    batch_of,
    concatenated,
    key_columns,
    keys_of,
    picked,
    renumbered_watermark,
    taken,
    times_of,
    to_words,
)
from riprap.operators.contract import Channel, Emission, Punctuation, Setting
from riprap.operators.groups import GroupTable
from riprap.operators.kernels.matches import COUNT, TIME, ZERO, list_matches, meet
from riprap.operators.repeating import of_count, stamped
from riprap.operators.row_store import RowStore
from riprap.operators.windowed import WindowedOperator

_EARLIEST = np.iinfo(np.int64).min // 2  # before every time, with room to subtract a window
_NO_RINGS = np.zeros(1, np.int64)
_NO_ROWS = np.empty(0, np.int64)


class _Matches(NamedTuple):
    """Pairs: row `rows` of port `sides` arrived and met position `met` of the other port's store."""

    rows: np.ndarray
    sides: np.ndarray
    met: np.ndarray
    triggers: np.ndarray  # merged row of the arrival

    def chosen(self, selection: np.ndarray) -> "_Matches":
        if len(selection) == len(self.rows):
            return self
        return _Matches(*(picked(part, selection) for part in self))


class JoinOperator(WindowedOperator):
    def __init__(self, setting: Setting) -> None:
        self.spec = cast(Join, setting.spec)
        combined = self.spec.combined_schema(setting.schemas)
        self._outer = self.spec.how != "inner"
        self._predicate = self.spec.bind(self.spec.predicate, combined) if self.spec.predicate is not None else None
        self._projections: list[tuple[str, Bound]] | None = None
        if self.spec.projections is not None:
            self._projections = [
                (name, self.spec.bind(expression, self.spec.shown_schema(setting.schemas)))
                for name, expression in self.spec.projections
                if name in setting.wanted[0]
            ]
        # The port of each output column. An `on` column that both ports have comes from the port that triggers alone.
        self._trigger_ports = [port for port in (0, 1) if self.spec.triggers(port)]
        shared = {left for left, right in self.spec.on if left == right}
        both = len(self._trigger_ports) == 2
        arriving = 0 if both else self._trigger_ports[0]
        self.port_of: dict[str, int] = {}
        for name in combined.names:
            in_left = name in setting.schemas[0].names
            self.port_of[name] = arriving if name in shared else 0 if in_left else 1
        self._tests_key = self.spec.predicate is not None and _reads_key(self.spec.predicate)
        self._shows_key = any(_reads_key(expression) for _, expression in self.spec.projections or ())
        self._tested = user_columns(self.spec.predicate) if self.spec.predicate is not None else frozenset()
        if self.spec.projections is None:
            reads = setting.wanted[0]
        else:
            reads = frozenset().union(*(user_columns(e) for n, e in self.spec.projections if n in setting.wanted[0]))
        self._shown = [name for name in combined.names if name in reads]
        stored = set(self._shown) | self._tested
        self.stored = [
            [name for name in setting.schemas[port].names if name in stored and (both or self.port_of[name] == port)]
            for port in (0, 1)
        ]
        self._renumbers = self.spec.renumbers(setting.shapes)
        super().__init__(setting)

    def _fresh(self) -> None:
        spec, schemas = self.spec, self.setting.schemas
        self.groups = GroupTable([schemas[0].field(left).type for left, _ in spec.on], self.pool)
        self.stores = {}
        for port, window in enumerate(spec.windows):
            if spec.stateful[port]:
                fields = [(name, schemas[port].field(name).type) for name in self.stored[port]]
                stamped = isinstance(window, Time) or not spec.per_group
                self.stores[port] = RowStore(self.groups, fields, self.pool, stamped=stamped, ring=self.ring)
        self._arrived = np.zeros(2, np.int64)  # tuples so far on each port
        self._now = np.full(1, _EARLIEST)  # greatest _ts so far on either
        self._numbering = Numbering()

    # Rows -------------------------------------------------------------------------------------------------------------

    def process(self, channel: Channel, batch: pa.RecordBatch) -> list[Emission]:
        batches = [batch.slice(0, 0), batch.slice(0, 0)]
        batches[channel.port] = batch
        return self.process_merged(batches, np.full(batch.num_rows, channel.port, np.int8))

    def process_merged(self, batches: Sequence[pa.RecordBatch], ports: np.ndarray) -> list[Emission]:
        if self.repeating:
            assert self.repetition is not None
            batches = self.repetition.consume(batches)
            ports = ports[len(ports) - sum(batch.num_rows for batch in batches) :]
            if not len(ports):
                return []
        self.version += len(ports)
        present = [bool(batch.num_rows) for batch in batches]
        keys = [keys_of(batches[p], self.setting.shapes[p]) if present[p] else None for p in (0, 1)]
        groups = [self.groups_of(p, batches[p]) if present[p] else np.empty(0, np.int64) for p in (0, 1)]
        touched = None
        if self.tracker is not None:
            for port, store in self.stores.items():
                store.reserve(groups[port])
            touched = self.tracker.before(*groups)
        matches, positions = self._meet(ports, groups, keys)
        for port, store in self.stores.items():
            if present[port]:
                for name in self.stored[port]:
                    store.write(name, positions[port], to_words(batches[port].column(name), self.pool))
        if self.tracker is not None and touched is not None:
            self.tracker.slid(touched, *(times_of(batch) if batch.num_rows else _NO_ROWS for batch in batches))
        emissions = self._emit(matches, positions, batches, keys, ports)
        self.tidy(len(ports))
        return emissions

    def late(self, channel: Channel, batch: pa.RecordBatch, at: OrderKey) -> list[Emission]:
        window = self.spec.windows[channel.port]
        shared = overlapping(list(self.setting.shapes))
        with self._numbering.apart(LATE_N * (1 + channel.port) if shared else 0):
            if not isinstance(window, Time):
                return self.process(channel, batch)
            self._now[0] = max(self._now[0], at.ts)
            young = times_of(batch) > self._now[0] - window.size
            emissions = self.process(channel, batch.filter(pa.array(young))) if young.any() else []
            if not young.all():  # too old for the window: they meet the other port's window and are not stored
                store = self.stores[channel.port]
                tails, tidy_at = store.tail.copy(), self._tidy_at
                self._tidy_at = sys.maxsize  # keep the store's arrays in place
                emissions += self.process(channel, batch.filter(pa.array(~young)))
                self._tidy_at = tidy_at
                store.tail[: len(tails)] = tails
                store.tail[len(tails) :] = store.head[len(tails) :]
                np.minimum(store.head, store.tail, out=store.head)  # one of these rows may have evicted another
            return emissions

    def groups_of(self, port: int, batch: pa.RecordBatch) -> np.ndarray:
        if not self.spec.on:
            return np.zeros(batch.num_rows, np.int64)
        columns = [batch.column(pair[port]) for pair in self.spec.on]
        return self.groups.groups(columns, null_is_a_key=False)

    def _meet(
        self, ports: np.ndarray, groups: list[np.ndarray], keys: list[Keys | None]
    ) -> tuple[_Matches, list[np.ndarray]]:
        rings, stamps, kinds, sizes = [], [], [], []
        for port, window in enumerate(self.spec.windows):
            store = self.stores.get(port)
            if store is None:
                rings.append((_NO_RINGS,) * 4)
                stamps.append(_NO_RINGS)
                kinds.append(ZERO)
                sizes.append(0)
                continue
            store.reserve(groups[port])
            rings.append((store.base, store.cap, store.head, store.tail))
            stamps.append(store.stamps)
            kinds.append(TIME if isinstance(window, Time) else COUNT)
            sizes.append(cast(Time | Count, window).size)
        times = [key.ts if key is not None else np.empty(0, np.int64) for key in keys]
        positions = [np.empty(len(groups[0]), np.int64), np.empty(len(groups[1]), np.int64)]
        lo, hi = np.empty(len(ports), np.int64), np.empty(len(ports), np.int64)
        meet(
            ports, *groups, *times, *rings[0], *rings[1], *stamps, *kinds, *sizes, self.spec.per_group,
            self._arrived, self._now, *positions, lo, hi,
        )  # fmt: skip
        total = int((hi - lo).sum())
        bases = (*rings[0][:2], *rings[1][:2])
        return _Matches(*list_matches(ports, *groups, lo, hi, *bases, total)), positions

    # Emitting --------------------------------------------------------------------------------------------------------

    def _emit(
        self,
        matches: _Matches,
        positions: list[np.ndarray],
        batches: Sequence[pa.RecordBatch],
        keys: list[Keys | None],
        ports: np.ndarray,
    ) -> list[Emission]:
        pairs = self._one_sided if self._outer else self._pairs
        if self._predicate is not None and len(matches.rows):
            tested = pairs(matches, positions, batches, keys, self._tested, with_key=self._tests_key)
            matches = matches.chosen(self._predicate.selection(tested))
        if self._outer:
            matches = self._with_unmatched(matches, ports)
        if not len(matches.rows):
            return []
        shown = pairs(matches, positions, batches, keys, self._shown, with_key=self._shows_key)
        if self._projections is None:
            columns = dict(zip(shown.schema.names, shown.columns, strict=True))
        else:
            columns = {name: bound.evaluate(shown) for name, bound in self._projections}
        columns |= self._order_keys(matches, keys)
        return [Emission(0, batch_of(columns), matches.triggers)]

    def _pairs(
        self,
        matches: _Matches,
        positions: list[np.ndarray],
        batches: Sequence[pa.RecordBatch],
        keys: list[Keys | None],
        names: Sequence[str] | frozenset[str],
        *,
        with_key: bool,
    ) -> pa.RecordBatch:
        """These columns of the matched pairs, and `_ts` and `_seq` of the arrival for expressions."""
        columns: dict[str, pa.Array] = {}
        if len(self._trigger_ports) == 1:
            arriving = self._trigger_ports[0]
            own = batches[arriving]
            for name in names:
                if self.port_of[name] == arriving:
                    columns[name] = taken(own.column(name), matches.rows)
                else:
                    columns[name] = self.stores[1 - arriving].gather(name, matches.met)
            key = [name for name in KEY_COLUMNS if name in own.schema.names] if with_key else []
            return batch_of(columns | {name: taken(own.column(name), matches.rows) for name in key})
        # Both ports store rows, so the arrival is in its port's store already.
        left = np.where(matches.sides == 0, 0, matches.met)
        right = np.where(matches.sides == 1, 0, matches.met)
        for port, at in ((0, left), (1, right)):
            mine = matches.sides == port
            at[mine] = positions[port][matches.rows[mine]]
            columns |= {name: self.stores[port].gather(name, at) for name in names if self.port_of[name] == port}
        columns = {name: columns[name] for name in names}
        if with_key:
            columns |= self._order_keys(matches, keys, number=False)
        return batch_of(columns)

    def _with_unmatched(self, matches: _Matches, ports: np.ndarray) -> _Matches:
        """Add the arrivals without a match that an outer join emits: they met position -1."""
        silent = np.ones(len(ports), bool)
        silent[matches.triggers] = False
        for port in (0, 1):
            if not self.spec.outer(port):
                silent &= ports != port
        alone = np.flatnonzero(silent)
        row_of = np.where(ports == 0, np.cumsum(ports == 0), np.cumsum(ports == 1)) - 1
        triggers = np.concatenate([matches.triggers, alone])
        order = np.argsort(triggers, kind="stable")
        return _Matches(
            np.concatenate([matches.rows, row_of[alone]])[order],
            np.concatenate([matches.sides, ports[alone]])[order],
            np.concatenate([matches.met, np.full(len(alone), -1)])[order],
            triggers[order],
        )

    def _one_sided(
        self,
        matches: _Matches,
        positions: list[np.ndarray],
        batches: Sequence[pa.RecordBatch],
        keys: list[Keys | None],
        names: Sequence[str] | frozenset[str],
        *,
        with_key: bool,
    ) -> pa.RecordBatch:
        """As `_pairs`, for outer joins, where a pair may have one side only: common columns come from the arrival."""
        rows_of = [np.flatnonzero(matches.sides == port) for port in (0, 1)]
        arriving_ports = [port for port in (0, 1) if len(rows_of[port])] or self._trigger_ports[:1]
        order = pa.array(np.argsort(np.concatenate([rows_of[port] for port in arriving_ports])))
        columns: dict[str, pa.Array] = {}
        for name in names:
            parts = []
            for port in arriving_ports:
                if name in self.setting.schemas[port].names:
                    parts.append(taken(batches[port].column(name), matches.rows[rows_of[port]]))
                else:
                    parts.append(self._met(1 - port, name, matches.met[rows_of[port]]))
            columns[name] = parts[0] if len(parts) == 1 else concatenated(parts).take(order)
        if with_key:
            columns |= self._order_keys(matches, keys, number=False)
        return batch_of(columns)

    def _met(self, port: int, name: str, met: np.ndarray) -> pa.Array:
        """A column of the rows that were met on a port; null where no row was met."""
        matched = np.flatnonzero(met >= 0)
        if not len(matched):
            return pa.nulls(len(met), self.setting.schemas[port].field(name).type)
        values = self.stores[port].gather(name, met[matched])
        if len(matched) == len(met):
            return values
        place = np.full(len(met), -1)
        place[matched] = np.arange(len(matched))
        return values.take(pa.array(place, mask=place < 0))

    def _order_keys(self, matches: _Matches, keys: list[Keys | None], *, number: bool = True) -> dict[str, pa.Array]:
        """Each output has its arrival's key, numbered where one arrival causes several outputs."""
        if len(self._trigger_ports) == 1:
            result = cast(Keys, keys[self._trigger_ports[0]]).rows(matches.rows)
        else:
            result = Keys(*(np.empty(len(matches.rows), np.int64) for _ in range(4)))
            for port, own in enumerate(keys):
                mine = np.flatnonzero(matches.sides == port)
                if own is not None and len(mine):
                    for part, values in zip(result, own.rows(matches.rows[mine]), strict=True):
                        part[mine] = values
        if number and self._renumbers:
            result = self._numbering.number(result)
        return key_columns(result, self.setting.output_shapes[0])

    def punctuate(self, channel: Channel, punctuation: Punctuation) -> list[Emission]:
        if self.repetition is not None and self.repetition.punctuated(channel.port):
            return []
        if self.tracker is not None:
            self.tracker.marks[channel.port] += 1
        key = self._numbering.key(punctuation.key) if self._renumbers else punctuation.key
        return [Emission(0, Punctuation(key))]

    def output_watermark(self, key: OrderKey) -> OrderKey:
        return renumbered_watermark(key, self.setting.shapes) if self._renumbers else key

    # State ------------------------------------------------------------------------------------------------------------

    def words_of(self, port: int, batch: pa.RecordBatch) -> dict[str, WordColumn]:
        return {name: to_words(batch.column(name), self.pool) for name in self.stored[port]}

    def insert_past(
        self, port: int, words: Mapping[str, WordColumn], groups: np.ndarray, ts: np.ndarray, number: np.ndarray
    ) -> None:
        window = self.spec.windows[port]
        most = of_count(window) if self.spec.per_group else 0
        self.stores[port].insert(groups, words, stamped(window, ts, number), most)

    def settle(self, groups: np.ndarray | None = None) -> None:
        for port, store in self.stores.items():
            window = self.spec.windows[port]
            if isinstance(window, Time):
                store.forget(int(self._now[0]) - window.size, groups)
            elif isinstance(window, Count) and not self.spec.per_group:
                store.forget(int(self._arrived[port]) - window.size, groups)
                store.stamp_origin = int(self._arrived[port])

    def scalars(self) -> dict[str, int]:
        counts = {"arrived0": int(self._arrived[0]), "arrived1": int(self._arrived[1]), "now": int(self._now[0])}
        return counts | self._numbering.scalars()

    def restore_scalars(self, scalars: Mapping[str, int]) -> None:
        self._arrived[:] = scalars["arrived0"], scalars["arrived1"]
        self._now[0] = scalars["now"]
        self._numbering.restore(scalars)


def _reads_key(expression: Expression) -> bool:
    return any(is_key(name) for name in expression.columns)
