"""Trials: one run with one fault, as a difference to the golden run with the same jitter.

`rerun` runs the rewritten graph over the whole stream. It is slow, and the reference in a property test.

`replay` starts from the golden state at the start of the outage. In an app that is partitioned by key it replays only
the keys with tuples in the outage, and the keys that the fault put into tuples. A key is done when it has no tuple in
flight and the digests of its state equal the golden ones at the same cut: the rest of its output is the golden one. In
other apps all tuples are replayed until the whole state is golden again. State that never recovers is replayed to the
end of the stream.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from riprap.engine.engine import Engine
from riprap.engine.jitter import Jitter
from riprap.faults.gated import can_strike, still_striking, strike, trial_engine
from riprap.faults.golden import Golden, StateMark, checks_after, digests_of, mark, waiting_parts
from riprap.faults.injection import InjectedOperator, Ports, ports_of, with_fault
from riprap.faults.models import Fault
from riprap.faults.recording import Recording
from riprap.faults.trial_outputs import Difference, OutputRows, SinkReader, difference, joined
from riprap.graph.graph import Graph
from riprap.graph.order_keys import OrderKey
from riprap.graph.specs import Sink
from riprap.operators.columns import Keys
from riprap.operators.kernels.selecting import by_part, rows_within

CHEAPER_THAN_CHECKS = 20_000  # tuples: with fewer left, running to the end is faster than checking


@dataclass(frozen=True)
class TrialContext:
    """Everything that trials with one jitter share."""

    graph: Graph
    recording: Recording
    readers: Sequence[SinkReader]
    jitter: Jitter | None
    golden: Golden
    divided: bool
    _apart: dict[tuple[tuple[tuple[str, frozenset[int]], ...], str], Engine] = field(
        default_factory=dict, compare=False
    )
    _images: dict[int, dict[str, Any]] = field(default_factory=dict, compare=False)  # of the last start

    def engine(self, targets: Ports, fault: Fault, start: int) -> Engine:
        """An engine in which these targets fail, in the golden state at `start`. Making one takes much of a trial's
        time, so all faults that gates can inject share one; other faults reuse the last one for the same targets."""
        engine, key = self._gated, (tuple(targets.items()), fault.kind)
        if not can_strike(engine, targets, fault):
            if key not in self._apart:
                self._apart.clear()
                graph = with_fault(self.graph, targets, fault)
                self._apart[key] = Engine(graph, jitter=self.jitter, cut_everywhere=True)
            engine = self._apart[key]
        strike(self.graph, engine, targets, fault)
        state = self.golden.states[start]
        if engine is not self._gated:
            engine.restore(state)
        elif not engine.restore(state, self._images.get(start)) and fault.keeps_state:
            self._images.clear()
            self._images[start] = engine.images()
        return engine

    @cached_property
    def _gated(self) -> Engine:
        return trial_engine(self.graph, self.jitter)

    @cached_property
    def by_part(self) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
        """For each sink, golden output rows by part, and the start of each part."""
        index = {}
        for sink, rows in self.golden.rows.items():
            index[sink] = by_part(self.recording.parts_of(rows.position), self.recording.parts)
        return index

    def position_of(self, key: OrderKey) -> int:
        """The first position at or after a key."""
        keys = Keys(*(np.array([part], np.int64) for part in key))
        if key.ts < 0:
            return 0
        return int(self.recording.positions_of(keys)[0])


def rerun(context: TrialContext, targets: Ports | Sequence[str], fault: Fault) -> dict[str, Difference]:
    """By sink: runs the rewritten graph over the whole stream."""
    struck, silenced = _struck(context, targets)
    engine = Engine(with_fault(context.graph, struck, fault), jitter=context.jitter, cut_everywhere=True)
    outputs = list(context.recording.feed(engine, 0, context.recording.tuples))
    result = {}
    for reader in context.readers:
        golden, rows = context.golden.rows[reader.sink], reader.read(outputs)
        if reader.sink in silenced:
            rows = _outside(rows, context.position_of(fault.start), context.position_of(fault.end))
        result[reader.sink] = difference(golden, np.arange(golden.size), rows)
    return result


def _struck(context: TrialContext, targets: Ports | Sequence[str]) -> tuple[Ports, frozenset[str]]:
    """The ports of operators that a fault strikes, and the sinks that it keeps output from."""
    ports = ports_of(context.graph, targets)
    silenced = frozenset(name for name in ports if isinstance(context.graph[name], Sink)) if ports is targets else ()
    return {name: struck for name, struck in ports.items() if name not in silenced}, frozenset(silenced)


def _outside(rows: OutputRows, start: int, end: int) -> OutputRows:
    """The rows that do not come from source tuples in [start, end)."""
    return rows.rows(np.flatnonzero((rows.position < start) | (rows.position >= end)))


def replay(context: TrialContext, targets: Ports | Sequence[str], fault: Fault) -> dict[str, Difference]:
    """By sink: runs from the golden state at the start until the effect of the fault ends."""
    recording, (struck, silenced) = context.recording, _struck(context, targets)
    over = context.position_of(fault.end)
    start = context.position_of(fault.start if fault.loses_state else fault.restored)
    anchor = context.position_of(fault.start)
    checks = [cut for cut in checks_after(anchor, recording.tuples) if cut > over]
    remaining = _affected_parts(context, struck, fault, start, over, checks)
    engine = context.engine(struck, fault, start)
    chosen = np.zeros(recording.parts, bool)
    chosen[remaining] = True
    seen: dict[str, list[OutputRows]] = {reader.sink: [reader.read([])] for reader in context.readers}
    among: dict[str, list[np.ndarray]] = {reader.sink: [] for reader in context.readers}
    at = start
    cuts = [*checks, recording.tuples]
    while len(remaining):
        cut = cuts.pop(0)
        if context.divided and recording.rows_left(remaining, at) < CHEAPER_THAN_CHECKS:
            cut = recording.tuples
        outputs = list(recording.feed(engine, at, cut, remaining if context.divided else None))
        for reader in context.readers:
            rows = reader.read(outputs)
            if reader.sink in silenced:
                rows = _outside(rows, anchor, over)
            if context.divided and rows.size:
                rows = rows.rows(np.flatnonzero(chosen[recording.parts_of(rows.position)]))
            seen[reader.sink].append(rows)
        done = remaining
        if cut < recording.tuples:
            striking = still_striking(engine, struck, fault)
            done = remaining[:0] if striking else _recovered(context, engine, context.golden.marks[cut], remaining)
        if len(done):
            for reader in context.readers:
                among[reader.sink].append(_golden_rows(context, reader.sink, done, start, cut))
            chosen[done] = False
            remaining = np.flatnonzero(chosen)
        at = cut
    result = {}
    for sink, parts in seen.items():
        compared = np.sort(np.concatenate([np.empty(0, np.int64), *among[sink]]))
        result[sink] = difference(context.golden.rows[sink], compared, joined(parts))
    return result


def _affected_parts(
    context: TrialContext, targets: Ports, fault: Fault, start: int, over: int, checks: Sequence[int]
) -> np.ndarray:
    """Parts that the fault can affect: those with tuples in the outage, and those whose keys it put into tuples; all if
    state is lost."""
    if not context.divided or fault.loses_state:
        return np.arange(context.recording.parts)
    affected = np.zeros(context.recording.parts, bool)
    for source in context.recording.sources:
        affected[source.part[slice(*np.searchsorted(source.position, (start, over)))]] = True
    if fault.keys:
        affected |= np.isin(
            context.recording.hashes, _moved(context, targets, fault, start, checks, np.flatnonzero(affected))
        )
    return np.flatnonzero(affected)


def _moved(
    context: TrialContext, targets: Ports, fault: Fault, start: int, checks: Sequence[int], parts: np.ndarray
) -> np.ndarray:
    """Hashes of the keys that the fault puts into tuples, from injecting it."""
    engine = context.engine(targets, fault, start)
    at = start
    for cut in [*checks, context.recording.tuples]:
        for _ in context.recording.feed(engine, at, cut, parts):
            pass
        at = cut
        if not still_striking(engine, targets, fault):
            break
    struck = [operator for operator in engine.operators.values() if isinstance(operator, InjectedOperator)]
    return np.array([key for operator in struck for key in operator.moved], np.uint64)


def _recovered(context: TrialContext, engine: Engine, golden: StateMark, remaining: np.ndarray) -> np.ndarray:
    """The remaining parts whose state is golden again."""
    if not context.divided:
        return remaining if mark(engine, context.recording, divided=False).whole == golden.whole else remaining[:0]
    same = (digests_of(engine, context.recording.hashes[remaining]) == golden.digests[:, remaining]).all(axis=0)
    in_flight = np.zeros(context.recording.parts, bool)
    in_flight[golden.waiting] = True
    in_flight[waiting_parts(engine, context.recording)] = True
    return remaining[same & ~in_flight[remaining]]


def _golden_rows(context: TrialContext, sink: str, parts: np.ndarray, start: int, cut: int) -> np.ndarray:
    """Golden output of these parts between two cuts."""
    first, last = context.golden.emitted[start][sink], context.golden.emitted[cut][sink]
    if not context.divided:
        return np.arange(first, last)
    order, begins = context.by_part[sink]
    return rows_within(parts, order, begins, first, last)
