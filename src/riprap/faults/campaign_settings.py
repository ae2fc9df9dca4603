"""A campaign: all trials of an assessment, determined before anything runs.

A *unit* is one target at one offset with all its outages and repetitions. Its trials are scored on the same affected
part of the output: all tuples that differ from golden in any repetition under the longest outage (under any outage, if
each affects one tuple). Repetition k uses the jitter of golden run k. `CampaignSettings`, the app and the recorded
stream determine everything; nothing depends on the order in which units run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from riprap.base.errors import UsageError
from riprap.base.quantities import LONGEST, Duration, format_count, show_duration
from riprap.base.randomness import derived_seed
from riprap.engine.engine import Engine
from riprap.engine.jitter import Jitter
from riprap.faults.alterations import alterable
from riprap.faults.divided import key_copies
from riprap.faults.injection import Ports, check_reorder, ports_of
from riprap.faults.models import ALTERS, KEPT, LOST_STATE, PLANNED, STRIKES_ONCE, Fault, FaultKind, StateOutcome
from riprap.faults.recording import Recording
from riprap.graph.graph import Graph
from riprap.graph.order_keys import START_KEY
from riprap.graph.specs import Source
from riprap.operators.columns import keys_of
from riprap.operators.flipping import corruptible

Rate = Literal["average", "peak"]
Errors = Literal["absolute", "over"]
_SECOND = 1_000_000  # microseconds
CHECKPOINT_EVERY = Duration(_SECOND)  # interval that a plan proposes
_MOST_RUNS, _MOST_TUPLES = 100_000, 10**12


class NothingToAssess(UsageError):
    """No target of the campaign can be assessed."""


@dataclass(frozen=True)
class Target:
    """Operators that fail together, their state after the fault, and a limit on their outages."""

    operators: tuple[str, ...]
    state: StateOutcome = KEPT
    at_most: Duration | None = None  # a fail-over time that replaces longer outages
    fails_over: bool = False  # another replica has the state: only what leaves the operators is lost

    @property
    def name(self) -> str:
        return "+".join(self.operators)

    @property
    def outcome(self) -> str:
        """What becomes of it, in a word or two; with the name unique in a campaign."""
        return "fail-over" if self.fails_over else str(self.state)

    def struck(self, graph: Graph) -> Ports:
        """The ports at which tuples are lost: all of the operators, or those that they feed."""
        if not self.fails_over:
            return ports_of(graph, self.operators)
        ports: dict[str, frozenset[int]] = {}
        for name in self.operators:
            for stream in graph.outputs(name):
                if stream.target not in self.operators:
                    ports[stream.target] = ports.get(stream.target, frozenset()) | {stream.target_port}
        return ports


@dataclass(frozen=True)
class CampaignSettings:
    """All parameters of a campaign, except the app and the recorded stream."""

    targets: tuple[Target, ...]
    offsets: tuple[int, ...]  # source tuples before the fault
    scores: Mapping[str, str]  # output score function by sink
    fault: FaultKind = "loss"
    outages: tuple[Duration, ...] = tuple(Duration(round(s * _SECOND)) for s in (0.5, 1, 2, 4, 8, 16))
    rates: tuple[Rate, ...] = ("average", "peak")
    reps: int = 5
    golden: int = 300  # golden runs, >= reps
    section: int = 5_000  # source tuples
    threshold: float = 0.03  # of the golden score
    percentile: float = 0.9
    seed: int = 1
    jitter_tuples: int | None = 10  # bound of the arrival jitter; exactly one of the two is set
    jitter_time: Duration | None = None
    signed: bool = False
    errors: Errors = "absolute"  # over: only overestimates count as errors

    def jitter(self, run: int) -> Jitter:
        """The jitter of golden run `run`, and of repetition `run` of every trial."""
        return Jitter(derived_seed(self.seed, "golden", run), tuples=self.jitter_tuples, time=self.jitter_time)

    @property
    def jitter_bound(self) -> int:
        return self.jitter_tuples if self.jitter_tuples is not None else int(self.jitter_time or 0)


class Counted(Protocol):
    """A recording whose tuples have positions."""

    @property
    def tuples(self) -> int: ...


@dataclass(frozen=True)
class TargetProfile:
    """The input of a target from outside it, and how fast the sources emit, in tuples per second of event time."""

    target: Target
    inputs: np.ndarray  # positions of the source tuples, ascending
    average: float
    peak: float  # highest count in any whole second

    def rate(self, rate: Rate) -> float:
        return self.average if rate == "average" else self.peak


@dataclass(frozen=True)
class Outage:
    """One outage of one target at one offset."""

    target: int  # index into CampaignSettings.targets
    offset: int
    duration: Duration
    rate: Rate
    tuples: int  # of the target's input, lost
    end: int  # position where the target runs again

    def fault(self, graph: Graph, recording: Recording, settings: CampaignSettings) -> Fault:
        target = settings.targets[self.target]
        start = recording.key_at(self.offset)
        restored = start
        if target.state.kind == "lost":
            restored = START_KEY
        elif target.state.kind == "checkpoint":
            restored = recording.key_at(checkpoint_cut(recording, self.offset, target.state))
        columns = _alterable(graph, target, settings.fault) if settings.fault in ALTERS else ()
        seed = derived_seed(settings.seed, settings.fault, target.name, self.offset)
        keys: tuple[str, ...] = ()
        if settings.fault in STRIKES_ONCE:  # each outage is a different fault
            seed = derived_seed(seed, self.rate, self.duration)
            keys = tuple(sorted(frozenset().union(*(key_copies(graph, name) for name in target.operators))))
        return Fault(settings.fault, start, recording.key_at(self.end), restored, seed, columns, keys)


def counts_jitter_in_tuples(graph: Graph) -> bool:
    """Whether a jitter can be bounded in tuples: all merged streams come from one source."""
    shapes = [shape for spec in graph.operators if spec.inputs > 1 for shape in graph.input_shapes(spec.name)]
    return len(graph.sources) == 1 and all(shape.src is not None and shape.src >= 0 for shape in shapes)


def checkpoint_cut(recording: Recording, offset: int, state: StateOutcome) -> int:
    """The position of the last checkpoint before a fault at `offset`."""
    return int(np.searchsorted(recording.time, recording.time[offset] - state.age))


def starts(settings: CampaignSettings, recording: Recording) -> list[int]:
    """Cuts at which trials start."""
    cuts = set(settings.offsets)
    for target in settings.targets:
        if target.state.kind == "checkpoint":
            cuts |= {checkpoint_cut(recording, offset, target.state) for offset in settings.offsets}
    return sorted(cuts)


def _alterable(graph: Graph, target: Target, kind: FaultKind) -> tuple[str, ...]:
    grouped = frozenset(name for spec in graph for key in spec.partition_keys for name in key or ())
    columns: dict[str, None] = {}
    for name in target.operators:
        spec = graph[name]
        schemas = (spec.schema,) if isinstance(spec, Source) else graph.input_schemas(name)
        for schema in schemas:
            names = corruptible(schema) if kind in STRIKES_ONCE else alterable(schema, grouped)
            columns |= dict.fromkeys(names)
    if not columns:
        what = "" if kind in STRIKES_ONCE else "numeric "
        raise UsageError(f"{target.name} has no {what}attribute to alter; use fault model loss instead")
    return tuple(columns)


def source_rates(recording: Recording, offset: int) -> tuple[float, float]:
    """The average and the peak rate of all sources but tables, which have emitted everything before `offset`."""
    live = [source for source in recording.sources if source.position[-1] >= offset] or recording.sources
    times = np.sort(np.concatenate([source.ts for source in live])) if len(live) > 1 else live[0].ts
    length = max(1, int(times[-1]) - int(times[0])) / _SECOND
    second = times // _SECOND
    begins = np.flatnonzero(np.diff(second, prepend=second[0] - 1))
    return len(times) / length, float(np.diff(begins, append=len(second)).max())


def profile_targets(graph: Graph, recording: Recording, settings: CampaignSettings) -> list[TargetProfile]:
    """Runs the app once and records the input of each target."""
    targets, rates = settings.targets, source_rates(recording, min(settings.offsets))
    edges = [_edges(graph, target) for target in targets]
    seen: dict[tuple[str, int], list[np.ndarray]] = {edge: [] for target_edges in edges for edge in target_edges}

    def watch(name: str, port: int, batch: object) -> None:
        if (name, port) in seen:
            shape = graph.shape(name) if isinstance(graph[name], Source) else graph.input_shapes(name)[port]
            # Output that time triggers after the last tuple counts as the last tuple's.
            positions = np.minimum(recording.positions_of(keys_of(batch, shape)), recording.tuples - 1)
            seen[name, port].append(positions.astype(np.int32))

    for _ in recording.feed(Engine(graph, watch=watch), 0, recording.tuples):
        pass
    profiles = []
    for target, target_edges in zip(targets, edges, strict=True):
        ports = [np.concatenate(seen[edge]) for edge in target_edges if seen[edge]]
        inputs = np.concatenate(ports) if ports else np.empty(0, np.int32)
        if len(ports) > 1:
            inputs.sort()
        profiles.append(TargetProfile(target, inputs, *rates))
    return profiles


def _edges(graph: Graph, target: Target) -> list[tuple[str, int]]:
    """Ports of the target's operators that are fed from outside the target."""
    edges = []
    for name in target.operators:
        if isinstance(graph[name], Source):
            edges.append((name, 0))
        edges += [(name, s.target_port) for s in graph.inputs(name) if s.source not in target.operators]
    return edges


