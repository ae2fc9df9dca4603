"""What protection costs, from runs under several plans, calibrated over all operators of an app.

The difference between two short runs of one operator is mostly noise; that of many operators in many runs is not. So
cores and memory are those of what an element does for its protection, the same for all operators:

    log       it writes its output to persistent streams
    volume    megabytes/s that it writes
    read      streams that it reads from a log
    save      checkpoints/s that it takes
    state     megabytes/s of state in them

The bytes that an operator writes are counted. An element all of whose inputs are logged takes checkpoints as a whole;
what its reading and saving costs is charged to the backups that feed it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from riprap.graph.graph import Graph
from riprap.graph.plan_file import Plan
from riprap.graph.specs import Sink, Source
from riprap.planner.costs import Cost
from riprap.planner.measured import NO_COST

_MEGABYTE = 1e6
_BY_DEFAULT = 1.0  # checkpoints/s of an exact element whose operators ask for no interval


@dataclass(frozen=True)
class CostRun:
    """One run: its plan, and the cost of each operator in it."""

    plan: Plan
    costs: Mapping[str, Cost]


@dataclass(frozen=True)
class CostModel:
    """Cores and megabytes for each unit of what an element does; bytes/s of each operator that are counted."""

    graph: Graph
    state: Mapping[str, float]
    cores: np.ndarray
    memory: np.ndarray
    logged: Mapping[str, float]  # bytes/s that a backup of the operator writes
    saved: Mapping[str, float]  # bytes that one checkpoint of its element writes

    def of_plan(self, plan: Plan) -> Cost:
        total = NO_COST
        for name in self.graph.order:
            total = total.plus(self._of(name, plan))
        return total

    def _of(self, name: str, plan: Plan) -> Cost:
        volume = self._written(name, plan)
        work = _work(self.graph, self.state, name, plan, volume)
        return Cost(float(work @ self.cores), float(_kept(work) @ self.memory) * _MEGABYTE, volume, 0.0)

    def _written(self, name: str, plan: Plan) -> float:
        logged = self.logged.get(name, 0.0) if name in plan.operators and plan.operators[name].backup else 0.0
        return logged + self.saved.get(name, 0.0) * saves(self.graph, name, plan)

    def techniques(self, every: float) -> dict[str, dict[str, Cost]]:
        """By operator: checkpoints with this interval (seconds), and a backup with all that it makes others do."""
        found: dict[str, dict[str, Cost]] = {}
        for name in self.graph.order:
            spec, own = self.graph[name], dict[str, Cost]()
            if any(spec.stateful):
                written = self.saved.get(name, 0.0) / every
                work = np.array(
                    [0.0, written / _MEGABYTE, 0.0, 1 / every, self.state.get(name, 0.0) / _MEGABYTE / every]
                )
                memory = float(_kept(work) @ self.memory) * _MEGABYTE
                own["checkpoint"] = Cost(float(work @ self.cores), memory, written, 0.0)
            if not isinstance(spec, Sink):
                own["backup"] = self._backup(name)
            found[name] = own
        return found

    def _backup(self, name: str) -> Cost:
        volume, spec = self.logged.get(name, 0.0), self.graph[name]
        work = np.array([1.0, volume / _MEGABYTE, 0.0, _BY_DEFAULT * isinstance(spec, Source), 0.0])
        for reader in self.graph.downstream(name):
            share = 1.0 / max(len(self.graph.inputs(reader)), 1)
            work[2] += 1.0
            if not any(self.graph[reader].stateful):  # else its own checkpoints are planned and paid for
                work[3] += share * _BY_DEFAULT
                volume += share * self.saved.get(reader, 0.0) * _BY_DEFAULT
        memory = float(_kept(work) @ self.memory) * _MEGABYTE
        return Cost(float(work @ self.cores), memory, volume, 0.0)


def calibrated(
    graph: Graph, running: Mapping[str, Cost], runs: Sequence[CostRun], state: Mapping[str, float]
) -> CostModel:
    """`running`: the cost of each operator without protection."""
    work, kept, cores, memory = [], [], [], []
    logged, saved = dict[str, list[float]](), dict[str, list[float]]()
    for run in runs:
        for name in graph.order:
            if name not in run.costs or name not in running:
                continue
            own, before = run.costs[name], running[name]
            written = max(own.written - before.written, 0.0)
            planned = run.plan.operators.get(name)
            per_second = saves(graph, name, run.plan)
            if planned is not None and planned.backup:
                logged.setdefault(name, []).append(written)
            elif per_second:
                saved.setdefault(name, []).append(written / per_second)
            row = _work(graph, state, name, run.plan, written)
            work.append(row)
            kept.append(_kept(row))
            cores.append(own.cores - before.cores)
            memory.append((own.memory - before.memory) / _MEGABYTE)
    once = {name: float(np.median(values)) for name, values in saved.items()}
    written_alone = {}
    for name, values in logged.items():  # what a backup writes, without its checkpoints
        rounds = [
            saves(graph, name, run.plan)
            for run in runs
            if name in run.plan.operators and run.plan.operators[name].backup
        ]
        written_alone[name] = max(float(np.median(values)) - once.get(name, 0.0) * float(np.median(rounds)), 0.0)
    return CostModel(graph, state, _fitted(work, cores), _fitted(kept, memory), written_alone, once)


def saves(graph: Graph, name: str, plan: Plan) -> float:
    """Checkpoints/s of an operator's element, if every operator has an element of its own."""
    own = plan.operators.get(name)
    if own is not None and own.checkpoint_every is not None:
        return 1e6 / own.checkpoint_every
    backups = {other for other, annotations in plan.operators.items() if annotations.backup}
    replayed = set(graph.upstream(name)) <= backups
    exact = replayed and (bool(graph.upstream(name)) or name in backups)
    return _BY_DEFAULT if exact else 0.0


def _work(graph: Graph, state: Mapping[str, float], name: str, plan: Plan, written: float) -> np.ndarray:
    backups = {other for other, annotations in plan.operators.items() if annotations.backup}
    reads = sum(stream.source in backups for stream in graph.inputs(name))
    often = saves(graph, name, plan)
    return np.array([
        float(name in backups), written / _MEGABYTE, float(reads), often, often * state.get(name, 0.0) / _MEGABYTE
    ])  # fmt: skip


def _kept(work: np.ndarray) -> np.ndarray:
    """What takes memory: that something is saved, and how much state; not how often."""
    often = work[3]
    return np.array([work[0], work[1], work[2], float(often > 0), work[4] / often if often else 0.0])


def _fitted(rows: Sequence[np.ndarray], values: Sequence[float]) -> np.ndarray:
    """Least squares without negative parts."""
    return np.asarray(nnls(np.array(rows), np.array(values))[0]) if rows else np.zeros(5)


def total_error(predicted: Cost, measured: Cost, floor: Cost) -> Cost:
    """Relative to what was measured. Below the floor, a resource costs nothing that matters."""
    parts = (
        abs(p - m) / max(m, f) if max(p, m) > f else 0.0 for p, m, f in zip(predicted, measured, floor, strict=True)
    )
    return Cost(*parts)
