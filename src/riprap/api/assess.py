"""`assess`: inject faults into an app, operator by operator, and say which operators are worth protecting.

from riprap.api.assess import assess
result = assess("bargain-discovery")
result.operators.show()      # a DataFrame: one row per operator and sink
result.trials.show()         # one row per trial
result                       # in a notebook: the graph and the table
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyarrow as pa

from riprap.api.impact import write_impact, write_request
from riprap.apps.catalogue import load_app
from riprap.base.errors import UsageError, known
from riprap.base.quantities import Duration, format_count, format_duration, parse_duration
from riprap.engine.inputs import count_rows
from riprap.faults.campaign import Rate, Settings, Target, counts_jitter_in_tuples
from riprap.faults.models import parse_kind, parse_state
from riprap.faults.placement import Placement, chosen_targets, placements
from riprap.faults.scoring import default_score, parse_score
from riprap.faults.summary import Metrics, TargetSummary, summarise
from riprap.faults.verdict import Verdict, proposed_plan, protected_targets, verdicts
from riprap.graph.graph import Graph
from riprap.graph.plan import Plan, read_plan, write_plan
from riprap.report.assessment import AssessmentReport, report, summary_blocks
from riprap.spark.campaign import CampaignResult, Tell, golden_frame, rows_frame, run_campaign, trials_frame


@dataclass(frozen=True)
class Scale:
    """How much is tried when nothing else is said."""

    tuples: int  # of generated data
    offsets: tuple[float, ...]  # as shares of the stream
    outages: tuple[str, ...]
    reps: int
    golden: int


SCALES: Mapping[str, Scale] = {
    "demo": Scale(500_000, (0.2, 0.5, 0.8), ("0.5s", "2s", "8s", "16s"), 2, 20),
    "paper": Scale(5_000_000, (0.1, 0.3, 0.5, 0.7, 0.9), ("0.5s", "1s", "2s", "4s", "8s", "16s"), 5, 300),
}


@dataclass(frozen=True)
class Request:
    """What a user asks for; None where the scale says. Texts are as on the command line."""

    app: str | Graph
    inputs: Mapping[str, Path]
    scale: str = "demo"
    fault: str = "loss"
    state: str = "kept"
    targets: str = "auto"
    offsets: Sequence[int] | None = None
    outages: Sequence[str] | None = None
    rates: Sequence[str] = ("average", "peak")
    reps: int | None = None
    golden: int | None = None
    section: int = 5_000
    threshold: float = 0.03
    percentile: float = 90.0
    seed: int = 2
    osf: Sequence[str] = ()
    jitter: int | None = None
    plan: Path | None = None
    failover: str = "2s"
    signed: bool = False
    command: str = ""


@dataclass(frozen=True)
class Assessment:
    """The outcome of an assessment."""

    graph: Graph
    result: CampaignResult
    placed: Sequence[Placement]
    summaries: Sequence[TargetSummary]
    verdicts: Mapping[str, Verdict]
    protected: Mapping[str, TargetSummary]
    plan: Plan  # what follows from the verdicts
    content: AssessmentReport
    report: Path

    @property
    def operators(self) -> Any:
        """A DataFrame with the metrics of each operator at each sink."""
        rows = [
            {"sink": s.sink, "operator": s.target, **_flat(s.paired), "verdict": self.verdicts[s.target].advice}
            for s in self.summaries
        ]
        return rows_frame(pa.Table.from_pylist(rows))

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

    def to_json(self) -> dict[str, Any]:
        """The object that `--json` prints. With several sinks, `operators` has the sink that suffers most."""
        settings = self.result.settings
        worst: dict[str, TargetSummary] = {}
        for summary in self.summaries:
            if summary.target not in worst or summary.paired.I > worst[summary.target].paired.I:
                worst[summary.target] = summary
        out: dict[str, Any] = {
            "operators": {
                name: _shown(summary.paired) | {"verdict": self.verdicts[name].advice}
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
            },
            "report": str(self.report),
        }
        if self.protected:
            out["protected"] = {name: _shown(summary.paired) for name, summary in self.protected.items()}
        if len(settings.scores) > 1:
            out["sinks"] = {
                sink: {s.target: _shown(s.paired) for s in self.summaries if s.sink == sink} for sink in settings.scores
            }
        return out


def _shown(metrics: Metrics) -> dict[str, Any]:
    return {"C": metrics.C, "D": list(metrics.D), "R": metrics.R, "I": metrics.I}


def _flat(metrics: Metrics) -> dict[str, Any]:
    return {"C": metrics.C, "D_sigma": metrics.D[0], "D_anova": metrics.D[1], "R": metrics.R, "I": metrics.I}


def assess(
    app: str | Graph,
    inputs: Mapping[str, Path | str] | Path | str | None = None,
    *,
    out: Path | str = "assessment",
    **options: Any,
) -> Assessment:
    """Assess an app (its name, `module:attribute`, or a graph). Options are the fields of `Request`."""
    graph = load_app(app) if isinstance(app, str) else app
    if inputs is None:
        from riprap.apps.samples import cache_directory, sample_inputs

        scale = SCALES.get(options.get("scale", "demo"), SCALES["demo"])
        inputs = dict(sample_inputs(graph, scale.tuples, options.get("seed", 2), cache_directory()))
    elif not isinstance(inputs, Mapping):
        inputs = {graph.sources[0].name: inputs}
    paths = {name: Path(path) for name, path in inputs.items()}
    return run_request(Request(graph, paths, **options), Path(out))


def run_request(request: Request, out: Path, *, spark: Any = None, tell: Tell | None = None) -> Assessment:
    """Run what was asked for, or what is left of it, and write the report and the plan to `out`."""
    graph = load_app(request.app) if isinstance(request.app, str) else request.app
    settings = settings_of(graph, request)
    plan = read_plan(request.plan) if request.plan is not None else None
    failover = parse_duration(request.failover)
    targets = protected_targets(graph, settings, plan, failover) if plan is not None else {}
    result = run_campaign(graph, settings, request.inputs, out / "campaign", spark=spark, tell=tell)
    summaries = summarise(settings, result.trials, result.golden, result.tuples)
    protected = _protected(graph, settings, request, out, targets, result, spark, tell)
    placed = placements(graph, settings.fault, settings.scores)
    found = verdicts(graph, placed, summaries, failover)
    proposed = proposed_plan(graph, found)
    content = AssessmentReport(
        graph, settings, placed, summaries, found, protected, _facts(result, summaries), _method(request, result),
        _warnings(summaries), write_plan(proposed),
    )  # fmt: skip
    (out / "plan.toml").write_text(write_plan(proposed))
    write_impact(graph, settings, request.inputs, placed, summaries, out)
    write_request(request, out)
    (out / "report.html").write_text(report(content))
    return Assessment(graph, result, placed, summaries, found, protected, proposed, content, out / "report.html")


def settings_of(graph: Graph, request: Request) -> Settings:
    """The request as settings of a campaign; raises for what cannot be."""
    if request.scale not in SCALES:
        raise UsageError(f"scale {request.scale} is unknown; known: {known(SCALES, request.scale)}")
    scale = SCALES[request.scale]
    kind = parse_kind(request.fault)
    scores = _scores(graph, request.osf)
    state = parse_state(request.state)
    targets = tuple(
        Target(tuple(name.split("+")), state) for name in chosen_targets(graph, request.targets, kind, scores)
    )
    tuples = sum(count_rows(path) for path in request.inputs.values())
    offsets = request.offsets if request.offsets is not None else [round(share * tuples) for share in scale.offsets]
    rates: list[Rate] = []
    for text in request.rates:
        if text not in ("average", "peak"):
            raise UsageError(f"rate {text} is unknown; known: average, peak")
        rates.append("average" if text == "average" else "peak")
    reps = request.reps if request.reps is not None else scale.reps
    bound = request.jitter if request.jitter is not None else 10
    one = counts_jitter_in_tuples(graph)
    return Settings(
        targets=targets,
        offsets=tuple(sorted(set(offsets))),
        scores=scores,
        fault=kind,
        outages=tuple(sorted({parse_duration(text) for text in request.outages or scale.outages})),
        rates=tuple(dict.fromkeys(rates)),
        reps=reps,
        golden=request.golden if request.golden is not None else max(scale.golden, reps),
        section=request.section,
        threshold=request.threshold,
        percentile=request.percentile / 100,
        seed=request.seed,
        jitter_tuples=bound if one else None,
        jitter_time=None if one else Duration(bound * 2_000),
        signed=request.signed,
    )


def _scores(graph: Graph, given: Sequence[str]) -> dict[str, str]:
    """An output score function for each assessed sink: `sum(gain)`, or `SINK=sum(gain)` where there are several."""
    names = [sink.name for sink in graph.sinks]
    if not names:
        raise UsageError(f"app {graph.name} has no sink, so there is no output to score; add stream.sink(name)")
    scores: dict[str, str] = {}
    for text in given:
        name, equals, function = text.partition("=")
        if not equals or name not in names:
            if len(names) > 1:
                raise UsageError(f"--osf {text}: write SINK=FUNCTION; the sinks are {known(names, name)}")
            name, function = names[0], text
        scores[name] = function
    if not scores:
        scores = {name: default_score(graph.input_schemas(name)[0]) for name in names}
    for name, function in scores.items():
        parse_score(function, graph.input_schemas(name)[0], name)
    return scores


def _protected(
    graph: Graph, settings: Settings, request: Request, out: Path, targets: Mapping[str, Target],
    before: CampaignResult, spark: Any, tell: Tell | None,
) -> dict[str, TargetSummary]:  # fmt: skip
    """The campaign again, with what the plan makes of the faults; by operator, for the sink that suffers most."""
    if not targets:
        return {}
    again = replace(settings, targets=tuple(dict.fromkeys(targets.values())))
    recorded = before.path / "recorded"
    result = run_campaign(graph, again, request.inputs, out / "protected", recorded=recorded, spark=spark, tell=tell)
    found = summarise(again, result.trials, result.golden, result.tuples)
    return {
        name: max((s for s in found if s.target == target.name), key=lambda s: s.paired.I)
        for name, target in targets.items()
    }


def _facts(result: CampaignResult, summaries: Sequence[TargetSummary]) -> dict[str, str]:
    worst = max(summaries, key=lambda summary: summary.paired.I)
    return {
        "most critical": worst.target,
        "injections": format_count(result.trials.num_rows // len(result.settings.scores)),
        "golden runs": format_count(result.settings.golden),
        "tuples each": format_count(result.tuples),
        "took": f"{result.seconds:.0f} s",
    }


def _method(request: Request, result: CampaignResult) -> dict[str, str]:
    settings = result.settings
    time = format_duration(settings.jitter_time or Duration(0))
    bound = f"{settings.jitter_tuples} tuples" if settings.jitter_tuples is not None else time
    how = "key by key" if result.divided else "whole"
    return {
        "data": ", ".join(f"{name}: {path.name}" for name, path in request.inputs.items()),
        "seed": f"{settings.seed}; repetition k has the arrival jitter (up to {bound}) of golden run k",
        "replay": f"{how}, from the golden state at the offset",
        "versions": ", ".join(f"{name} {_version(name)}" for name in ("riprap", "pyspark", "pyarrow", "numba")),
        "command": request.command or " ".join(sys.argv),
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "from source"


def _warnings(summaries: Sequence[TargetSummary]) -> list[str]:
    warnings = []
    for sink in dict.fromkeys(summary.sink for summary in summaries):
        own = [summary for summary in summaries if summary.sink == sink]
        if not any(summary.sensitive for summary in own):
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