def outages_of(
    settings: CampaignSettings, recording: Counted, profile: TargetProfile, index: int, offset: int
) -> list[Outage]:
    """All outages of a target at an offset, shortest first; raises `UsageError` if one is impossible.

    An outage strikes the same stretch of the sources at every target: as many of their tuples as they emit in its
    duration at their average or peak rate. What the target loses of its own input follows.
    """
    if not len(profile.inputs):
        raise UsageError(f"no tuple of this stream reaches {profile.target.name}")
    if profile.inputs[-1] < offset:
        raise UsageError(
            f"all {format_count(len(profile.inputs))} tuples of {profile.target.name} come before offset "
            f"{format_count(offset)}: a later fault has no effect"
        )
    outages: dict[tuple[Duration, Rate], Outage] = {}
    for duration in settings.outages:
        if profile.target.at_most is not None:
            duration = min(duration, profile.target.at_most)
        for rate in settings.rates:
            end = offset + max(1, round(profile.rate(rate) * duration / _SECOND))
            first = _reached(profile, offset)
            if settings.fault in STRIKES_ONCE:
                end = int(profile.inputs[first]) + 1
            if end >= recording.tuples:
                raise UsageError(
                    f"an outage of {show_duration(duration)} at {rate} rate costs {format_count(end - offset)} tuples "
                    f"of the sources, but after offset {format_count(offset)} the stream has only "
                    f"{format_count(recording.tuples - offset)} of them; choose shorter outages or earlier offsets"
                )
            outages[duration, rate] = Outage(index, offset, duration, rate, _reached(profile, end) - first, end)
    return sorted(outages.values(), key=lambda outage: (outage.end, outage.duration))


