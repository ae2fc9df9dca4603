"""Wrong values: what a divergence and a corruption do to attributes. Pure functions of seed and order key."""

import numpy as np
import pyarrow as pa

from riprap.base.randomness import derived_seed
from riprap.faults.models import DIVERGENCE, Fault
from riprap.graph.keys import KeyShape
from riprap.operators.columns import ALL_VALID, keys_of
from riprap.operators.flipping import flipped
from riprap.operators.kernels.hashing import hash_words


def alterable(schema: pa.Schema, grouped: frozenset[str]) -> tuple[str, ...]:
    """Columns that a fault may alter: doubles and 64-bit whole numbers that nothing groups by."""
    return tuple(
        field.name for field in schema if field.type in (pa.float64(), pa.int64()) and field.name not in grouped
    )


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
            values = flipped(values, hit, chance // np.uint64(len(names)))
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
