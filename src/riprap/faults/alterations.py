"""Wrong values: how divergence and corruption alter attributes. Pure functions of seed and order key."""

import numpy as np
import pyarrow as pa

from riprap.base.randomness import derived_seed
from riprap.faults.models import DIVERGENCE, Fault
from riprap.graph.order_keys import KeyShape
from riprap.operators.columns import keys_of
from riprap.operators.kernels.altering import FLIPPED, OFF, alter_floats, alter_whole, chances_at
from riprap.operators.step_gate import Wrong


def alterable(schema: pa.Schema, grouped: frozenset[str]) -> tuple[str, ...]:
    """Columns that a fault may alter: doubles and 64-bit integers that are not grouping keys."""
    return tuple(
        field.name for field in schema if field.type in (pa.float64(), pa.int64()) and field.name not in grouped
    )


def chance_of(batch: pa.RecordBatch, shape: KeyShape, row: int, seed: int) -> int:
    """A random number, derived from the seed and the order key of a row."""
    return int(_chance(batch.slice(row, 1), shape, _seed(seed))[0])


def wrong_values(fault: Fault, names: list[str]) -> Wrong:
    """How the fault alters values of these columns of a stream."""
    struck = [name for name in names if name in fault.columns]
    salts = {name: derived_seed(number, name) for number, name in enumerate(struck)}
    return Wrong(FLIPPED if fault.kind == "corrupt" else OFF, _seed(fault.seed), round(DIVERGENCE * 1_000_000), salts)


def altered(batch: pa.RecordBatch, shape: KeyShape, rows: np.ndarray, fault: Fault) -> pa.RecordBatch:
    """The batch with wrong values in the masked rows."""
    wrong = wrong_values(fault, batch.schema.names)
    if not wrong.salts:
        return batch
    chance = _chance(batch, shape, wrong.seed)
    for number, (name, salt) in enumerate(wrong.salts.items()):
        at = batch.schema.get_field_index(name)
        column = batch.column(at)
        values = column.fill_null(0).to_numpy(zero_copy_only=False).copy()
        alter = alter_floats if values.dtype == np.float64 else alter_whole
        alter(values, rows, wrong.how, chance, wrong.parts, len(wrong.salts), number, np.uint64(salt))
        missing = column.is_null().to_numpy(zero_copy_only=False)
        array = pa.array(values, column.type, mask=missing if missing.any() else None)
        batch = batch.set_column(at, batch.schema.field(at), array)
    return batch


def _seed(seed: int) -> int:
    return derived_seed(seed, "alteration")


def _chance(batch: pa.RecordBatch, shape: KeyShape, seed: int) -> np.ndarray:
    """A random 64-bit number per row, derived from the seed and the order key."""
    keys, count = keys_of(batch, shape), batch.num_rows
    parts = [np.ascontiguousarray(np.broadcast_to(part, count)) for part in (keys.src, keys.seq, keys.n)]
    return np.asarray(chances_at(np.uint64(seed), *parts))
