"""Bit flips: in one attribute of one row, or of one tuple in a state. Pure functions of a random number."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from riprap.operators.contract import Operator
from riprap.operators.kernels.altering import FLIPPED, wrong_float, wrong_whole
from riprap.operators.row_store import BOOKKEEPING


def corruptible(schema: pa.Schema) -> tuple[str, ...]:
    """Columns in which a fault in one tuple may flip a bit."""
    kinds = (pa.float64(), pa.int64(), pa.string())
    return tuple(field.name for field in schema if field.type in kinds and field.name not in BOOKKEEPING)


def corrupted(rows: pa.RecordBatch, row: int, names: Sequence[str], chance: int) -> tuple[pa.RecordBatch, str | None]:
    """The rows with one bit flipped in one of these columns of one row, and the column; None if there was nothing to
    flip.
    """
    present = [name for name in names if name in rows.schema.names and rows.column(name)[row].is_valid]
    if not present:
        return rows, None
    name, bit = present[chance % len(present)], chance // len(present)
    at = rows.schema.get_field_index(name)
    column = rows.column(at)
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    value = column[row].as_py()
    wrong = _flipped_text(value, bit) if isinstance(value, str) else _flipped_number(value, bit)
    parts = [column.slice(0, row), pa.array([wrong], column.type), column.slice(row + 1)]
    return rows.set_column(at, rows.schema.field(at).with_type(column.type), pa.concat_arrays(parts)), name


def _flipped_number(value: float, bit: int) -> float:
    if isinstance(value, float):
        return float(wrong_float(value, FLIPPED, np.uint64(bit), 0, 1, 0, 0))
    return int(wrong_whole(value, FLIPPED, np.uint64(bit), 0, 1, 0, 0))


def _flipped_text(text: str, bit: int) -> str:
    """Flip one of the lower five bits of one ASCII character: it stays ASCII."""
    places = [place for place, character in enumerate(text) if character.isascii()]
    if not places:
        return text
    place = places[bit % len(places)]
    return text[:place] + chr(ord(text[place]) ^ (1 << (bit // len(places) % 5))) + text[place + 1 :]


def corrupt_some(operator: Operator, chance: int) -> str | None:
    """Flip a bit of some tuple in the state; return its column, or None if there is nothing to flip.

    It changes a snapshot and restores that, so the error is one that a checkpoint would have saved. Keys of groups
    are not changed: with a wrong key, a window could become that of another group.
    """
    state = operator.snapshot()
    filled = {name: rows for name, rows in state.tables.items() if name.endswith(".rows") and rows.num_rows}
    if not filled:
        return None
    table = sorted(filled)[chance % len(filled)]
    rows, chance = filled[table], chance // len(filled)
    names = corruptible(rows.schema)
    wrong, column = corrupted(rows, chance % rows.num_rows, names, chance // rows.num_rows)
    if column is not None:
        version = operator.version
        operator.restore([replace(state, tables={**state.tables, table: wrong})])
        operator.version = version
    return column
