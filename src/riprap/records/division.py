"""Another number of shards: new ones take over the windows of old ones from the records of all of them.

Rows are divided over shards by a hash of their key (`hash % shards`), so with another number of shards a group may have
another owner, and each old shard died at a cut of its own. So a new shard reads the records of every old one, takes the
windows that are its own now (`share`), and has one engine for each old shard (`Heir`). Each of those repeats what its
old shard was given since what that had not saved: up to the old cut it puts in what its windows lack and gives nothing
out, because the old shard did; behind it, it takes the rows that are its own now, and gives out what they cause. When
all of them have come to one key, past every old cut, they have had all rows up to it, and are put together (`gather`):
no group is in two of them. All windows that are open then are in one record (`founded`), the first of the new shard,
from which it goes on alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from riprap.base.errors import DataError
from riprap.engine.engine import Engine, Output
from riprap.engine.pruning import Wanted
from riprap.graph.graph import Graph
from riprap.graph.mark_keys import told_by_row
from riprap.graph.order_keys import OrderKey
from riprap.operators.build import make_operator
from riprap.operators.contract import OperatorState, merge_states
from riprap.operators.hashes import HashNumbers
from riprap.operators.ownership import Owner, owned
from riprap.operators.views import Views
from riprap.operators.windowed import WindowedOperator
from riprap.records.check_schedule import CheckPace
from riprap.records.record import encode
from riprap.records.recorder import Recorder
from riprap.records.recovery import RecordedState, only


def share(recovery: RecordedState, shard: int, shards: int) -> RecordedState:
    """What a recovery says of the groups that one of so many shards owns."""
    hashes = recovery.windows.hashes[: recovery.windows.count]
    chosen = np.flatnonzero(owned(hashes, shard, shards))
    windows = HashNumbers()
    windows.add(hashes[chosen])
    parts = [
        {
            port: only(tables, owned(tables[0].column("_hash").to_numpy(), shard, shards))
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


class Heir(Engine):
    """What one new shard takes over from one old one: an engine of the operator alone, which is given what the old
    shard was given, or would have been. `owners` say, by the operator's port, which rows are the new shard's own.
    `recovery` is that of the old shard; None: it had recorded nothing, and is repeated from the start."""

    def __init__(
        self,
        graph: Graph,
        name: str,
        owners: Sequence[Owner],
        recovery: RecordedState | None,
        *,
        wanted: Wanted | None = None,
    ) -> None:
        super().__init__(graph, [name], recorded=name, cut_everywhere=True, views=True, wanted=wanted)
        self._owners, self.operator = owners, cast(WindowedOperator, self.operators[name])
        self._past = np.zeros(len(owners), np.int64)  # rows of each port that the old shard had and that come again
        if recovery is not None:
            recovery.load(self.operator)
            self._past = recovery.cut.rows - recovery.unsaved.rows
            self.operator.repeat(recovery.past)

    def push(self, name: str, event: Any, *, until: OrderKey | None = None) -> list[Output]:
        """Rows of the past, all of which are counted, and of others its own."""
        rows = Views.of(event) if not isinstance(event, Views) else event
        _, port = self._entry(name)
        last = told_by_row(self._last_key(name, rows))
        until = last if until is None else max(until, last)
        past = min(rows.rows, int(self._past[port]))
        self._past[port] -= past
        if past < rows.rows:
            chosen = self._owners[port].owns(rows)
            chosen[:past] = True
            rows = rows.take(np.flatnonzero(chosen))
        return super().push(name, rows, until=until) if rows.rows else self.advance(name, until)


def gather(heirs: Iterable[Heir]) -> OperatorState:
    """The state of the new shard, when all of its heirs have come to one key."""
    operators = [heir.operator for heir in heirs]
    if any(operator.repeating for operator in operators):
        raise DataError("an old shard had come further than its input is there for: a part of it was deleted or lost")
    return merge_states([operator.snapshot() for operator in operators])


def founded(
    graph: Graph,
    name: str,
    state: OperatorState,
    key: OrderKey,
    numbers: Mapping[str, int],
    wanted: Wanted | None = None,
) -> bytes:
    """The first record of a new shard, with everything that is in its windows when its input has come to a key."""
    operator = cast(WindowedOperator, make_operator(graph, name, None if wanted is None else wanted[name]))
    operator.restore([state])
    groups = np.unique(np.concatenate([store.live() for store in operator.stores.values()]))
    tracker, nothing = operator.track(), np.zeros(len(groups), np.int64)
    tails = np.zeros((tracker.ports, len(groups)), np.int64)
    tracker.begin(0, groups, nothing - 1, nothing, tails, nothing)
    tracker.now = key.ts
    recorder = Recorder(operator, CheckPace(1, 1, max(1, len(groups))))
    return encode(recorder.record(key, numbers, everything=True))
