"""Wrong values: what a divergence and a corruption do to attributes. Pure functions of seed and order key."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from riprap.base.randomness import derived_seed
from riprap.faults.models import DIVERGENCE, Fault
from riprap.graph.keys import KeyShape
from riprap.operators.columns import ALL_VALID, keys_of
from riprap.operators.kernels.hashing import hash_words

_FRACTION_BITS, _WHOLE_BITS = 52, 32


def alterable(schema: pa.Schema, grouped: frozenset[str]) -> tuple[str, ...]:
    """Columns that a fault may alter: doubles and 64-bit whole numbers that nothing groups by."""
    return tuple(
        field.name for field in schema if field.type in (pa.float64(), pa.int64()) and field.name not in grouped
    )


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
    result: float = _flipped(array, np.array([True]), np.array([bit], np.uint64))[0].item()
    return result


def _flipped_text(text: str, bit: int) -> str:
    """One of the lower five bits of one ASCII character: it stays one."""
    places = [place for place, character in enumerate(text) if character.isascii()]
    if not places:
        return text
    place = places[bit % len(places)]
    return text[:place] + chr(ord(text[place]) ^ (1 << (bit // len(places) % 5))) + text[place + 1 :]


def chance_of(batch: pa.RecordBatch, shape: KeyShape, row: int, seed: int) -> int:
    """A random number that follows from the seed and the order key of a row."""
    return int(_chance(batch.slice(row, 1), shape, seed)[0])


def altered(batch: pa.RecordBatch, shape: KeyShape, rows: np.ndarray, fault: Fault) -> pa.RecordBatch:
    """The batch with wrong values in the rows that the mask names."""
    names = [name for name in batch.schema.names if name in fault.columns]
    if not names:
        return batch
    chance = _chance(batch, shape, fault.seed)
    for number, name in enumerate(names):
        at = batch.schema.get_field_index(name)
        column = batch.column(at)
        values = column.fill_null(0).to_numpy(zero_copy_only=False).copy()
        if fault.kind == "corrupt":
            hit = rows & (chance % np.uint64(len(names)) == number)
            values = _flipped(values, hit, chance // np.uint64(len(names)))
        else:
            share = (chance ^ np.uint64(derived_seed(number, name))).astype(np.float64) / 2.0**63 - 1.0
            off = np.where(rows, 1.0 + DIVERGENCE * share, 1.0)
            values = values * off if values.dtype == np.float64 else np.rint(values * off).astype(np.int64)
        missing = column.is_null().to_numpy(zero_copy_only=False)
        array = pa.array(values, column.type, mask=missing if missing.any() else None)
        batch = batch.set_column(at, batch.schema.field(at), array)
    return batch


def _chance(batch: pa.RecordBatch, shape: KeyShape, seed: int) -> np.ndarray:
    """A random 64-bit number per row that follows from the seed and the order key."""
    keys = keys_of(batch, shape)
    chance = np.full(batch.num_rows, derived_seed(seed, "alteration"), np.uint64)
    for part in (keys.src, keys.seq, keys.n):
        hash_words(np.ascontiguousarray(np.broadcast_to(part, batch.num_rows)), ALL_VALID, chance)
    return chance


def _flipped(values: np.ndarray, hit: np.ndarray, chance: np.ndarray) -> np.ndarray:
    bits = _FRACTION_BITS if values.dtype == np.float64 else _WHOLE_BITS
    flip = np.where(hit, np.uint64(1) << (chance % np.uint64(bits)), np.uint64(0))
    return (values.view(np.uint64) ^ flip).view(values.dtype)
