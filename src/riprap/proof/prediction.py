"""What was predicted of each fault, to stand beside what was measured; and how the two agree over all of them.

Of a fault that kills: how long what it hit takes, in the worst case, to work out again what it had lost. That is L(v)
of the planner's model (`planner.model`), with T(v) the whole interval between checkpoints: whoever keeps up with its
input takes no longer for that. Where a profile says how fast operators work and how long catching up takes however
little there is (`caught_up`), T(v) is the work of that interval at the rate of this run, and catching up comes on top;
so does the time that a process takes to be started again and to restore (`restart`). Without a profile L(v) stands
beside the measured time from when the element had its state again.

Of a sink: rows that are lost. None where everything that leads to it is exactly once; elsewhere nothing is predicted.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from riprap.base.quantities import Duration
from riprap.graph.graph import Graph
from riprap.planner.from_graph import topology_of
from riprap.planner.model import NEVER, effect
from riprap.planner.topology_files import TaskProfile
from riprap.proof.fault_kinds import KINDS
from riprap.proof.schedule import ScheduledFault
from riprap.protocols.recompute import EVERY


@dataclass(frozen=True)
class Predictions:
    """`recovery`: by element, seconds in the worst case; None: nothing predicts it."""

    recovery: Mapping[str, float | None]
    restart: float | None = None  # seconds until a process is there again and has its state; None: not known

    def of(self, fault: ScheduledFault) -> float | None:
        """Seconds until what the fault hit has worked out again what it lost, without the time of a restart."""
        if not KINDS[fault.kind].fatal or not fault.targets:
            return None
        times = [self.recovery.get(pe) for pe in fault.targets]
        known = [time for time in times if time is not None]
        return max(known) if len(known) == len(times) else None


def predictions(
    graph: Graph,
    hosts: Mapping[str, Iterable[str]],
    exact: Collection[str],
    restart: Duration | None = None,
    durable: Duration | None = None,
    caught_up: Duration | None = None,
    paces: Mapping[str, float] | None = None,
) -> Predictions:
    """`hosts`: the elements of each operator. An element takes as long as the slowest operator in it. `paces`: seconds
    of work of an operator per second of this run, if known beside `caught_up`.

    Only those of `exact` work out again what they lost, from checkpoints; of others, and of those that are never saved
    and replay their whole history, nothing is predicted.
    """
    known = {}
    unsaved = {
        pe for spec in graph if spec.annotations.checkpoint_off and any(spec.stateful) for pe in hosts[spec.name]
    }
    for operator in graph:
        every = operator.annotations.checkpoint_every or Duration(EVERY)
        pace = 1.0 if caught_up is None else min((paces or {}).get(operator.name, 1.0), 1.0)
        known[operator.name] = TaskProfile(checkpoint=every, durable=durable, pace=pace)
    topology = topology_of(graph, known, estimate="worst")
    backups = np.array([graph[name].annotations.backup for name in topology.tasks])
    latency = effect(topology, backups).latency
    found: dict[str, float | None] = {}
    for task, name in enumerate(topology.tasks):
        time = None if latency[task] >= NEVER else (int(latency[task]) + (caught_up or 0)) / 1e6
        for pe in hosts[name]:
            before = found.get(pe, 0.0)
            unknown = time is None or before is None or pe not in exact or pe in unsaved
            found[pe] = None if unknown else max(time, before)  # type: ignore[type-var]
    return Predictions(found, None if restart is None else restart / 1e6)


def paces_at(profiles: Mapping[str, TaskProfile], rate: Mapping[str, float]) -> dict[str, float]:
    """Seconds of work per second of a run whose sources bring so many tuples a second; those of profiles are at the
    rate of the recorded data."""
    known = {name: profiles[name].output for name in rate if name in profiles}
    times = max((rate[name] / output for name, output in known.items() if output), default=1.0)
    return {name: profile.pace * times for name, profile in profiles.items() if profile.output is not None}


@dataclass(frozen=True)
class PredictionAgreement:
    """Of faults with both numbers."""

    faults: int
    within: int  # measured at most what was predicted
    most: float  # the largest ratio of measured to predicted
    rmse: float  # seconds
    rank: float | None  # Spearman's correlation over the elements' medians; None: fewer than three, or all alike


def agreement(pairs: Sequence[tuple[str, float, float]]) -> PredictionAgreement | None:
    """Of (element, predicted, measured), in seconds; None: there are none."""
    if not pairs:
        return None
    predicted, measured = (np.array([pair[at] for pair in pairs]) for at in (1, 2))
    names = sorted({name for name, _, _ in pairs})
    medians = [[float(np.median([pair[at] for pair in pairs if pair[0] == name])) for name in names] for at in (1, 2)]
    return PredictionAgreement(
        len(pairs),
        int((measured <= predicted).sum()),
        float((measured / np.maximum(predicted, 1e-9)).max()),
        float(np.sqrt(((measured - predicted) ** 2).mean())),
        rank_correlation(*medians),
    )


def rank_correlation(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Spearman's, with mean ranks for ties."""
    if len(left) < 3 or len(set(left)) < 2 or len(set(right)) < 2:
        return None
    return float(np.corrcoef(_ranks(left), _ranks(right))[0, 1])


def _ranks(values: Sequence[float]) -> np.ndarray:
    array = np.asarray(values)
    return np.array([(array < value).sum() + ((array == value).sum() + 1) / 2 for value in array])
