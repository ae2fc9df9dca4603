"""Text that a log has, as codes of one dictionary that stays from batch to batch.

A log has plain text, so that each of its batches can be read by itself. Who reads it gives the rows codes again, and a
dictionary that is another one with every batch costs the elements behind it more than the rows do. So a reader keeps
the strings of each column that it has met, and numbers rows by those, as long as they are few.
"""

import numpy as np
import pyarrow as pa

from riprap.operators.strings import StringPool
from riprap.operators.views import CODE, ColumnView, Views, column_of

_MOST, _MOST_BYTES = 1 << 14, 1 << 20  # strings of a column; one that has more gets a dictionary for each batch
_TEXT = {pa.string().id, pa.binary().id}


class StoredText:
    """Of one who reads a log."""

    def __init__(self) -> None:
        self._pools: dict[str, StringPool | None] = {}  # by column; None: it has too many strings

    def views(self, batch: pa.RecordBatch) -> Views:
        names = tuple(batch.schema.names)
        return Views(names, tuple(map(self._column, names, batch.columns)), batch.num_rows)

    def _column(self, name: str, array: pa.Array) -> ColumnView:
        pool = self._pools.setdefault(name, StringPool()) if array.type.id in _TEXT else None
        if pool is None or array.null_count == len(array):
            return column_of(array)
        valid: np.ndarray | None = None
        if array.null_count:  # null is not a string
            found = column_of(array)
            valid = found.valid
            assert found.dictionary is not None
            assert valid is not None
            codes = pool.intern(found.dictionary).take(found.values, mode="clip")
            codes = np.multiply(codes, valid, dtype=CODE, casting="unsafe")
        else:
            codes = pool.intern(array).astype(CODE)
        if pool.count > _MOST or pool.bytes > _MOST_BYTES:
            self._pools[name] = None
        return ColumnView(array.type, codes, valid, pool.array(array.type))
