"""Lifting: an expression of one dictionary-encoded column is computed once per distinct value, not once per row.

`type = 'TRADE'` over a column with two distinct values is two comparisons, then one table look-up per row. The table
is kept for the dictionaries seen last, so that batches which share a dictionary share the table too.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from riprap.expressions import kernels
from riprap.expressions.kinds import Kind
from riprap.expressions.typed import Typed
from riprap.expressions.vectors import Failure, Vector, aligned, from_arrow, full, to_arrow

_KEPT = 4  # tables per expression; each holds on to its dictionary


class Lifted:
    """`inner`, an expression of `column` alone and of nothing else."""

    def __init__(self, column: str, inner: Typed, load: Callable[[pa.RecordBatch], pa.Array]) -> None:
        self._column = column
        self._inner = inner
        self._load = load
        # Address of the dictionary → the dictionary, which keeps the address its own, and what it maps to.
        self._tables: dict[tuple[object, ...], tuple[pa.Array, Vector | None]] = {}

    def run(self, batch: pa.RecordBatch) -> Vector:
        column = self._load(batch)
        if not isinstance(column, pa.DictionaryArray):
            return self._inner.run(batch)
        table = self._table(column.dictionary)
        if table is None:
            return self._inner.run(batch)
        codes, any_null = _codes(column)
        if isinstance(table.values, pa.Array):
            return from_arrow(table.values.take(pa.array(codes)))
        values = table.values.take(codes, mode="clip")
        if table.valid is None or (not any_null and table.valid[:-1].all()):
            return Vector(values)
        return Vector(values, table.valid.take(codes, mode="clip"))

    def select(self, batch: pa.RecordBatch) -> np.ndarray | None:
        """Rows where a boolean expression is true, without a value per row; None when there is no table for it."""
        column = self._load(batch)
        if not isinstance(column, pa.DictionaryArray):
            return None
        table = self._table(column.dictionary)
        return None if table is None else kernels.true_codes(table.values.view(np.uint8), _codes(column)[0])

    def _table(self, dictionary: pa.Array) -> Vector | None:
        """The expression's value for each entry of `dictionary`, and last for NULL. None when an entry has no value:
        rows that use it must fail, the others must not, so it has to be computed row by row."""
        addresses = [None if buffer is None else buffer.address for buffer in dictionary.buffers()]
        key = (len(dictionary), dictionary.offset, *addresses)
        found = self._tables.get(key)
        if found is None:
            found = dictionary, self._computed(dictionary)
            # Replaced, never changed, so that threads may share it.
            self._tables = dict([*self._tables.items(), (key, found)][-_KEPT:])
        return found[1]

    def _computed(self, dictionary: pa.Array) -> Vector | None:
        entries = pa.concat_arrays([dictionary, pa.nulls(1, dictionary.type)])
        try:
            with np.errstate(all="ignore"):
                vector = self._inner.run(pa.RecordBatch.from_arrays([entries], [self._column]))
        except Failure:
            return None
        if self._inner.kind in (Kind.STRING, Kind.BINARY):
            return Vector(to_arrow(vector, self._inner.type, len(entries)))
        valid = None if vector.valid is None else full(vector.valid, len(entries))
        return Vector(full(vector.values, len(entries)), valid)


def _codes(column: pa.DictionaryArray) -> tuple[np.ndarray, bool]:
    """Each row's place in the dictionary, one past its end for NULL; and whether there is any NULL."""
    indices = column.indices
    if indices.null_count:
        vector = from_arrow(indices)
        return np.where(vector.valid, vector.values, len(column.dictionary)), True
    codes = aligned(indices.to_numpy())
    return (codes if codes.dtype in (np.int32, np.int64) else codes.astype(np.int64)), False
