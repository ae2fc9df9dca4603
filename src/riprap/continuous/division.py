"""Another number of shards: new ones take over the windows of old ones from the records of all of them.

Rows are divided over shards by a hash of their key (`hash % shards`), so with another number of shards a group may have
another owner, and each old shard died at a cut of its own. So a new shard reads the records of every old one, takes the
windows that are its own now (`share`), and has one operator for each old shard (`Heir`). Each of those repeats what its
old shard was given since what that had not saved: up to the old cut it puts in what its windows lack and gives nothing
out, because the old shard did; behind it, it takes the rows that are its own now, and gives out what they cause. When
all of them have come to one key, past every old cut, they have had all rows up to it, and are put together (`gather`):
no group is in two of them. From there on the new shard goes on alone.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from riprap.base.errors import DataError
from riprap.continuous.recovery import Recovery, only
from riprap.operators.contract import Channel, Emission, Punctuation, State, merge_states
from riprap.operators.groups import GroupTable
from riprap.operators.hashes import HashNumbers
from riprap.operators.strings import StringPool
from riprap.operators.windowed import WindowedOperator


def share(recovery: Recovery, shard: int, shards: int) -> Recovery:
    """What a recovery says of the groups that one of so many shards owns."""
    hashes = recovery.windows.hashes[: recovery.windows.count]
    chosen = np.flatnonzero(_owned(hashes, shard, shards))
    windows = HashNumbers()
    windows.add(hashes[chosen])
    parts = [
        {
            port: only(tables, _owned(tables[0].column("_hash").to_numpy(), shard, shards))
            for port, tables in part.items()
        }
        for part in recovery.parts
    ]
    return replace(
        recovery,
        totals=replace(recovery.totals, open=len(chosen)),
        windows=windows,
        start=recovery.start[:, chosen],
        at=recovery.at[:, chosen],
        bare=recovery.bare[chosen],
        boundary=recovery.boundary[chosen],
        origin=recovery.origin[chosen],
        parts=tuple(parts),
    )


class Heir:
    """What one new shard takes over from one old one. `operator` is fresh; `by` has, by port, the columns that rows are
    divided by. `recovery` is that of the old shard; None: it had recorded nothing, and is repeated from the start."""

    def __init__(
        self,
        operator: WindowedOperator,
        by: Sequence[Sequence[str]],
        recovery: Recovery | None,
        shard: int,
        shards: int,
    ) -> None:
        self.operator, self._shard, self._shards = operator, shard, shards
        self._by, self._tables = by, [
            GroupTable([schema.field(name).type for name in names], StringPool())
            for schema, names in zip(operator.setting.schemas, by, strict=True)
        ]  # fmt: skip
        if recovery is not None:
            own = share(recovery, shard, shards)
            own.load(operator)
            operator.repeat(own.past)

    def process(self, batches: Sequence[pa.RecordBatch], ports: np.ndarray) -> list[Emission]:
        """Rows that the old shard was given, or would have been: a batch for each port, and the port of each row in the
        order in which they come."""
        masks = [self._taken(port, batch) for port, batch in enumerate(batches)]
        batches = [
            batch if mask.all() else batch.filter(pa.array(mask)) for batch, mask in zip(batches, masks, strict=True)
        ]
        if len(batches) == 1:
            return self.operator.process(Channel(0), batches[0]) if batches[0].num_rows else []
        kept = np.empty(len(ports), bool)
        for port, mask in enumerate(masks):
            kept[ports == port] = mask
        return self.operator.process_merged(batches, ports[kept])

    def _taken(self, port: int, batch: pa.RecordBatch) -> np.ndarray:
        """Rows of the past, which are counted, and those that are its own."""
        groups = self._tables[port].groups([batch.column(name) for name in self._by[port]])
        own = _owned(self._tables[port].hashes[groups], self._shard, self._shards)
        repetition = self.operator.repetition
        if repetition is not None and not repetition.over:
            own[: repetition.left(port)] = True
        return own

    def punctuate(self, port: int, punctuation: Punctuation) -> list[Emission]:
        return self.operator.punctuate(Channel(port), punctuation)


def gather(heirs: Sequence[Heir]) -> State:
    """The state of the new shard, when all of its heirs have come to one key."""
    if any(heir.operator.repeating for heir in heirs):
        raise DataError("an old shard had come further than its input is there for: wait for more of it")
    return merge_states([heir.operator.snapshot() for heir in heirs])


def _owned(hashes: np.ndarray, shard: int, shards: int) -> np.ndarray:
    return hashes % np.uint64(shards) == np.uint64(shard)
