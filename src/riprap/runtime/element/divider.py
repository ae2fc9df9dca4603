"""Partitions a stream over shards, by a hash of the key that is the same in every process."""

import numpy as np
import pyarrow as pa

from riprap.graph.order_keys import SEQ
from riprap.operators.groups import GroupTable
from riprap.operators.strings import StringPool
from riprap.operators.views import Views


class Divider:
    """Partitions the rows of one stream over shards by some of its columns."""

    def __init__(self, by: tuple[str, ...], schema: pa.Schema, shards: int) -> None:
        self._by, self._shards = by, shards
        self._groups = GroupTable([schema.field(name).type for name in by], StringPool())

    def divide(self, views: Views) -> list[Views]:
        """The rows of each shard, in order."""
        if self._by == (SEQ,):
            shard = views.column(SEQ).values % self._shards
        else:
            groups = self._groups.groups([views.column(name).array() for name in self._by])
            shard = (self._groups.hashes[groups] % np.uint64(self._shards)).astype(np.int64)
        parts = [np.flatnonzero(shard == index) for index in range(self._shards)]
        return [views if len(rows) == views.rows else views.take(rows) for rows in parts]
