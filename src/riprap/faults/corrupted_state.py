"""A wrong bit in an operator's state: in one of the tuples that it has for the group of a tuple that arrives.

The state is taken as a snapshot, one attribute of one tuple in it is altered, and it is put back: so every operator
with windows can be struck, and what is wrong is what a checkpoint would have saved. Keys of groups stay: under a wrong
one a window could not be told from another's.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from riprap.graph.specs import Aggregate, Join, Scan
from riprap.operators.contract import Operator
from riprap.operators.flipping import corrupted, corruptible
from riprap.operators.groups import GroupTable
from riprap.operators.row_store import STAMP
from riprap.operators.strings import StringPool
from riprap.operators.windowed import WindowedOperator


def corrupt_state(operator: Operator, port: int, arriving: pa.RecordBatch, chance: int) -> bool:
    """Flip a bit in the state that a tuple, which arrives on a port, finds; False if there is none to flip."""
    group = _group(operator, port, arriving)
    if group is None:
        return False
    state = operator.snapshot()
    found = []  # table, and its rows of the group
    for name, keys in state.tables.items():
        if name.endswith(".keys"):
            counts = keys.column("_rows").to_numpy()
            ends = np.cumsum(counts)
            for place in np.flatnonzero(keys.column("_hash").to_numpy() == np.uint64(group)):
                found += [
                    (name.removesuffix("keys") + "rows", row) for row in range(ends[place] - counts[place], ends[place])
                ]
    if not found:
        return False
    table, row = found[chance % len(found)]
    rows = state.tables[table]
    names = [name for name in corruptible(rows.schema) if name != STAMP]
    wrong, altered = corrupted(rows, int(row), names, chance // len(found))
    if altered is None:
        return False
    version = operator.version
    operator.restore([replace(state, tables={**state.tables, table: wrong})])
    operator.version = version
    return True


def _group(operator: Operator, port: int, arriving: pa.RecordBatch) -> int | None:
    """The hash of the group of a tuple; None where the operator has no windows, or the tuple no group."""
    if not isinstance(operator, WindowedOperator):
        return None
    spec = operator.setting.spec
    names: tuple[str, ...] = ()
    if isinstance(spec, Aggregate | Scan):
        names = spec.by
    elif isinstance(spec, Join):
        names = tuple(pair[port] for pair in spec.on)
        if any(arriving.column(name).null_count for name in names):
            return None
    if not names:
        return int(GroupTable((), StringPool()).hashes[0])
    schema = operator.setting.schemas[port]
    table = GroupTable([schema.field(name).type for name in names], StringPool())
    group = table.groups([arriving.column(name) for name in names])[0]  # before its hash is asked for
    return int(table.hashes[group])
