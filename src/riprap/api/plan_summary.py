"""What `riprap plan` reports beside the backups: the rest of the bound, L as executed, and what a proof measured."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from riprap.base import files
from riprap.base.errors import DataError
from riprap.base.quantities import Duration, show_duration

if TYPE_CHECKING:
    from riprap.graph.graph import Graph
    from riprap.planner.backup_plan import BackupPlan
    from riprap.planner.topology import Topology
    from riprap.planner.topology_files import TaskProfile


@dataclass(frozen=True)
class PlanRequest:
    """The input of the planner."""

    graph: "Graph | None"  # None: a topology file
    topology: "Topology | None"
    profiles: "Mapping[str, TaskProfile]" = field(default_factory=dict)
    intervals: Mapping[str, Duration] = field(default_factory=dict)  # derived from times between failures
    restart: Duration | None = None  # measured: until a new process has restored its state
    durable: Duration | None = None  # measured: until a checkpoint is on disk
    # If operators share elements: the operators of each task, and those among them with a backup.
    elements: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kept: tuple[str, ...] | None = None
    caught_up: Duration | None = None  # measured: from then until caught up, with nothing to recompute
    usual: tuple[str, ...] = ()  # operators without an interval of their own, which get the default of a run

    @property
    def overhead(self) -> Duration:
        """The part of every recovery that does not depend on what is recomputed."""
        return Duration((self.restart or 0) + (self.caught_up or 0))


@dataclass(frozen=True)
class PlanSummary:
    """Times in seconds, by task."""

    restart: float | None
    left: float | None  # rest of the bound, for recomputing
    executed: Mapping[str, float]  # L as executed; empty: the speed of operators is unknown
    measured: Mapping[str, Mapping[str, float]]  # by a proof: kills, and the longest times
    missed: str  # which measured recovery took longer than the bound; "": none
    sentences: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "restart": self.restart,
            "left": self.left,
            "executed": dict(self.executed) or None,
            "measured": {name: dict(row) for name, row in self.measured.items()} or None,
        }


def summarise_plan(plan: "BackupPlan", bound: Duration, asked: PlanRequest, proof: Path | None) -> PlanSummary:
    sentences, missed = [], ""
    left = None if asked.restart is None else Duration(bound - asked.overhead)
    if asked.restart is not None and left is not None:
        catching = "" if asked.caught_up is None else f", then {show_duration(asked.caught_up)} to catch up"
        sentences.append(
            f"Of {show_duration(bound)}, a process needs {show_duration(asked.restart)} to restart and restore its "
            f"state{catching}; {show_duration(left)} are left for recomputing."
        )
    elif asked.graph is not None:
        sentences.append(
            "The time in which a failed process restarts and restores its state comes on top and was not measured: "
            f"measure it with `riprap profile {asked.graph.name} --recovery --out profile.toml`, for --profile."
        )
    executed = _executed(plan, asked)
    if executed:
        slowest = max(executed, key=lambda name: executed[name])
        sentences.append(
            f"At the measured speed of the operators and the rate of the recorded data, recomputing takes "
            f"{executed[slowest]:.2g} s at most ({slowest}); the time grows in proportion to the rate."
        )
    for name, members in asked.elements.items():
        if len(members) > 1:
            sentences.append(
                f"{', '.join(members)} share an element: they are one task, {name}, with the sum of their T."
            )
    for name, every in asked.intervals.items():
        if name not in asked.usual:
            sentences.append(f"{name}: checkpoint every {show_duration(every)}, from its time between failures.")
    if asked.usual:
        every = asked.intervals[asked.usual[0]]
        sentences.append(f"Checkpoint every {show_duration(every)}, the default: {', '.join(asked.usual)}.")
    for operator in asked.graph or ():
        if operator.annotations.continuous is not None and asked.kept is None:
            sentences.append(
                f"{operator.name} gets checkpoints at intervals, not continuous ones: a bound needs whole elements."
            )
    measured = _measured(proof) if proof is not None else {}
    topology = plan.problem.topology
    for name, row in measured.items():
        if name not in topology.tasks:
            continue
        predicted = plan.recovery_of(topology.index(name))
        sentences.append(
            f"{name}: {predicted} predicted at most, {row['caught_up']:.2f} s measured in {row['kills']:g} "
            f"kill{'s' * (row['kills'] != 1)}; "
            f"with the restart {row['latency']:.2f} s of {show_duration(bound)}."
        )
        if row["latency"] > bound / 1e6 and not missed:
            missed = f"{name} took {row['latency']:.2f} s of {show_duration(bound)}"
    restart = None if asked.restart is None else asked.restart / 1e6
    return PlanSummary(restart, None if left is None else left / 1e6, executed, measured, missed, tuple(sentences))


def meet_bound_as_executed(plan: "BackupPlan", asked: PlanRequest) -> "BackupPlan":
    """The plan, with more backups where those of the model miss the bound as a run executes it."""
    from riprap.planner.backup_plan import given_backups
    from riprap.planner.executed import with_enough_backups

    speeds = _speeds(plan.problem.topology, asked)
    if speeds is None:
        return plan
    problem = plan.problem
    backups = with_enough_backups(problem.topology, *speeds, plan.solution.backups, problem.bound, problem.must_not)
    if (backups == plan.solution.backups).all():
        return plan
    return given_backups(problem, [name for task, name in enumerate(problem.topology.tasks) if backups[task]])


def _executed(plan: "BackupPlan", asked: PlanRequest) -> dict[str, float]:
    from riprap.planner.executed import as_executed

    topology = plan.problem.topology
    speeds = _speeds(topology, asked)
    if speeds is None:
        return {}
    latency = as_executed(topology, *speeds, plan.solution.backups)
    return {name: float(latency[task]) / 1e6 for task, name in enumerate(topology.tasks)}


def _speeds(topology: "Topology", asked: PlanRequest) -> tuple[list[int], list[float]] | None:
    """Intervals and paces of all tasks; None: some are unknown."""
    graph = asked.graph
    if graph is None or not asked.profiles or topology.cuts.any():
        return None
    intervals, pace = [], []
    for task in topology.tasks:
        members = []
        for name in asked.elements.get(task, (task,)):
            profile = asked.profiles.get(name)
            every = (profile.checkpoint if profile else None) or graph[name].annotations.checkpoint_every
            if profile is None or profile.output is None or profile.latency is not None or every is None:
                return None  # not measured
            members.append((int(every), profile.pace))
        intervals.append(min(every for every, _ in members) + int(asked.durable or 0))
        pace.append(sum(own for _, own in members))
    return intervals, pace


def _measured(directory: Path) -> dict[str, dict[str, float]]:
    """Kills of single elements: how many, and the longest times."""
    from riprap.base.documents import read_json
    from riprap.base.shapes import raising_misshapen

    path = files.real(directory) / "proof.json"
    if not files.exists(path):
        raise DataError(f"{directory} is not the directory of a proof: it has no proof.json")
    rows: dict[str, dict[str, float]] = {}
    with raising_misshapen(f"{path} is not a proof of this version of riprap: prove the plan again"):
        for fault in read_json(path, own=True)["faults"]:
            if len(fault["targets"]) != 1 or fault["caught_up"] is None or fault["latency"] is None:
                continue
            name = fault["targets"][0].rpartition("/")[0] or fault["targets"][0]
            row = rows.setdefault(name, {"kills": 0, "caught_up": 0.0, "latency": 0.0})
            row["kills"] += 1
            for what in ("caught_up", "latency"):
                row[what] = max(row[what], float(fault[what]))
    return rows
