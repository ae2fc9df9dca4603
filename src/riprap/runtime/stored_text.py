"""Dictionary-encodes the text columns of a log, with one dictionary for all batches.

A log has plain text, so that each of its batches can be read by itself. Its readers encode the text again, and a new
dictionary for every batch would cost the elements downstream more than the rows do. So a reader retains the strings of
each column, as long as they are few, and encodes all batches with them.
"""

import numpy as np
import pyarrow as pa

from riprap.operators.strings import StringPool
from riprap.operators.views import CODE, ColumnView, Views, column_of

_MOST, _MOST_BYTES = 1 << 14, 1 << 20  # strings of a column; one that has more gets a dictionary for each batch
_TEXT = {pa.string().id, pa.binary().id}


class StoredText:
    """The dictionaries of one reader of a log."""

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
            column = column_of(array)
            valid = column.valid
            assert column.dictionary is not None
            assert valid is not None
            codes = pool.intern(column.dictionary).take(column.values, mode="clip")
            codes = np.multiply(codes, valid, dtype=CODE, casting="unsafe")
        else:
            codes = pool.intern(array).astype(CODE)
        if pool.count > _MOST or pool.bytes > _MOST_BYTES:
            self._pools[name] = None
        return ColumnView(array.type, codes, valid, pool.array(array.type))
