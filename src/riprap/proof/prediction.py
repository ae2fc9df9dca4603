"""Predictions for each fault, to be compared with the measurements; and their agreement over all faults.

For a fault that kills: the longest time in which its targets recompute what they lost. That is L(v) of the planner's
model (`planner.model`), with T(v) the whole interval between checkpoints: an element that keeps up with its input needs
no longer. If a profile gives the speed of operators and the minimum time to catch up (`caught_up`), T(v) is the work of
that interval at the rate of this run, plus the time to catch up, plus the time to restart a process and restore
its state (`restart`). Without a profile, L(v) is compared with the measured time since the state was restored.

For a sink: lost rows. None if all upstream elements are exactly once; else there is no prediction.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from riprap.base.quantities import Duration
from riprap.graph.graph import Graph
from riprap.planner.failure_effect import NEVER, effect
from riprap.planner.from_graph import topology_of
from riprap.planner.topology_files import TaskProfile
from riprap.proof.fault_kinds import KINDS
from riprap.proof.schedule import ScheduledFault
from riprap.protocols.recompute import EVERY


@dataclass(frozen=True)
class Predictions:
    """`recovery`: by element, seconds in the worst case; None: not predicted."""

    recovery: Mapping[str, float | None]
    restart: float | None = None  # seconds until a new process has restored the state; None: unknown

    def of(self, fault: ScheduledFault) -> float | None:
        """Seconds until the targets have recomputed what they lost, without the time of a restart."""
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
    """`hosts`: the elements of each operator. An element takes as long as its slowest operator. `paces`: seconds of
    work of an operator per second of this run, if known along with `caught_up`.

    Only `exact` elements recompute what they lost, from checkpoints. For others, and for those that are never saved
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
    recovery: dict[str, float | None] = {}
    for task, name in enumerate(topology.tasks):
        time = None if latency[task] >= NEVER else (int(latency[task]) + (caught_up or 0)) / 1e6
        for pe in hosts[name]:
            before = recovery.get(pe, 0.0)
            unknown = time is None or before is None or pe not in exact or pe in unsaved
            recovery[pe] = None if unknown else max(time, before)  # type: ignore[type-var]
    return Predictions(recovery, None if restart is None else restart / 1e6)


def paces_at(profiles: Mapping[str, TaskProfile], rate: Mapping[str, float]) -> dict[str, float]:
    """Seconds of work per second of a run with these source rates (tuples per second). Profiles are at the rate of the
    recorded data."""
    known = {name: profiles[name].output for name in rate if name in profiles}
    times = max((rate[name] / output for name, output in known.items() if output), default=1.0)
    return {name: profile.pace * times for name, profile in profiles.items() if profile.output is not None}


@dataclass(frozen=True)
class PredictionAgreement:
    """Over the faults with both numbers."""

    faults: int
    within: int  # measured at most as predicted
    most: float  # the largest ratio of measured to predicted
    rmse: float  # seconds
    rank: float | None  # Spearman's correlation over the elements' medians; None: fewer than three, or all equal


def agreement(pairs: Sequence[tuple[str, float, float]]) -> PredictionAgreement | None:
    """From (element, predicted, measured), in seconds; None: no pairs."""
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
