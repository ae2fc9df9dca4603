"""The functor with state variables. Semantics: `riprap.graph.specs.Scan`.

The variables of a group are one row of a store, which each tuple replaces. Outside pieces the operator updates them by
columns: in the first round with the first tuple of every group, in the second with the second, and so on. In a
compiled piece it is a step (`step_scan.py`), the cost of which does not depend on the groups.
"""

from functools import cache
from typing import cast

import numpy as np
import pyarrow as pa

from riprap.graph.order_keys import KEY_COLUMNS, SEQ, TS, TS_TYPE
from riprap.graph.specs import Scan
from riprap.operators.columns import ALL_VALID, WordColumn, batch_of, from_words, take, to_words
from riprap.operators.contract import Channel, Emission, Setting
from riprap.operators.groups import GroupTable
from riprap.operators.kernels.sessions import chain
from riprap.operators.row_store import RowStore
from riprap.operators.windowed import WindowedOperator


@cache  # not at import: Arrow's first array of Python values imports pandas, which is slow
def _one_row() -> pa.RecordBatch:
    return pa.record_batch({TS: pa.array([0], TS_TYPE), SEQ: pa.array([0], pa.int64())})


class ScanOperator(WindowedOperator):
    def __init__(self, setting: Setting) -> None:
        self.spec = spec = cast(Scan, setting.spec)
        schema = setting.schemas[0]
        seen = spec.seen(schema)
        self.fields = [seen.field(variable.name) for variable in spec.variables]
        self._starts = [
            spec.bind(variable.initial, pa.schema([])).evaluate(_one_row()).cast(field.type)
            for variable, field in zip(spec.variables, self.fields, strict=True)
        ]
        self.updates = [(variable.name, spec.bind(variable.update, seen)) for variable in spec.variables]
        read = frozenset().union(*(variable.update.columns for variable in spec.variables))
        self._read = [name for name in schema.names if name in read]
        self._predicate = spec.bind(spec.predicate, seen) if spec.predicate is not None else None
        self._projections = [
            (name, spec.bind(expression, seen))
            for name, expression in spec.projections or ()
            if name in setting.wanted[0]
        ]
        self._shown = [name for name in setting.output_schemas[0].names if name in setting.wanted[0]]
        super().__init__(setting)

    def _fresh(self) -> None:
        schema = self.setting.schemas[0]
        self.groups = GroupTable([schema.field(name).type for name in self.spec.by], self.pool)
        fields = [(field.name, field.type) for field in self.fields]
        self.stores = {0: RowStore(self.groups, fields, self.pool, ring=self.ring)}
        # The initial value of each variable as the store holds it, and whether it is not null.
        self.initial: dict[str, tuple[int | float, bool]] = {}
        for field, start in zip(self.fields, self._starts, strict=True):
            words = to_words(start, self.pool)
            ok = not len(words.valid) or bool(words.valid[0])
            self.initial[field.name] = (words.values[0].item() if ok else 0, ok)

    def process(self, channel: Channel, batch: pa.RecordBatch) -> list[Emission]:
        count = batch.num_rows
        self.version += count
        if count == 0:
            return []
        store, by = self.stores[0], self.spec.by
        groups = self.groups.groups([batch.column(name) for name in by]) if by else np.zeros(count, np.int64)
        store.reserve(groups)
        positions, before, turns = (np.empty(count, np.int64) for _ in range(3))
        most = chain(groups, store.base, store.cap, store.head, store.tail, positions, before, turns)
        order = np.argsort(turns, kind="stable")
        ends = np.searchsorted(turns[order], np.arange(most + 1))
        given = batch.select([*self._read, *(name for name in (TS, SEQ) if name in batch.schema.names)])
        for turn in range(most):
            rows = order[ends[turn] : ends[turn + 1]]
            self._update(take(given, rows), before[rows], positions[rows])
        emissions = self._emit(batch, positions)
        self.tidy(count)
        return emissions

    def _update(self, rows: pa.RecordBatch, before: np.ndarray, positions: np.ndarray) -> None:
        """Update the variables with one tuple per group."""
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        columns |= {field.name: self._old(field, before) for field in self.fields}
        for name, update in self.updates:
            columns[name] = update.evaluate(batch_of(columns))
        for name, _ in self.updates:
            self.stores[0].write(name, positions, to_words(columns[name], self.pool))

    def _old(self, field: pa.Field, before: np.ndarray) -> pa.Array:
        """A variable's value before these rows."""
        values, valid = self.stores[0].column(field.name)
        there = before >= 0
        start, ok = self.initial[field.name]
        own = np.full(len(before), start, values.dtype)
        own[there] = values[before[there]]
        present = np.full(len(before), ok, np.uint8)
        present[there] = valid[before[there]] if len(valid) else 1
        words = WordColumn(own, present if not present.all() else ALL_VALID)
        return from_words(words.values, words.valid, field.type, self.pool)

    def _emit(self, batch: pa.RecordBatch, positions: np.ndarray) -> list[Emission]:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        columns |= {field.name: self.stores[0].gather(field.name, positions) for field in self.fields}
        seen, rows = batch_of(columns), None
        if self._predicate is not None:
            rows = self._predicate.selection(seen)
            if not len(rows):
                return []
            seen = take(seen, rows)
        if self.spec.projections is None:
            shown = {name: seen.column(name) for name in self._shown}
        else:
            shown = {name: bound.evaluate(seen) for name, bound in self._projections}
        shown |= {name: seen.column(name) for name in KEY_COLUMNS if name in seen.schema.names}
        return [Emission(0, batch_of(shown), rows)]
