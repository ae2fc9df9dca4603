"""Which rows belong to one of several shards, by key hash (`kernels/hashing.py`)."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from riprap.operators.groups import GroupTable
from riprap.operators.strings import StringPool
from riprap.operators.views import Views


def owned(hashes: np.ndarray, shard: int, shards: int) -> np.ndarray:
    return hashes % np.uint64(shards) == np.uint64(shard)


class Owner:
    """One of `shards` shards; `by` are the columns by which the rows of a stream are sharded."""

    def __init__(self, by: Sequence[str], schema: pa.Schema, shard: int, shards: int) -> None:
        self._by, self._shard, self._shards = by, shard, shards
        self._groups = GroupTable([schema.field(name).type for name in by], StringPool())

    def owns(self, rows: Views) -> np.ndarray:
        """For each row whether it belongs to the shard."""
        groups = self._groups.groups([rows.column(name).array() for name in self._by])
        return owned(self._groups.hashes[groups], self._shard, self._shards)

    def own(self, rows: Views) -> Views | None:
        """The rows of the shard; None: there are none."""
        chosen = np.flatnonzero(self.owns(rows))
        if not len(chosen):
            return None
        return rows if len(chosen) == rows.rows else rows.take(chosen)