def _reached(profile: TargetProfile, position: int) -> int:
    """How many tuples of the target's input come before a position."""
    # The same dtype: otherwise NumPy would convert the whole array.
    return int(np.searchsorted(profile.inputs, profile.inputs.dtype.type(position)))


def planned_targets(graph: Graph, operators: tuple[str, ...], state: StateOutcome) -> list[Target]:
    """The targets of operators that fail together: one, or under `PLANNED` one for each state that a plan may leave.

    Without state an operator only misses tuples. With state it starts empty; or from a checkpoint as old as it can be;
    or a replica takes over.
    """
    if state != PLANNED:
        return [Target(operators, state)]
    stateful = [graph[name] for name in operators if any(graph[name].stateful)]
    if not stateful:
        return [Target(operators)]
    age = max(spec.annotations.checkpoint_every or CHECKPOINT_EVERY for spec in stateful)
    return [
        Target(operators, LOST_STATE),
        Target(operators, StateOutcome("checkpoint", age)),
        Target(operators, fails_over=True),
    ]


def assessable(
    graph: Graph, recording: Recording, settings: CampaignSettings, profiles: Sequence[TargetProfile]
) -> tuple[CampaignSettings, dict[str, str]]:
    """The settings with only the targets that can be assessed; and the reason for each other target."""
    reasons: dict[str, str] = {}
    for index, profile in enumerate(profiles):
        try:
            for offset in settings.offsets:
                for outage in outages_of(settings, recording, profile, index, offset):
                    fault = outage.fault(graph, recording, settings)
                    for name in profile.target.operators:
                        check_reorder(graph, name, fault)
        except UsageError as error:
            reasons[profile.target.name] = str(error)
    targets = tuple(target for target in settings.targets if target.name not in reasons)
    if not targets:
        raise NothingToAssess(f"no operator can be assessed: {'; '.join(dict.fromkeys(reasons.values()))}")
    return replace(settings, targets=targets), reasons


def check_settings(settings: CampaignSettings, tuples: int) -> None:
    """Raises `UsageError` for settings that do not fit a stream of this many tuples."""
    most = {"`reps`": _MOST_RUNS, "`golden`": _MOST_RUNS, "`section`": _MOST_TUPLES}
    for option, value in {"`reps`": settings.reps, "`golden`": settings.golden, "`section`": settings.section}.items():
        if not 1 <= value <= most[option]:
            raise UsageError(f"{option} {value}: expected a number from 1 to {most[option]}")
    if settings.golden < settings.reps:
        raise UsageError(
            f"`golden={settings.golden}` is less than `reps={settings.reps}`: repetition k needs golden run k"
        )
    if not 0 < settings.percentile <= 1:
        raise UsageError(f"`percentile={100 * settings.percentile:g}`: expected a number above 0 and up to 100")
    if not settings.offsets or not settings.outages or not settings.rates:
        raise UsageError("a campaign needs at least one offset, one outage and one rate")
    if min(settings.outages) < 1:
        raise UsageError("`outages=0s`: an outage must be longer than 0s")
    if not 0 <= (settings.jitter_tuples or 0) <= _MOST_TUPLES or not 0 <= (settings.jitter_time or 0) <= LONGEST:
        raise UsageError(f"the bound of the jitter must be from 0 to {_MOST_TUPLES} tuples")
    for offset in settings.offsets:
        if not 0 <= offset < tuples:
            where = "before the stream" if offset < 0 else "beyond the stream"
            raise UsageError(f"offset {format_count(offset)} is {where}, which has {format_count(tuples)} tuples")
    if settings.fault != "loss" and any(target.state != KEPT for target in settings.targets):
        raise UsageError(f"fault model {settings.fault} does not change state; leave `state` out")


def units(settings: CampaignSettings) -> Iterator[tuple[int, int]]:
    """(target, offset) as indices. Offset by offset, so that adjacent units have different costs."""
    for offset in range(len(settings.offsets)):
        for target in range(len(settings.targets)):
            yield target, offset
