"""The join with a static table. Semantics: `riprap.graph.specs.JoinTable`."""

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa

from riprap.graph.order_keys import KEY_COLUMNS
from riprap.graph.specs import JoinTable, user_columns
from riprap.operators.columns import batch_of, key_columns, keys_of, taken
from riprap.operators.contract import Channel, Emission, Setting
from riprap.operators.functor import narrowed
from riprap.operators.groups import GroupTable
from riprap.operators.numbered import NumberedOperator
from riprap.operators.strings import StringPool

_STRANGERS = 65_536  # keys that the table does not have, which may be remembered


class TableIndex:
    """The rows of a table by key, in their order. A row with a null in its key has none."""

    def __init__(self, columns: Sequence[pa.Array], rows: int) -> None:
        self._columns, self._rows = columns, rows
        self._number()

    def _number(self) -> None:
        if not self._columns:
            self._order, self._starts = np.arange(self._rows), np.array([0, self._rows])
            return
        self._groups = GroupTable([column.type for column in self._columns], StringPool())
        groups = self._groups.groups(self._columns, null_is_a_key=False)
        order = np.argsort(groups, kind="stable")
        self._order = order[np.searchsorted(groups[order], 0) :]
        self._known = self._groups.count
        self._starts = np.searchsorted(groups[self._order], np.arange(self._known + 1))

    def find(self, columns: Sequence[pa.Array], rows: int) -> tuple[np.ndarray, np.ndarray]:
        """Pairs: row of `columns`, and the row of the table that it matches."""
        if not self._columns:
            groups = np.zeros(rows, np.int64)
        else:
            groups = self._groups.groups(columns, null_is_a_key=False)
            groups[groups >= self._known] = -1
            if self._groups.count > 2 * self._known + _STRANGERS:
                self._number()
        first = self._starts[groups]
        counts = np.where(groups >= 0, self._starts[groups + 1] - first, 0)
        pairs = np.repeat(np.arange(rows), counts)
        within = np.arange(len(pairs)) - np.repeat(np.cumsum(counts) - counts, counts)
        return pairs, self._order[first[pairs] + within]


class TableJoinOperator(NumberedOperator):
    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.spec = spec = cast(JoinTable, setting.spec)
        schema = setting.schemas[0]
        self._table = spec.table.rows
        self._index = TableIndex([self._table.column(right) for _, right in spec.on], self._table.num_rows)
        combined, shown = spec.combined_schema(schema), spec.shown_schema(schema)
        self._predicate = spec.bind(spec.predicate, combined) if spec.predicate is not None else None
        self._tested = sorted(user_columns(spec.predicate)) if spec.predicate is not None else []
        self._projections = [
            (name, spec.bind(expression, shown))
            for name, expression in spec.projections or ()
            if name in setting.wanted[0]
        ]
        if spec.projections is None:
            self._shown = [name for name in shown.names if name in setting.wanted[0]]
        else:
            read = frozenset[str]().union(*(user_columns(e) for n, e in spec.projections if n in setting.wanted[0]))
            self._shown = [name for name in shown.names if name in read]
        self.renumbers = spec.several

    def process(self, channel: Channel, batch: pa.RecordBatch) -> list[Emission]:
        self.version += batch.num_rows
        keys = [batch.column(left) for left, _ in self.spec.on]
        rows, found = self._index.find(keys, batch.num_rows)
        if self._predicate is not None and len(rows):
            chosen = self._predicate.selection(self._pairs(batch, rows, found, self._tested))
            rows, found = rows[chosen], found[chosen]
        if self.spec.how != "inner":
            matched = np.zeros(batch.num_rows, bool)
            matched[rows] = True
            if self.spec.how == "left":
                alone = np.flatnonzero(~matched)
                order = np.argsort(np.concatenate([rows, alone]), kind="stable")
                rows = np.concatenate([rows, alone])[order]
                found = np.concatenate([found, np.full(len(alone), -1)])[order]
            else:
                rows = np.flatnonzero(matched if self.spec.how == "left_semi" else ~matched)
                found = np.full(len(rows), -1)
        if not len(rows):
            return []
        shown = self._pairs(batch, rows, found, self._shown)
        if self.spec.projections is not None:
            columns = {name: bound.evaluate(shown) for name, bound in self._projections}
            shown = batch_of(columns | {name: shown.column(name) for name in KEY_COLUMNS if name in shown.schema.names})
        if self.renumbers:
            own = self.numbering.number(keys_of(batch, self.setting.shapes[0]).rows(rows))
            shown = batch_of(_user(shown) | key_columns(own, self.setting.output_shapes[0]))
        return [Emission(0, shown, rows)]

    def _pairs(
        self, batch: pa.RecordBatch, rows: np.ndarray, found: np.ndarray, names: Sequence[str]
    ) -> pa.RecordBatch:
        """These columns of pairs, and the tuple's order key; null in the table's columns where none was found."""
        own = narrowed(batch, frozenset(names))
        columns: dict[str, pa.Array] = {}
        for name in names:
            if name in own.schema.names:
                columns[name] = taken(own.column(name), rows)
            else:
                columns[name] = self._table.column(name).take(pa.array(found, mask=found < 0))
        columns |= {name: taken(own.column(name), rows) for name in KEY_COLUMNS if name in own.schema.names}
        return batch_of(columns)


def _user(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return {name: batch.column(name) for name in batch.schema.names if name not in KEY_COLUMNS}
