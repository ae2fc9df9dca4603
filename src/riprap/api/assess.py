"""`assess`: injects faults into an app, operator by operator, and finds the operators worth protecting.

result = riprap.assess("bargain-discovery")
result.operators.show()      # a DataFrame: one row per operator and sink
result.trials.show()         # one row per trial
result                       # in a notebook: the graph and the table
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from pathlib import Path
from typing import Any

from riprap.api.impact import write_impact, write_request
from riprap.api.request import AssessRequest, functions_of, settings_of
from riprap.apps.catalogue import load_app
from riprap.base import files
from riprap.base.errors import without_secrets
from riprap.base.quantities import Duration, format_count, format_duration, parse_duration
from riprap.base.tabular import Tabular
from riprap.faults.campaign_settings import CampaignSettings, NothingToAssess
from riprap.faults.campaign_summary import Metrics, TargetSummary, summarise
from riprap.faults.models import ALTERS, state_after
from riprap.faults.operator_advice import OperatorAdvice, checkpointed, deciding, unprotected, verdicts
from riprap.faults.ordering import MetricOrder, orders, spread, unsteady
from riprap.faults.protected import proposed_plan, protected_targets
from riprap.faults.quality_metrics import can_tell
from riprap.faults.score_functions import ScoreFunction
from riprap.faults.targets import TargetChoice, placements
from riprap.graph.graph import Graph
from riprap.graph.plan_file import Plan, read_plan, write_plan
from riprap.report.assess import AssessmentReport, report, summary_blocks
from riprap.spark.campaign_job import CampaignResult, Tell, Warn, golden_frame, rows_frame, run_campaign, trials_frame
from riprap.spark.plan_campaign import run_plan_campaign
from riprap.spark.plan_operators import SparkGraph


@dataclass(frozen=True)
class Assessment(Tabular):
    """The outcome of an assessment. Its directory has the report and everything else; `save` copies the figures."""

    graph: Graph
    result: CampaignResult
    placed: Sequence[TargetChoice]
    summaries: Sequence[TargetSummary]  # of operators without protection
    checkpointed: Sequence[TargetSummary]  # of operators with state, from a checkpoint
    verdicts: Mapping[str, OperatorAdvice]
    protected: Mapping[str, TargetSummary]
    plan: Plan  # proposed by the verdicts
    content: AssessmentReport
    report: Path
    order: Mapping[str, Mapping[str, MetricOrder]]  # by sink and metric, with its confidence
    spread: Mapping[str, float]  # by sink: how much its score varies over golden runs

    def rows(self) -> list[dict[str, Any]]:
        """The metrics of each operator at each sink."""
        return [
            {
                "sink": s.sink,
                "operator": s.target,
                "state": s.outcome,
                **_flat(s.paired),
                "verdict": self.verdicts[s.target].advice,
                "route": self.result.route,
            }
            for s in (*self.summaries, *self.checkpointed)
        ]

    @property
    def operators(self) -> Any:
        """The rows as a DataFrame of Spark."""
        return rows_frame(self.to_arrow())

    @property
    def trials(self) -> Any:
        """A DataFrame with one row per trial and sink."""
        return trials_frame(self.result)

    @property
    def golden(self) -> Any:
        """A DataFrame with one row per golden run and sink."""
        return golden_frame(self.result)

    def _repr_html_(self) -> str:
        return "\n".join(summary_blocks(self.content))

    def save(self, path: Path | str) -> None:
        """The figures as JSON."""
        files.write_text(files.real(path), json.dumps(self.to_json(), indent=2) + "\n")

    def to_json(self) -> dict[str, Any]:
        """The object that `--json` prints. With several sinks, `operators` has the one that decides the verdict."""
        settings, left_out = self.result.settings, self.result.unassessable
        worst, saved = deciding(self.summaries), deciding(self.checkpointed)
        out: dict[str, Any] = {
            "operators": {
                name: _shown(summary.paired)
                | {"verdict": self.verdicts[name].advice, "route": self.result.route}
                | ({"sink": summary.sink} if len(settings.scores) > 1 else {})
                | ({"checkpointed": _shown(saved[name].paired)} if name in saved else {})
                for name, summary in worst.items()
            },
            "campaign": {
                "trials": self.result.trials.num_rows // len(settings.scores),
                "golden": settings.golden,
                "tuples": self.result.tuples,
                "targets": len(settings.targets),
                "offsets": list(settings.offsets),
                "seed": settings.seed,
                "seeds": [settings.jitter(run).seed for run in range(settings.reps)],
                "seconds": round(self.result.seconds, 3),
                "resumed_waves": self.result.resumed,
                "score_spread": dict(self.spread),
            },
            "order": {
                sink: {metric: asdict(order) for metric, order in found.items()} for sink, found in self.order.items()
            },
            "report": str(self.report),
        }
        if left_out:
            out["unassessable"] = dict(left_out)
        if self.protected:
            out["protected"] = {name: _shown(summary.paired) for name, summary in self.protected.items()}
        if len(settings.scores) > 1:
            out["sinks"] = {
                sink: {s.target: _shown(s.paired) for s in self.summaries if s.sink == sink} for sink in settings.scores
            }
        return out


def _shown(metrics: Metrics) -> dict[str, Any]:
    return {"C": metrics.C, "D": [_bounded(metrics.D[0]), metrics.D[1]], "R": metrics.R, "I": metrics.I}


def _flat(metrics: Metrics) -> dict[str, Any]:
    sigma = _bounded(metrics.D[0])
    return {"C": metrics.C, "D_sigma": sigma, "D_anova": metrics.D[1], "R": metrics.R, "I": metrics.I}


def _bounded(value: float) -> float | None:
    """None for infinity, which JSON cannot hold."""
    return value if isfinite(value) else None


def run_request(
    request: AssessRequest, out: Path, *, spark: Any = None, tell: Tell | None = None, warn: Warn | None = None
) -> Assessment:
    """Run or resume an assessment and write the report and the proposed plan to `out`.

    `warn` is called at once for operators that cannot be assessed; the result lists them, too.
    """
    graph = load_app(request.app) if isinstance(request.app, str) else request.app
    settings = settings_of(graph, request)
    out = files.real(out)
    files.refuse_links(out)
    plan = read_plan(request.plan) if request.plan is not None else None
    failover = parse_duration(request.failover)
    if plan is not None:
        plan.apply(graph)  # raises before anything runs
    functions = functions_of(graph, request)
    result = _campaign(graph, settings, request, out / "campaign", functions, spark, tell, warn)
    settings = result.settings
    measured = summarise(settings, result.trials, result.golden, result.tuples)
    placed = placements(graph, settings.fault, settings.scores, state_after(settings.fault, request.state))
    sources = frozenset(source.name for source in graph.sources)
    advice = verdicts(graph, placed, measured, failover, altered=settings.fault in ALTERS, replayed=sources)
    summaries, saved = unprotected(measured), checkpointed(measured)
    proposed = proposed_plan(graph, advice)
    steady = spread(result.golden)
    order = {sink: orders(settings, summaries, sink) for sink in settings.scores}
    if plan is None and request.reassess and settings.fault == "loss":  # plans protect against nothing else
        plan = proposed
    protected = _protected(graph, settings, request, out, plan, result, spark, tell) if plan is not None else {}
    content = AssessmentReport(
        graph, settings, placed, summaries, saved, advice, protected, _techniques(graph, plan),
        _facts(result, summaries),
        _method(request, result), [*_left_out(result), *unsteady(settings, steady), *_warnings(settings, summaries)],
        write_plan(proposed), order, result.unassessable,
    )  # fmt: skip
    files.write_text(out / "plan.toml", write_plan(proposed))
    write_impact(graph, request.inputs, placed, measured, result.unassessable, out, result.resources)
    write_request(request, out)
    files.write_text(out / "report.html", report(content))
    return Assessment(
        graph, result, placed, summaries, saved, advice, protected, proposed, content, out / "report.html", order,
        steady,
    )  # fmt: skip


def _campaign(
    graph: Graph, settings: CampaignSettings, request: AssessRequest, path: Path,
    functions: Mapping[str, ScoreFunction], spark: Any, tell: Tell | None, warn: Warn | None,
    recorded: Path | None = None,
) -> CampaignResult:  # fmt: skip
    """By our engine, or in Spark's own plan where a job has nodes that our engine does not know."""
    if isinstance(graph, SparkGraph) and graph.plans is not None:
        return run_plan_campaign(graph.plans, settings, request.inputs, path, functions=functions, tell=tell, warn=warn)
    return run_campaign(
        graph, settings, request.inputs, path, functions=functions, recorded=recorded, spark=spark, tell=tell, warn=warn
    )


