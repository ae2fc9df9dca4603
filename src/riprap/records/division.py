"""Changes the number of shards: new shards take over the windows of old ones from the records of all of them.

Rows are divided over shards by a hash of their key (`hash % shards`), so a different number of shards can move a group
to another shard, and each old shard died at a different cut. A new shard reads the records of every old one, selects
the windows that it owns now (`share`), and runs one engine per old shard (`TakeoverEngine`). Each engine replays the
input of its old shard from *unsaved* on. Up to the old cut it completes its windows and emits nothing, because the old
shard already did; after the cut it processes only the rows that the new shard owns, and emits. When all engines have
reached one key after every old cut, their states are combined (`gather`): no group is in two of them. One record
(`founding_record`) with all windows that are open then is the first of the new shard, which continues from it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from riprap.base.errors import DataError
from riprap.engine.engine import Engine, Output
from riprap.engine.pruning import Wanted
from riprap.graph.graph import Graph
from riprap.graph.mark_keys import watermark_of_row
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
    """The part of a recovered state that one of `shards` shards owns."""
    hashes = recovery.windows.hashes[: recovery.windows.count]
    selected = np.flatnonzero(owned(hashes, shard, shards))
    windows = HashNumbers()
    windows.add(hashes[selected])
    parts = [
        {
            port: only(tables, owned(tables[0].column("_hash").to_numpy(), shard, shards))
            for port, tables in part.items()
        }
        for part in recovery.parts
    ]
    return replace(
        recovery,
        totals=replace(recovery.totals, open=len(selected)),
        windows=windows,
        start=recovery.start[:, selected],
        at=recovery.at[:, selected],
        bare=recovery.bare[selected],
        boundary=recovery.boundary[selected],
        origin=recovery.origin[selected],
        parts=tuple(parts),
    )


class TakeoverEngine(Engine):
    """The engine with which a new shard takes over from one old shard. It runs only the operator, on the input of the
    old shard. `owners`: by port of the operator, which rows the new shard owns. `recovery`: of the old shard; None: it
    recorded nothing, and its input is replayed from the start."""

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
        self._past = np.zeros(len(owners), np.int64)  # by port: rows that the old shard processed and that are replayed
        if recovery is not None:
            recovery.load(self.operator)
            self._past = recovery.cut.rows - recovery.unsaved.rows
            self.operator.repeat(recovery.past)

    def push(self, name: str, event: Any, *, until: OrderKey | None = None) -> list[Output]:
        """Push all replayed rows, and of the others those that the new shard owns."""
        rows = Views.of(event) if not isinstance(event, Views) else event
        _, port = self._entry(name)
        last = watermark_of_row(self._last_key(name, rows))
        until = last if until is None else max(until, last)
        past = min(rows.rows, int(self._past[port]))
        self._past[port] -= past
        if past < rows.rows:
            selected = self._owners[port].owns(rows)
            selected[:past] = True
            rows = rows.take(np.flatnonzero(selected))
        return super().push(name, rows, until=until) if rows.rows else self.advance(name, until)


def gather(heirs: Iterable[TakeoverEngine]) -> OperatorState:
    """The state of the new shard, when all of its heirs have reached one key."""
    operators = [heir.operator for heir in heirs]
    if any(operator.repeating for operator in operators):
        raise DataError("an old shard had processed more input than exists now: a part of it was deleted or lost")
    return merge_states([operator.snapshot() for operator in operators])


def founding_record(
    graph: Graph,
    name: str,
    state: OperatorState,
    key: OrderKey,
    numbers: Mapping[str, int],
    wanted: Wanted | None = None,
) -> bytes:
    """The first record of a new shard, with the contents of all its windows when its input has reached `key`."""
    operator = cast(WindowedOperator, make_operator(graph, name, None if wanted is None else wanted[name]))
    operator.restore([state])
    groups = np.unique(np.concatenate([store.live() for store in operator.stores.values()]))
    tracker, nothing = operator.track(), np.zeros(len(groups), np.int64)
    tails = np.zeros((tracker.ports, len(groups)), np.int64)
    tracker.begin(0, groups, nothing - 1, nothing, tails, nothing)
    tracker.now = key.ts
    recorder = Recorder(operator, CheckPace(1, 1, max(1, len(groups))))
    return encode(recorder.record(key, numbers, everything=True))
