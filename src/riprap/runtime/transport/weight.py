"""How many bytes a message holds, for bounding what waits.

Arrow's own `nbytes` takes tens of microseconds, as much as sending a small message. Here the fixed-width columns are
summed up once per channel, and of each text only its first and last offset are looked at.
"""

import numpy as np
import pyarrow as pa

from riprap.operators.views import Views
from riprap.runtime.messages import Message

# What a message costs beside its columns, so that a flood of progress is bounded too.
OVERHEAD_BYTES = 256

_CODE_BYTES = 4  # of a dictionary; the dictionary itself counts nothing, for the messages of a channel share it


class Weigher:
    """Weighs the messages of one channel."""

    def __init__(self) -> None:
        self._row_bytes = -1.0  # of all fixed-width columns; -1: no batch seen yet
        self._others: list[int] = []  # columns whose width differs from row to row, or from batch to batch

    def weigh(self, message: Message) -> int:
        batch = message.batch
        if batch is None:
            return OVERHEAD_BYTES
        if isinstance(batch, Views):
            return OVERHEAD_BYTES + batch.nbytes
        if self._row_bytes < 0:
            self._look_at(batch.schema)
        rows = batch.num_rows
        size = OVERHEAD_BYTES + int(rows * self._row_bytes)
        for at in self._others:
            column = batch.column(at)
            size += _CODE_BYTES * rows if isinstance(column, pa.DictionaryArray) else _text_bytes(column, rows)
        return size

    def _look_at(self, schema: pa.Schema) -> None:
        fixed = [pa.types.is_primitive(type_) for type_ in schema.types]
        self._others = [at for at, is_fixed in enumerate(fixed) if not is_fixed]
        self._row_bytes = (
            sum(type_.bit_width for type_, is_fixed in zip(schema.types, fixed, strict=True) if is_fixed) / 8
        )


def _text_bytes(column: pa.Array, rows: int) -> int:
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    if not (wide or pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
        return int(column.nbytes)
    offsets = np.frombuffer(column.buffers()[1], np.int64 if wide else np.int32)
    width = offsets.itemsize * rows
    return width + int(offsets[column.offset + rows] - offsets[column.offset])
