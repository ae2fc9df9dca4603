"""`plan`, for a budget: the best protection that an assessment's app gets for so much of cores, memory and storage.

from riprap.api.plan import plan_budget, reassessed
found = plan_budget(graph, [Path("assessment")], "cpu=2,memory=1GB", profile=Path("profile.toml"))
found.curve.steps[-1].protection    # what the whole budget buys
found.plan                          # the same as a plan that `riprap run` takes
reassessed(graph, found.plan, Path("assessment"))   # the impact of each protected operator, before and after
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from riprap.api.assess import run_request
from riprap.api.impact import read_request
from riprap.api.request import Request
from riprap.base.errors import PlanError, known
from riprap.base.quantities import Duration
from riprap.graph.graph import Graph
from riprap.graph.plan import Plan, write_plan
from riprap.planner.assessment import merged_assessment, read_assessment
from riprap.planner.budget import budget_problem, parse_budget
from riprap.planner.costs import OperatorCosts, read_costs
from riprap.planner.from_graph import plan_with_protection
from riprap.planner.tradeoff import Tradeoff, tradeoff


@dataclass(frozen=True)
class BudgetPlan:
    """What each step of a budget buys, and the plan of the last one."""

    curve: Tradeoff
    plan: Plan


def plan_budget(
    graph: Graph,
    assessments: Sequence[Path],
    budget: str,
    bound: Duration | None = None,
    *,
    profile: Path | None = None,
) -> BudgetPlan:
    """The assessments are directories of campaigns of this app; `bound` is that on recovery latency.

    `profile`: with the costs of techniques that `riprap profile --costs` measured, which are used instead of estimates.
    """
    assessment = merged_assessment([read_assessment(directory) for directory in assessments])
    if profile is not None:
        assessment = replace(assessment, costs=_costs(profile, graph))
    if assessment.app != graph.name:
        raise PlanError(f"the assessment in {assessments[0]} is of app {assessment.app}, and this is app {graph.name}")
    # Sinks hand over what they get: an assessment may leave them out.
    sinks = {sink.name for sink in graph.sinks} - set(assessment.operators)
    streams = [stream for stream in graph.streams if not {stream.source, stream.target} & sinks]
    asked = budget_problem(
        assessment,
        [(stream.source, stream.target) for stream in streams if stream.feedback is None],
        [(stream.source, stream.target) for stream in streams if stream.feedback is not None],
    )
    curve = tradeoff(asked, parse_budget(budget, bound))
    best = curve.steps[-1].protection
    return BudgetPlan(curve, plan_with_protection(graph, best, assessment.settings.replicas))


def _costs(profile: Path, graph: Graph) -> dict[str, OperatorCosts]:
    costs = read_costs(profile)
    if not costs:
        raise PlanError(
            f"{profile} does not say what techniques cost: measure it with `riprap profile {graph.name} --costs "
            f"--out {profile}`"
        )
    for name in costs:
        if name not in graph:
            names = [operator.name for operator in graph]
            raise PlanError(
                f"{profile} has costs of operator {name}, which {graph.name} does not have: {known(names, name)}"
            )
    return costs


def reassessed(graph: Graph, chosen: Plan, directory: Path) -> dict[str, dict[str, float]]:
    """The assessment again under the chosen plan: impact of each protected operator before and after."""
    path = directory / "reassessed-plan.toml"
    path.write_text(write_plan(chosen))
    found = run_request(read_request(directory, Request, graph, path), directory)
    like = {place.operator: place.operator if place.chosen else place.like for place in found.placed}
    before = {summary.target: float(summary.paired.I) for summary in found.summaries}
    return {
        name: {"before": before[like[name]], "after": float(summary.paired.I)}
        for name, summary in found.protected.items()
        if like[name] in before
    }
