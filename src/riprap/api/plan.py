"""`plan`, for a budget: the best protection of an assessed app for given cores, memory, storage and network.

from riprap.api.plan import plan_budget, reassessed
found = plan_budget(graph, [Path("assessment")], "cpu=2,memory=1GB", profile=Path("profile.toml"))
found.curve.steps[-1].protection    # what the whole budget buys
found.plan                          # the same as a plan for `riprap run`
reassessed(graph, found.plan, Path("assessment"))   # the impact of each protected operator, before and after
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from riprap.api.assess import run_request
from riprap.api.impact import read_request
from riprap.api.request import AssessRequest, OutputScores
from riprap.base import files
from riprap.base.errors import PlanError, known
from riprap.base.quantities import Duration
from riprap.base.tabular import Tabular
from riprap.graph.graph import Graph
from riprap.graph.plan_file import Plan, write_plan
from riprap.graph.specs import Sink
from riprap.planner.assessment_file import merged_assessment, read_assessment
from riprap.planner.budget import parse_budget
from riprap.planner.costs import OperatorCosts, read_costs
from riprap.planner.from_graph import plan_with_protection, problem_of
from riprap.planner.topology_files import read_recovery
from riprap.planner.tradeoff import Tradeoff, tradeoff


@dataclass(frozen=True)
class ProtectionForBudget(Tabular):
    """What each step of a budget buys, and the plan of the last one."""

    curve: Tradeoff
    plan: Plan

    def rows(self) -> list[dict[str, Any]]:
        """Each step: the share of the budget, what it buys, and the expected loss a day."""
        return [{"share": step.share, "buys": step.buys, "loss": step.protection.loss} for step in self.curve.steps]

    def save(self, path: Path | str) -> None:
        """The plan file, which `run` and `prove` take."""
        files.write_text(files.real(path), write_plan(self.plan))


def plan_budget(
    graph: Graph,
    assessments: Sequence[Path],
    budget: str,
    bound: Duration | None = None,
    *,
    profile: Path | None = None,
) -> ProtectionForBudget:
    """`assessments`: directories of assessments of this app; `bound`: the recovery bound.

    `profile`: the costs of techniques, measured by `riprap profile --costs`, and optionally the time of a restart,
    measured with `--recovery`.
    """
    assessment = merged_assessment([read_assessment(directory) for directory in assessments])
    if assessment.app != graph.name:
        raise PlanError(f"the assessment in {assessments[0]} is of app {assessment.app}, not of {graph.name}")
    assessment = replace(assessment, costs=_costs(profile, graph))
    if profile is not None and (restart := read_recovery(profile).get("restart")) is not None:
        assessment = replace(assessment, settings=replace(assessment.settings, restart=restart))
    problem = problem_of(graph, assessment)
    curve = tradeoff(problem, parse_budget(budget, bound))
    best = curve.steps[-1].protection
    return ProtectionForBudget(curve, plan_with_protection(graph, best, assessment.settings.replicas))


def _costs(profile: Path | None, graph: Graph) -> dict[str, OperatorCosts]:
    """Measured costs: estimates for replicas, checkpoints and backups are off by orders of magnitude."""
    measure = f"measure it with `riprap profile {graph.name} --costs --out {profile or 'profile.toml'}`"
    if profile is None:
        raise PlanError(
            f"a budget needs the cost of protecting {graph.name}: {measure}, and give it with `profile=profile.toml`"
        )
    costs = read_costs(profile)
    names = [operator.name for operator in graph]
    for name in costs:
        if name not in graph:
            raise PlanError(
                f"{profile} has costs of operator {name}, which {graph.name} does not have: {known(names, name)}"
            )
    missing = [spec.name for spec in graph if spec.name not in costs and not isinstance(spec, Sink)]
    if missing:
        of = f" of {', '.join(missing)}" if costs else ""
        raise PlanError(f"{profile} lacks the costs of protection{of}: {measure}")
    return costs


def reassessed(graph: Graph, chosen: Plan, directory: Path, osf: OutputScores = ()) -> dict[str, dict[str, float]]:
    """Repeats the assessment under the chosen plan: the impact of each protected operator before and after.

    `osf`: output score functions; the user's own functions must be given again.
    """
    path = files.real(directory) / "reassessed-plan.toml"
    files.write_text(path, write_plan(chosen))
    assessment = run_request(read_request(directory, AssessRequest, graph, path, osf), directory)
    like = {place.operator: place.operator if place.chosen else place.like for place in assessment.placed}
    before = {summary.target: float(summary.paired.I) for summary in assessment.summaries}
    return {
        name: {"before": before[like[name]], "after": float(summary.paired.I)}
        for name, summary in assessment.protected.items()
        if like[name] in before
    }
