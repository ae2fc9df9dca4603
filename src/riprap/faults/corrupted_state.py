"""Flips a bit in an operator's state: in a stored tuple of the same group as an arriving tuple.

It takes a snapshot of the state, alters one attribute of one tuple and restores it. So it works for every operator with
windows, and alters exactly what a checkpoint would have saved. Grouping keys are not altered: a window with a wrong key
could not be told from another group's.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from riprap.graph.specs import Aggregate, DropDuplicates, Join, Scan, StatefulPython
from riprap.operators.contract import Operator
from riprap.operators.flipping import corrupted, corruptible
from riprap.operators.groups import GroupTable
from riprap.operators.strings import StringPool
from riprap.operators.windowed import WindowedOperator


def corrupt_state(operator: Operator, port: int, arriving: pa.RecordBatch, chance: int) -> bool:
    """Flips a bit in the state for the group of a tuple that arrives on a port; False if there is no such state."""
    group = _group(operator, port, arriving)
    if group is None:
        return False
    state = operator.snapshot()
    candidates = []  # table, and its rows of the group
    for name, keys in state.tables.items():
        if name.endswith(".keys"):
            counts = keys.column("_rows").to_numpy()
            ends = np.cumsum(counts)
            for place in np.flatnonzero(keys.column("_hash").to_numpy() == np.uint64(group)):
                candidates += [
                    (name.removesuffix("keys") + "rows", row) for row in range(ends[place] - counts[place], ends[place])
                ]
    if not candidates:
        return False
    table, row = candidates[chance % len(candidates)]
    rows = state.tables[table]
    wrong, altered = corrupted(rows, int(row), corruptible(rows.schema), chance // len(candidates))
    if altered is None:
        return False
    version = operator.version
    operator.restore([replace(state, tables={**state.tables, table: wrong})])
    operator.version = version
    return True


def _group(operator: Operator, port: int, arriving: pa.RecordBatch) -> int | None:
    """The hash of the group of a tuple; None if the operator has no windows or the tuple no group."""
    if not isinstance(operator, WindowedOperator):
        return None
    spec = operator.setting.spec
    names: tuple[str, ...] = ()
    if isinstance(spec, Aggregate | DropDuplicates | Scan | StatefulPython):
        names = spec.by
    elif isinstance(spec, Join):
        names = tuple(pair[port] for pair in spec.on)
        if any(arriving.column(name).null_count for name in names):
            return None
    if not names:
        return int(GroupTable((), StringPool()).hashes[0])
    schema = operator.setting.schemas[port]
    table = GroupTable([schema.field(name).type for name in names], StringPool())
    group = table.groups([arriving.column(name) for name in names])[0]  # adds the group, so that it has a hash
    return int(table.hashes[group])