def _protected(
    graph: Graph, settings: CampaignSettings, request: AssessRequest, out: Path, plan: Plan,
    before: CampaignResult, spark: Any, tell: Tell | None,
) -> dict[str, TargetSummary]:  # fmt: skip
    """The campaign again, with faults as under the plan; by operator, for the sink that decides its verdict.

    Its figures are paired, so it needs only the golden runs of the repetitions. Each plan has its own directory and
    campaign.
    """
    placed = placements(graph, settings.fault, settings.scores, state_after(settings.fault, request.state))
    targets = protected_targets(graph, settings, placed, plan, parse_duration(request.failover))
    if not targets:
        return {}
    again = replace(settings, targets=tuple(dict.fromkeys(targets.values())), golden=settings.reps)
    recorded = before.path / "recorded"
    name = f"protected-{blake2b((write_plan(plan) + request.failover).encode(), digest_size=4).hexdigest()}"
    try:
        functions = functions_of(graph, request)
        result = _campaign(graph, again, request, out / name, functions, spark, tell, None, recorded)
    except NothingToAssess:
        return {}
    by_target = deciding(summarise(result.settings, result.trials, result.golden, result.tuples))
    return {name: by_target[target.name] for name, target in targets.items() if target.name in by_target}


def _techniques(graph: Graph, plan: Plan | None) -> dict[str, str]:
    """The protection of each operator under a plan, in words; unprotected operators are left out."""
    protected = plan.apply(graph) if plan is not None else graph
    words = {spec.name: ", ".join(spec.annotations.describe()) for spec in protected}
    return {name: text for name, text in words.items() if text}


