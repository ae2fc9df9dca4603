"""`plan`, for a recovery bound: the fewest backups that meet it.

from riprap.api.recovery_plan import plan_recovery
found = plan_recovery("bargain-discovery", "2s", latency="500ms")
found.plan.names                       # where the backups are
found.text                             # the plan file for `riprap run`
found.summary.sentences                # rest of the bound, L as executed, what a proof measured
plan_recovery(graph, "2s", profile="profile.json", check="plan.toml", measured="proof")   # checks a given plan
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from riprap.api.plan_summary import PlanRequest, PlanSummary, meet_bound_as_executed, summarise_plan
from riprap.apps.catalogue import load_app
from riprap.base import files
from riprap.base.errors import PlanError, UsageError, known
from riprap.base.quantities import Duration, parse_duration, show_duration
from riprap.base.tabular import Tabular
from riprap.graph.annotations import Annotations
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.plan_file import Plan, read_plan, write_plan
from riprap.planner.backup_plan import BackupPlan, given_backups, plan_backups
from riprap.planner.from_graph import plan_with_backups, topology_of
from riprap.planner.problem import problem
from riprap.planner.shared_elements import as_elements, backup_elements, homes
from riprap.planner.topology_files import TaskProfile, optimal_interval, read_profile, read_recovery, read_topology
from riprap.protocols.recompute import EVERY
from riprap.runtime.fusion import fused
from riprap.runtime.planned import wrong_with

Times = str | Mapping[str, str]  # of all operators, or by name, with the default under ""
COSTS = ("count", "bytes")


@dataclass(frozen=True)
class RecoveryPlan(Tabular):
    """The backups and their summary."""

    asked: PlanRequest
    bound: Duration
    plan: BackupPlan
    summary: PlanSummary
    text: str  # as a plan file

    @property
    def failure(self) -> str:
        """Why a given plan misses the bound; "": it does not."""
        return self.summary.missed or self.plan.shortfall or ""

    def rows(self) -> list[dict[str, Any]]:
        """Each task: reprocessing time T, recovery latency L and its bound in seconds, and whether it is a backup."""
        backups = set(self.plan.names)
        return [
            {"task": task["name"], "backup": task["name"] in backups, **{key: task[key] for key in ("T", "L", "bound")}}
            for task in self.plan.to_json()["tasks"]
        ]

    def save(self, path: Path | str) -> None:
        """The plan file, which `run` and `prove` take."""
        files.write_text(files.real(path), self.text)

    def to_json(self) -> dict[str, Any]:
        return self.plan.to_json() | self.summary.as_json()


def plan_recovery(
    target: str | App | Graph,
    recovery: str,
    *,
    sinks: Mapping[str, str] | None = None,
    failures: int = 1,
    cost: str = "count",
    must: Iterable[str] = (),
    must_not: Iterable[str] = (),
    algorithm: str = "exact",
    time_limit: str = "10s",
    latency: Times | None = None,
    profile: Path | str | None = None,
    average: bool = False,
    mtbf: Times | None = None,
    previous: Path | str | None = None,
    check: Path | str | None = None,
    measured: Path | str | None = None,
) -> RecoveryPlan:
    """`target`: an app or its name, or the path of a topology, .json or .graphml.

    `sinks`: stricter bounds of single sinks. `latency`: the reprocessing time T. `mtbf`: the time between failures,
    which sets checkpoint intervals. `previous`: a plan to change as little as possible. `check`: plan
    nothing, and check the backups of this plan; `measured`: the directory of a proof to compare it with.
    """
    bound = parse_duration(recovery)
    if measured is not None and check is None:
        raise UsageError("`measured` is compared with the prediction of a plan: give the plan with `check=plan.toml`")
    if previous is not None and algorithm != "exact":
        raise UsageError("`previous` works with `algorithm=exact` only")
    asked = _asked(target, latency, None if profile is None else Path(profile), average, mtbf, cost)
    overhead = asked.overhead
    if bound <= 0:
        raise UsageError(f"`recovery={recovery}`: a bound must be longer than 0s")
    if bound <= overhead:
        raise PlanError(
            f"no plan recovers within {show_duration(bound)}: by the profile a process needs {show_duration(overhead)} "
            "to restart, restore its state and catch up; raise the bound"
        )
    earlier, existing = check or previous, None
    if earlier is not None:
        existing = tuple(name for name, annotations in read_plan(Path(earlier)).operators.items() if annotations.backup)
    if check is not None:
        asked, existing = _as_run(asked, Path(check), existing or ())
    elif asked.graph is not None:
        _planned(
            asked.graph, (), bound
        )  # a bound only adds backups: an app that cannot run without them cannot run with them
    assert asked.topology is not None
    home = homes(asked.elements.values())
    stated = problem(
        asked.topology,
        Duration(bound - overhead),
        sinks={home.get(n, n): Duration(parse_duration(value) - overhead) for n, value in (sinks or {}).items()},
        must=[home.get(name, name) for name in must],
        must_not=[home.get(name, name) for name in must_not],
        failures=failures,
    )
    if check is not None:
        plan = given_backups(stated, existing or ())
    else:
        limit = parse_duration(time_limit) / 1e6
        plan = plan_backups(stated, algorithm=algorithm, existing=existing, time_limit=limit)
        plan = meet_bound_as_executed(plan, asked)
    summary = summarise_plan(plan, bound, asked, None if measured is None else Path(measured))
    if asked.graph is not None:
        file = _planned(asked.graph, asked.kept or plan.names, bound, asked.intervals)
    else:
        file = Plan(asked.topology.name, {name: Annotations(backup=True) for name in plan.names}, bound)
    return RecoveryPlan(asked, bound, plan, summary, write_plan(file))


def _planned(
    graph: Graph, backups: Iterable[str], bound: Duration, intervals: Mapping[str, Duration] | None = None
) -> Plan:
    plan = plan_with_backups(graph, set(backups), bound, intervals)
    if wrong := wrong_with(graph, plan):
        raise PlanError(f"no plan of {graph.name} can meet a bound: {wrong}")
    return plan


def _asked(
    target: str | App | Graph, latency: Times | None, profile: Path | None, average: bool, mtbf: Times | None, cost: str
) -> PlanRequest:
    if cost not in COSTS:
        raise UsageError(f"`cost={cost}`: choose one of {known(COSTS, cost)}")
    if isinstance(target, str) and target.endswith((".json", ".graphml")):
        if latency or profile or mtbf:
            raise UsageError("`latency`, `mtbf` and `profile` are for apps: a topology file has T in it")
        read = read_topology(Path(target), "average" if average else "worst")
        if cost == "bytes" and read.cost is None:
            raise UsageError(f"{target} has no costs: add one per task, or plan with `cost=count`")
        return PlanRequest(None, replace(read, cost=None) if cost == "count" else read)
    graph = load_app(target) if isinstance(target, str) else target.build() if isinstance(target, App) else target
    profiles = read_profile(profile) if profile else {}
    recovery = read_recovery(profile) if profile else {}
    durable = recovery.get("durable")
    intervals = _intervals(_times(mtbf), graph, durable)
    for name in [operator.name for operator in graph] if durable is not None else ():
        own = profiles.get(name, TaskProfile())
        profiles[name] = replace(own, checkpoint=intervals.get(name, own.checkpoint), durable=durable)
    latencies = _times(latency)
    otherwise = latencies.pop("", None)
    for name, value in _times(latency).items():
        if name and name not in graph:
            raise UsageError(f"`latency={name}`: {graph.name} has {known([op.name for op in graph], name)}")
        if value <= 0:
            raise UsageError("`latency=0s`: give a reprocessing time longer than 0s")
    for name, value in latencies.items():
        profiles[name] = replace(profiles.get(name, TaskProfile()), latency=value)
    usual = _usual(graph, profiles) if otherwise is None else ()
    intervals |= dict.fromkeys(usual, Duration(EVERY))
    profiles |= {name: replace(profiles[name], checkpoint=Duration(EVERY)) for name in usual}
    topology = topology_of(
        graph,
        profiles,
        otherwise=otherwise,
        estimate="average" if average else "worst",
        by_bytes=cost == "bytes",
        profiled=profile,
    )
    return PlanRequest(
        graph,
        topology,
        profiles,
        intervals,
        recovery.get("restart"),
        durable,
        caught_up=recovery.get("caught_up"),
        usual=usual,
    )


def _usual(graph: Graph, profiles: Mapping[str, TaskProfile]) -> tuple[str, ...]:
    """Profiled operators without a checkpoint interval, which get the default of a run."""
    measured = [op for op in graph if op.name in profiles and profiles[op.name].output is not None]
    return tuple(
        op.name
        for op in measured
        if profiles[op.name].reprocessing("worst") is None and op.annotations.checkpoint_every is None
    )


def _as_run(asked: PlanRequest, check: Path, backups: tuple[str, ...]) -> tuple[PlanRequest, tuple[str, ...]]:
    """The tasks and backups of a plan as it runs: without a bound, backups may share elements, which then are tasks."""
    plan = read_plan(check)
    if asked.graph is not None and (wrong := wrong_with(asked.graph, plan)):
        raise PlanError(f"{check} cannot run: {wrong}")
    if asked.graph is None or asked.topology is None or plan.recovery is not None:
        return asked, backups
    elements = _sharing(plan.apply(asked.graph))
    shared = as_elements(asked.topology, elements)
    found = replace(asked, topology=shared, elements={e[0]: e for e in elements}, kept=backups)
    return found, backup_elements(asked.topology, elements, backups)


def _sharing(graph: Graph) -> list[tuple[str, ...]]:
    """The operators of each element with a backup on an internal stream; all other operators one by one.

    (Without such a backup it makes no difference to the model whether operators share an element.)
    """
    found: list[tuple[str, ...]] = []
    for members in fused(graph, "auto", bounded=False):
        inner = [s for s in graph.streams if {s.source, s.target} <= {*members} and graph[s.source].annotations.backup]
        found += [members] if inner else [(name,) for name in members]
    return found


def _times(given: Times | None) -> dict[str, Duration]:
    by_name = {"": given} if isinstance(given, str) else given or {}
    return {name: parse_duration(value) for name, value in by_name.items()}


def _intervals(mtbf: Mapping[str, Duration], graph: Graph, durable: Duration | None) -> dict[str, Duration]:
    """The optimal checkpoint interval of operators without one, from their time between failures."""
    if not mtbf:
        return {}
    if durable is None:
        raise UsageError(
            "`mtbf` sets an interval if the duration of a checkpoint is known: give the `profile` that "
            "`riprap profile --recovery --out` wrote"
        )
    for name, value in mtbf.items():
        if name and name not in graph:
            raise UsageError(f"`mtbf={name}`: {graph.name} has {known([op.name for op in graph], name)}")
        if value <= 0:
            raise UsageError(f"`mtbf={name}`: give the time between two failures, as in 1d")
    between = {operator.name: mtbf[""] for operator in graph} if "" in mtbf else {}
    between |= {name: value for name, value in mtbf.items() if name}
    own = {operator.name for operator in graph if operator.annotations.checkpoint_every is not None}
    return {name: optimal_interval(value, durable) for name, value in between.items() if name not in own}
