"""Trials: one run with one fault, as a difference to the golden run with the same jitter.

`rerun` takes the rewritten graph through the whole stream: slow, and what the others are held equal to by a property
test.

`replay` begins at the golden state at the start of the outage. In an app that is divided by key it replays the keys
that have tuples in the outage, those that a tuple was given instead of its own, and no others; and a key is over as
soon as it has no tuple on its way and the digests of its state are the golden ones at the same cut; what follows is the
golden rest. In other apps everything is replayed, and the trial is over when the whole state is the golden one again.
State that never comes back is replayed to the end of the stream.
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
from riprap.faults.injection import InjectedOperator, with_fault
from riprap.faults.models import Fault
from riprap.faults.recording import Recording
from riprap.faults.trial_outputs import Difference, OutputRows, SinkReader, difference, joined
from riprap.graph.graph import Graph
from riprap.graph.order_keys import OrderKey
from riprap.operators.columns import Keys
from riprap.operators.kernels.selecting import by_part, rows_within

CHEAPER_THAN_CHECKS = 20_000  # tuples: with no more left, going on to the end takes less time than looking for an end


@dataclass(frozen=True)
class Bench:
    """Everything that the trials with one jitter have in common."""

    graph: Graph
    recording: Recording
    readers: Sequence[SinkReader]
    jitter: Jitter | None
    golden: Golden
    divided: bool
    _apart: dict[tuple[tuple[str, ...], str], Engine] = field(default_factory=dict, compare=False)
    _images: dict[int, dict[str, Any]] = field(default_factory=dict, compare=False)  # of the last start

    def engine(self, targets: Sequence[str], fault: Fault, start: int) -> Engine:
        """An engine in which these targets fail, at the golden state of a start. To make one takes as long as a good
        part of a trial: all faults that gates can do share one, others the last trial's where that was of the same
        targets."""
        engine, key = self._gated, (tuple(targets), fault.kind)
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
        """For each sink, golden output rows by part, and where each part begins."""
        index = {}
        for sink, rows in self.golden.rows.items():
            index[sink] = by_part(self.recording.parts_of(rows.position), self.recording.parts)
        return index

    def position_of(self, key: OrderKey) -> int:
        """The first position that does not come before a key."""
        keys = Keys(*(np.array([part], np.int64) for part in key))
        if key.ts < 0:
            return 0
        return int(self.recording.positions_of(keys)[0])


def rerun(bench: Bench, targets: Sequence[str], fault: Fault) -> dict[str, Difference]:
    """By sink: the whole stream through the rewritten graph."""
    engine = Engine(with_fault(bench.graph, targets, fault), jitter=bench.jitter, cut_everywhere=True)
    outputs = list(bench.recording.feed(engine, 0, bench.recording.tuples))
    result = {}
    for reader in bench.readers:
        golden = bench.golden.rows[reader.sink]
        result[reader.sink] = difference(golden, np.arange(golden.size), reader.read(outputs))
    return result


def replay(bench: Bench, targets: Sequence[str], fault: Fault) -> dict[str, Difference]:
    """By sink: from the golden state at the start on, as far as the fault reaches."""
    recording = bench.recording
    over = bench.position_of(fault.end)
    start = bench.position_of(fault.start if fault.loses_state else fault.restored)
    anchor = bench.position_of(fault.start)
    checks = [cut for cut in checks_after(anchor, recording.tuples) if cut > over]
    remaining = _touched(bench, targets, fault, start, over, checks)
    engine = bench.engine(targets, fault, start)
    chosen = np.zeros(recording.parts, bool)
    chosen[remaining] = True
    seen: dict[str, list[OutputRows]] = {reader.sink: [reader.read([])] for reader in bench.readers}
    among: dict[str, list[np.ndarray]] = {reader.sink: [] for reader in bench.readers}
    at = start
    cuts = [*checks, recording.tuples]
    while len(remaining):
        cut = cuts.pop(0)
        if bench.divided and recording.rows_left(remaining, at) < CHEAPER_THAN_CHECKS:
            cut = recording.tuples
        outputs = list(recording.feed(engine, at, cut, remaining if bench.divided else None))
        for reader in bench.readers:
            rows = reader.read(outputs)
            if bench.divided and rows.size:
                rows = rows.rows(np.flatnonzero(chosen[recording.parts_of(rows.position)]))
            seen[reader.sink].append(rows)
        done = remaining
        if cut < recording.tuples:
            struck = not still_striking(engine, targets, fault)
            done = _over(bench, engine, bench.golden.marks[cut], remaining) if struck else remaining[:0]
        if len(done):
            for reader in bench.readers:
                among[reader.sink].append(_golden_rows(bench, reader.sink, done, start, cut))
            chosen[done] = False
            remaining = np.flatnonzero(chosen)
        at = cut
    result = {}
    for sink, parts in seen.items():
        compared = np.sort(np.concatenate([np.empty(0, np.int64), *among[sink]]))
        result[sink] = difference(bench.golden.rows[sink], compared, joined(parts))
    return result


def _touched(
    bench: Bench, targets: Sequence[str], fault: Fault, start: int, over: int, checks: Sequence[int]
) -> np.ndarray:
    """Parts that the fault can touch: those with tuples in the outage, and of keys that it gave them; all where state
    is lost."""
    if not bench.divided or fault.loses_state:
        return np.arange(bench.recording.parts)
    touched = np.zeros(bench.recording.parts, bool)
    for source in bench.recording.sources:
        touched[source.part[slice(*np.searchsorted(source.position, (start, over)))]] = True
    if fault.keys:
        touched |= np.isin(
            bench.recording.hashes, _moved(bench, targets, fault, start, checks, np.flatnonzero(touched))
        )
    return np.flatnonzero(touched)


def _moved(
    bench: Bench, targets: Sequence[str], fault: Fault, start: int, checks: Sequence[int], parts: np.ndarray
) -> np.ndarray:
    """Hashes of the keys that the fault gives to tuples: it is let strike, to see."""
    engine = bench.engine(targets, fault, start)
    at = start
    for cut in [*checks, bench.recording.tuples]:
        for _ in bench.recording.feed(engine, at, cut, parts):
            pass
        at = cut
        if not still_striking(engine, targets, fault):
            break
    struck = [operator for operator in engine.operators.values() if isinstance(operator, InjectedOperator)]
    return np.array([key for operator in struck for key in operator.moved], np.uint64)


def _over(bench: Bench, engine: Engine, golden: StateMark, remaining: np.ndarray) -> np.ndarray:
    """Which of the remaining parts will go on as in the golden run."""
    if not bench.divided:
        return remaining if mark(engine, bench.recording, divided=False).whole == golden.whole else remaining[:0]
    same = (digests_of(engine, bench.recording.hashes[remaining]) == golden.digests[:, remaining]).all(axis=0)
    on_the_way = np.zeros(bench.recording.parts, bool)
    on_the_way[golden.waiting] = True
    on_the_way[waiting_parts(engine, bench.recording)] = True
    return remaining[same & ~on_the_way[remaining]]


def _golden_rows(bench: Bench, sink: str, parts: np.ndarray, start: int, cut: int) -> np.ndarray:
    """Golden output of these parts between two cuts."""
    first, last = bench.golden.emitted[start][sink], bench.golden.emitted[cut][sink]
    if not bench.divided:
        return np.arange(first, last)
    order, begins = bench.by_part[sink]
    return rows_within(parts, order, begins, first, last)