def _facts(result: CampaignResult, summaries: Sequence[TargetSummary]) -> dict[str, str]:
    worst = max(summaries, key=lambda summary: summary.paired.I)
    return {
        "most critical": worst.target,
        "injections": format_count(result.trials.num_rows // len(result.settings.scores)),
        "golden runs": format_count(result.settings.golden),
        "tuples each": format_count(result.tuples),
        "took": f"{result.seconds:.0f} s",
    }


def _method(request: AssessRequest, result: CampaignResult) -> dict[str, str]:
    settings = result.settings
    time = format_duration(settings.jitter_time or Duration(0))
    bound = f"{settings.jitter_tuples} tuples" if settings.jitter_tuples is not None else time
    how = "key by key" if result.divided else "whole"
    own = result.route == "spark"
    return {
        "data": ", ".join(f"{name}: {path.name}" for name, path in request.inputs.items()),
        "route": "all operators: faults in Spark's own plan" if own else "all operators: compiled, by our engine",
        "seed": f"{settings.seed}; "
        + (
            f"repetition k shifts the outage by up to {bound}"
            if own
            else f"repetition k uses the arrival jitter (up to {bound}) of golden run k"
        ),
        "replay": "the whole plan, as a Spark job" if own else f"{how}, from the golden state at the offset",
        "versions": ", ".join(f"{name} {_version(name)}" for name in ("riprap", "pyspark", "pyarrow", "numba")),
        "command": without_secrets(request.command or " ".join(sys.argv)),
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "from source"


def _left_out(result: CampaignResult) -> list[str]:
    if result.route == "spark":
        return [_SPARK_ROUTE, *_not_assessed(result)]
    return _not_assessed(result)


_SPARK_ROUTE = (
    "Trials ran in Spark's own plan, because our engine does not know every node of this job. Golden runs are equal, "
    "and costs in assessment.json are estimates: cores from the rate, state as at most all of the input."
)


def _not_assessed(result: CampaignResult) -> list[str]:
    return [f"{name} was not assessed: {reason}." for name, reason in result.unassessable.items()]


def _warnings(settings: CampaignSettings, summaries: Sequence[TargetSummary]) -> list[str]:
    warnings = []
    if not can_tell(settings.golden, settings.reps):
        warnings.append(
            f"{settings.golden} golden runs and {settings.reps} repetitions are too few to tell whether a score reacts "
            "to these faults (Kolmogorov–Smirnov, α = 0.05): give more with `golden` and `reps`."
        )
    for sink in dict.fromkeys(summary.sink for summary in summaries):
        own = [summary for summary in summaries if summary.sink == sink]
        if can_tell(settings.golden, settings.reps) and not any(summary.sensitive for summary in own):
            warnings.append(
                f"The output score function of {sink} does not react to any of these faults "
                "(Kolmogorov–Smirnov, α = 0.05): choose another one, or more repetitions and golden runs."
            )
        flagged = sum(summary.flagged for summary in own)
        if flagged:
            warnings.append(
                f"{flagged} sections of {sink} had a golden score of 0 and a faulty one that is not: "
                "each counts as an error of 1."
            )
    return warnings
