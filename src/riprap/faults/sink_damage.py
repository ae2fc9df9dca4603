"""What a failure does to the rows of each sink: `AssessedEffects`, from trials over a recorded stream.

A trial loses an operator's input for an outage, and leaves its state current, as old as a checkpoint, or lost. Rows are
counted in the window of the sink after the failure. A sink that fails misses its rows of the outage. The offsets are
spread over the middle of the stream, so that state has built up before the first one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from riprap.base.errors import UsageError
from riprap.base.quantities import LONGEST, Duration
from riprap.engine.inputs import read_file
from riprap.faults.divided import dividing_columns, runs_by_key
from riprap.faults.golden import golden_run
from riprap.faults.harm_ranks import SECTIONS, HarmRanks, HarmTrial, harm_metrics, ranked
from riprap.faults.models import Fault
from riprap.faults.recording import Recording, load, record
from riprap.faults.score_functions import ScoreFunction
from riprap.faults.scoring import Score, default_score, parse_score
from riprap.faults.sealed import sound
from riprap.faults.trial_outputs import Difference, applied, difference, sink_reader
from riprap.faults.trials import TrialContext, replay
from riprap.graph.graph import Graph
from riprap.graph.order_keys import START_KEY
from riprap.graph.specs import Sink

LOST, CURRENT = Duration(-1), Duration(0)  # ages of state
_PPM = 1_000_000
_SETTLED = 0.95  # damage that lasts beyond this share of the rest of the stream may last for ever
_FIRST, _LAST = 0.25, 0.75  # offsets, as shares of the stream's time
_LEVELS = (0.05, 0.5, 0.95)

Damage = tuple[int, int, int]  # parts per million of the rows, microseconds, parts per million of the score
Levels = tuple[Damage, Damage, Damage]
# By operator, age of its state and outage: the damage at each sink.
DamageTable = dict[str, dict[Duration, list[tuple[Duration, dict[str, Levels]]]]]
Tell = Callable[[int, int], None]


@dataclass(frozen=True)
class DamageSettings:
    outages: Sequence[Duration]  # of event time
    ages: Sequence[Duration]  # of state, in event time; without lost and current state
    windows: Mapping[str, Duration]  # by sink: in which rows are counted
    offsets: int = 6
    scores: Mapping[str, Score] | None = None  # by sink, of the user


def sink_damage(
    graph: Graph, inputs: Mapping[str, Path], settings: DamageSettings, path: Path, *,
    functions: Mapping[str, ScoreFunction] | None = None, tell: Tell = lambda done, total: None,
) -> tuple[DamageTable, dict[str, str], HarmRanks]:  # fmt: skip
    """The damage table; why operators could not be assessed; and the ranks of the others.

    `path`: where the recorded stream is stored.
    """
    if not sound(path):
        files = {name: read_file(file) for name, file in inputs.items()}
        record(graph, files, dividing_columns(graph), path)
    recording = load(graph, path)
    scores = dict(settings.scores or {})
    for name, function in (functions or {}).items():
        scores[name] = parse_score("", graph.input_schemas(name)[0], name, function)
    readers = []
    for spec in graph.sinks:
        schema = graph.input_schemas(spec.name)[0]
        score = scores.get(spec.name) or parse_score(default_score(schema), schema, spec.name)
        readers.append(sink_reader(graph, spec.name, score, recording))
    plan = _Trials(graph, recording, settings)
    divided = runs_by_key(graph, "loss")
    golden = golden_run(graph, recording, readers, None, plan.starts(), divided=divided)
    context = TrialContext(graph, recording, readers, None, golden, divided)
    counted = _Counted(context, settings.windows)
    table: DamageTable = {}
    unknown: dict[str, str] = {}
    wrong: dict[str, list[int]] = {}  # by operator: of each offset, without protection, after the longest outage
    trials: dict[tuple[str, str], list[list[HarmTrial]]] = {}
    total, done = len(graph.order) * len(plan.offsets), 0
    for name in graph.order:
        try:
            rows: dict[tuple[Duration, Duration], dict[str, list[Damage]]] = {}
            for at in plan.offsets:
                bare: list[dict[str, HarmTrial]] = []
                for age, outage, fault in plan.faults(name, at):
                    found = counted.missed(name, at, outage) if fault is None else counted.trial(name, fault, at)
                    if age == (LOST if any(graph[name].stateful) else CURRENT):
                        worst = max((hurt[0] for hurt in found.values()), default=0)
                        if outage == max(settings.outages):
                            wrong.setdefault(name, []).append(worst)
                        bare += [counted.scored] if fault is not None else []
                    kept = rows.setdefault((age, outage), {})
                    for sink, hurt in found.items():
                        kept.setdefault(sink, []).append(hurt)
                for sink in bare[0] if bare else ():
                    trials.setdefault((name, sink), []).append([one[sink] for one in bare])
                done += 1
                tell(done, total)
        except UsageError:  # of a score
            raise
        except Exception as error:  # a trial may fail in a user's operator
            unknown[name] = str(error) or type(error).__name__
            wrong.pop(name, None)
            trials = {key: rows for key, rows in trials.items() if key[0] != name}
            continue
        for (age, outage), by_sink in sorted(rows.items()):
            levels = {sink: _levels(values) for sink, values in by_sink.items()}
            table.setdefault(name, {}).setdefault(age, []).append((outage, levels))
    names = [name for name in graph.order if name in wrong]
    samples = np.array([wrong[name] for name in names], float).reshape(len(names), len(plan.offsets))
    ranks = ranked(samples, lambda drawn: drawn.mean(axis=1), "rows wrong")
    windows = {sink: int(window) for sink, window in settings.windows.items()}
    return table, unknown, HarmRanks(dict(zip(names, ranks, strict=True)), harm_metrics(trials, windows))


class _Trials:
    """Which faults are tried."""

    def __init__(self, graph: Graph, recording: Recording, settings: DamageSettings) -> None:
        self.graph, self.recording, self.settings = graph, recording, settings
        first, last = int(recording.time[0]), int(recording.time[-1])
        shares = np.linspace(_FIRST, _LAST, max(settings.offsets, 1))
        self.offsets = sorted({self._position(first + int(share * (last - first))) for share in shares})

    def _position(self, time: int) -> int:
        found = int(np.searchsorted(self.recording.time, time))
        return min(max(found, 0), self.recording.tuples - 2)

    def _restored(self, at: int, age: Duration) -> int:
        return self._position(int(self.recording.time[at]) - age)

    def starts(self) -> list[int]:
        ages = (CURRENT, *self.settings.ages)
        return sorted({self._restored(at, age) for at in self.offsets for age in ages} | {*self.offsets})

    def faults(self, name: str, at: int) -> list[tuple[Duration, Duration, Fault | None]]:
        """Age, outage and fault; no fault: a sink, which has neither trials nor state."""
        key, found = self.recording.key_at(at), list[tuple[Duration, Duration, Fault | None]]()
        spec = self.graph[name]
        for outage in self.settings.outages:
            if isinstance(spec, Sink):
                found.append((CURRENT, outage, None))
                continue
            end = max(self._position(int(self.recording.time[at]) + outage), at + 1)
            over = self.recording.key_at(min(end, self.recording.tuples - 1))
            found.append((CURRENT, outage, Fault("loss", key, over, key)))
            if not any(spec.stateful):
                continue
            found.append((LOST, outage, Fault("loss", key, over, START_KEY)))
            for age in self.settings.ages:
                restored = self.recording.key_at(self._restored(at, age))
                found.append((age, outage, Fault("loss", key, over, restored)))
        return found


class _Counted:
    """Compares the rows of trials with those of the golden run."""

    def __init__(self, context: TrialContext, windows: Mapping[str, Duration]) -> None:
        self.context, self.windows, self.golden = context, windows, context.golden
        self.times = {sink: self._times(rows.position) for sink, rows in self.golden.rows.items()}
        self.scored: dict[str, HarmTrial] = {}  # by sink, of the last trial

    def _times(self, positions: np.ndarray) -> np.ndarray:
        time = self.context.recording.time
        found: np.ndarray = time[np.minimum(positions, len(time) - 1)]
        return found

    def trial(self, name: str, fault: Fault, at: int) -> dict[str, Damage]:
        context = self.context
        since, last = int(context.recording.time[at]), int(context.recording.time[-1])
        found: dict[str, Damage] = {}
        self.scored = {}
        lost = max(context.position_of(fault.end) - context.position_of(fault.start), 1)
        for sink, changed in replay(context, [name], fault).items():
            if sink not in context.graph.reachable(name):
                continue
            golden, until = self.golden.rows[sink], since + self.windows[sink]
            removed, added = self.times[sink][changed.removed], self._times(changed.added.position)
            lasts = max(int(times.max()) - since for times in (removed, added, np.array([since])) if len(times))
            extra = ~np.isin(changed.added.identity, golden.identity[changed.removed])
            wrong = int((removed <= until).sum() + (extra & (added <= until)).sum())
            within = (self.times[sink] >= since) & (self.times[sink] <= until)
            share = min(-(-wrong * _PPM // max(int(within.sum()), 1)), _PPM) if wrong else 0
            if lasts > _SETTLED * (last - since):
                lasts = int(LONGEST)
            score, self.scored[sink] = self._score(sink, changed, since, lost)
            found[sink] = (share, max(lasts, 0) if len(removed) + len(added) else 0, score)
        return found

    def _score(self, sink: str, changed: Difference, since: int, lost: int) -> tuple[int, HarmTrial]:
        """Parts per million of the score without the failure; and the scores."""
        reader = next(each for each in self.context.readers if each.sink == sink)
        golden, until = self.golden.rows[sink], since + self.windows[sink]
        faulty = applied(golden, changed)
        times = self._times(faulty.position)
        own, other = ((each >= since) & (each <= until) for each in (self.times[sink], times))
        right, now = reader.score.over(golden.value[own]), reader.score.over(faulty.value[other])
        width = max(self.windows[sink] // SECTIONS, 1)
        parts = [
            reader.score.by_section(values, np.minimum((at - since) // width, SECTIONS - 1), SECTIONS)
            for values, at in ((faulty.value[other], times[other]), (golden.value[own], self.times[sink][own]))
        ]
        trial = HarmTrial(lost, now, right, parts[0], parts[1])
        if now == right:
            return _PPM, trial
        return max(round(_PPM * (1.0 - abs(now - right) / abs(right))), 0) if right else 0, trial

    def missed(self, sink: str, at: int, outage: Duration) -> dict[str, Damage]:
        """A sink that is down misses its rows of the outage."""
        since = int(self.context.recording.time[at])
        times, rows = self.times[sink], self.golden.rows[sink]
        gone = np.flatnonzero((times >= since) & (times < since + outage))
        until = since + self.windows[sink]
        within = (times >= since) & (times <= until)
        share = -(-int((times[gone] <= until).sum()) * _PPM // max(int(within.sum()), 1))
        remains = difference(rows, gone, rows.rows(gone[:0]))
        lasts = int(times[gone].max()) - since if len(gone) else 0
        return {sink: (share, lasts, self._score(sink, remains, since, len(gone))[0])}


def _levels(values: list[Damage]) -> Levels:
    """The percentiles of each number by itself; with few values the outer ones are the least and the most."""
    columns = list(zip(*values, strict=True))
    at: list[tuple[int, ...]] = []
    for level in _LEVELS:
        method = "lower" if level < 0.5 else "higher"
        harm = [int(np.quantile(column, level, method=method)) for column in columns[:2]]  # type: ignore[call-overload]
        score = int(np.quantile(columns[2], 1 - level, method="higher" if level < 0.5 else "lower"))  # type: ignore[call-overload]
        at.append((*harm, score))
    return at[0], at[1], at[2]  # type: ignore[return-value]
