"""The sort operator. Semantics: `riprap.graph.specs.Sort`."""

from collections.abc import Mapping
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riprap.expressions.row_values import is_nested
from riprap.expressions.value_bytes import to_bytes
from riprap.graph.mark_keys import behind_boundary, still_open
from riprap.graph.order_keys import START_KEY, TIMER, OrderKey
from riprap.graph.specs import Sort
from riprap.graph.windows import Count, Time
from riprap.operators.columns import Keys, Numbering, batch_of, key_columns, keys_of, times_of, to_words
from riprap.operators.contract import Channel, Emission, Late, Punctuation, Setting
from riprap.operators.groups import GroupTable
from riprap.operators.kernels.rings import insert_all
from riprap.operators.row_store import RowStore
from riprap.operators.windowed import WindowedOperator

_NONE = np.iinfo(np.int64).min
_ONLY = np.zeros(1, np.int64)  # the only group


class SortOperator(WindowedOperator):
    def __init__(self, setting: Setting) -> None:
        self.spec = cast(Sort, setting.spec)
        sorted_by = {name for name, _ in self.spec.by}
        self._stored = [n for n in setting.schemas[0].names if n in setting.wanted[0] or n in sorted_by]
        super().__init__(setting)

    def _fresh(self) -> None:
        schema = self.setting.schemas[0]
        self.groups = GroupTable((), self.pool)
        self.stores = {0: RowStore(self.groups, [(name, schema.field(name).type) for name in self._stored], self.pool)}
        self._boundary = _NONE  # the next multiple of a time window, at which to emit
        self._last = OrderKey(_NONE, TIMER, _NONE)  # key of the latest tuple
        self._numbering = Numbering()
        self._passed = START_KEY  # late tuples arrived at this key; the window may have no others

    def process(self, channel: Channel, batch: pa.RecordBatch) -> list[Emission]:
        self.version += batch.num_rows
        if batch.num_rows == 0:
            return []
        keys = keys_of(batch, self.setting.shapes[0])
        emissions: list[Emission] = []
        start = 0
        while start < batch.num_rows:
            stop = self._fits(keys, start)
            if stop > start:
                self._insert(batch.slice(start, stop - start))
                self._last = keys.at(stop - 1)
            start = stop
            window = self.spec.window
            if isinstance(window, Count) and self.stores[0].size() == window.size:
                emissions += self._emit(self._last, stop - 1)
            elif isinstance(window, Time) and stop < batch.num_rows:
                emissions += self._at_boundary(int(keys.ts[stop]), stop)
        self.tidy(batch.num_rows)
        return emissions

    def late(self, channel: Channel, batch: pa.RecordBatch, at: OrderKey) -> list[Emission]:
        if isinstance(self.spec.window, Time):  # one window is open: rows before it are too late
            size = self.spec.window.size
            if self._boundary == _NONE:
                self._boundary = (at.ts // size + 1) * size
            batch = batch.filter(pa.array(times_of(batch) >= self._boundary - size))
        last, self._passed = self._last, at
        with self._numbering.apart():
            emissions = self.process(channel, batch)
        self._last = max(last, self._last)
        return emissions

    def _fits(self, keys: Keys, start: int) -> int:
        """The row up to which rows enter the window before it is emitted."""
        window, count = self.spec.window, len(keys.ts)
        if isinstance(window, Count):
            return min(count, start + window.size - self.stores[0].size())
        if isinstance(window, Time):
            if self._boundary == _NONE:
                self._boundary = (int(keys.ts[start]) // window.size + 1) * window.size
            beyond = np.flatnonzero(keys.ts[start:] >= self._boundary)
            return start + int(beyond[0]) if len(beyond) else count
        return count

    def _insert(self, rows: pa.RecordBatch) -> None:
        store = self.stores[0]
        groups = np.zeros(rows.num_rows, np.int64)
        store.reserve(groups)
        positions = insert_all(groups, store.base, store.cap, store.tail)
        for name in self._stored:
            store.write(name, positions, to_words(rows.column(name), self.pool))

    def _emit(self, key: OrderKey, trigger: int | None) -> list[Emission]:
        """Emit everything in the window, sorted, with the key of its trigger; then a punctuation."""
        store = self.stores[0]
        lo, hi = int(store.head[0]), int(store.tail[0])
        if lo == hi:
            return []
        columns = store.rows(store.positions(_ONLY))
        store.head[0] = hi
        if trigger is None:
            self.version += 1
        order = pc.sort_indices(
            pa.table({name: _plain(columns[name]) for name, _ in self.spec.by}),
            sort_keys=[(name, "descending" if descending else "ascending") for name, descending in self.spec.by],
        )
        count = hi - lo
        keys = self._numbering.number(Keys(*(np.full(count, part, np.int64) for part in key)))
        wanted = {name: column.take(order) for name, column in columns.items() if name in self.setting.wanted[0]}
        batch = batch_of(wanted | key_columns(keys, self.setting.output_shapes[0]))
        triggers = np.full(count, trigger, np.int64) if trigger is not None else None
        mark = Punctuation(keys.at(count - 1))
        if key <= self._passed:
            return [Emission(0, Late(batch, self._passed), triggers), Emission(0, Late(mark, self._passed))]
        return [Emission(0, batch, triggers), Emission(0, mark)]

    def _at_boundary(self, now: int, trigger: int | None) -> list[Emission]:
        """Emit what ended before `now`, and wait for the next boundary."""
        size = cast(Time, self.spec.window).size
        emissions = self._emit(OrderKey(self._boundary, TIMER, self._boundary // size), trigger)
        self._boundary = (now // size + 1) * size
        return emissions

    def punctuate(self, channel: Channel, punctuation: Punctuation) -> list[Emission]:
        # The output of a window ends with a punctuation. If the window is empty, the punctuation itself passes, behind
        # the output that its trigger caused.
        key, window = punctuation.key, self.spec.window
        if isinstance(window, Time) and key.ts % window.size == 0:
            key = behind_boundary(key, key.ts // window.size)
        return self._emit(key, None) or [Emission(0, Punctuation(self._numbering.key(key)))]

    def watermark(self, key: OrderKey) -> list[Emission]:
        if not isinstance(self.spec.window, Time) or self._boundary == _NONE or key.ts < self._boundary:
            return []
        return self._at_boundary(key.ts, None)

    def end(self) -> list[Emission]:
        if isinstance(self.spec.window, Time) and self._boundary != _NONE:
            return self._emit(OrderKey(self._boundary, TIMER, self._boundary // self.spec.window.size), None)
        return self._emit(self._last, None)

    def next_boundary(self) -> int | None:
        waits = isinstance(self.spec.window, Time) and self._boundary != _NONE and self.size() > 0
        return self._boundary if waits else None

    def output_watermark(self, key: OrderKey) -> OrderKey:
        # A punctuation, or the end of input without a time window, emits with the key of the latest tuple.
        waits = not isinstance(self.spec.window, Time) and self.stores[0].size() > 0
        return still_open(min(key, self._last) if waits else key)

    def _decides(self) -> tuple[int, ...]:
        return (self._boundary,) if isinstance(self.spec.window, Time) else self._last[:3]

    def scalars(self) -> dict[str, int]:
        last = {"last_ts": self._last.ts, "last_src": self._last.src, "last_seq": self._last.seq}
        return {"boundary": self._boundary} | last | self._numbering.scalars()

    def restore_scalars(self, scalars: Mapping[str, int]) -> None:
        self._boundary = scalars["boundary"]
        self._last = OrderKey(scalars["last_ts"], scalars["last_src"], scalars["last_seq"])
        self._numbering.restore(scalars)


def _plain(column: pa.Array) -> pa.Array:
    if is_nested(column.type):
        return to_bytes(column)  # they sort as the values do
    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column
