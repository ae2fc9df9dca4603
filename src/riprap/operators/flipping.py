"""A wrong bit: in one attribute of one row, or of one tuple in a state. Pure functions of a random number."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from riprap.operators.contract import Operator
from riprap.operators.rows import STAMP

_FRACTION_BITS, _WHOLE_BITS = 52, 32


def corruptible(schema: pa.Schema) -> tuple[str, ...]:
    """Columns of which a fault that strikes one tuple may flip a bit."""
    return tuple(field.name for field in schema if field.type in (pa.float64(), pa.int64(), pa.string()))


def corrupted(rows: pa.RecordBatch, row: int, names: Sequence[str], chance: int) -> tuple[pa.RecordBatch, str | None]:
    """The rows with one bit of one of these columns flipped in one row, and the column; None where it had nothing."""
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
    array = np.array([value])
    result: float = flipped(array, np.array([True]), np.array([bit], np.uint64))[0].item()
    return result


def _flipped_text(text: str, bit: int) -> str:
    """One of the lower five bits of one ASCII character: it stays one."""
    places = [place for place, character in enumerate(text) if character.isascii()]
    if not places:
        return text
    place = places[bit % len(places)]
    return text[:place] + chr(ord(text[place]) ^ (1 << (bit // len(places) % 5))) + text[place + 1 :]


def corrupt_some(operator: Operator, chance: int) -> str | None:
    """Flip a bit of some tuple in the state; gives its column, None where there is nothing to flip.

    The state is taken as a snapshot and put back: what is wrong is what a checkpoint would have saved. Keys of groups
    stay: under a wrong one a window could not be told from another's.
    """
    state = operator.snapshot()
    filled = {name: rows for name, rows in state.tables.items() if name.endswith(".rows") and rows.num_rows}
    if not filled:
        return None
    table = sorted(filled)[chance % len(filled)]
    rows, chance = filled[table], chance // len(filled)
    names = [name for name in corruptible(rows.schema) if name != STAMP]
    wrong, column = corrupted(rows, chance % rows.num_rows, names, chance // rows.num_rows)
    if column is not None:
        version = operator.version
        operator.restore([replace(state, tables={**state.tables, table: wrong})])
        operator.version = version
    return column


def flipped(values: np.ndarray, hit: np.ndarray, chance: np.ndarray) -> np.ndarray:
    bits = _FRACTION_BITS if values.dtype == np.float64 else _WHOLE_BITS
    flip = np.where(hit, np.uint64(1) << (chance % np.uint64(bits)), np.uint64(0))
    return (values.view(np.uint64) ^ flip).view(values.dtype)
