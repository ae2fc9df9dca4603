"""The loop from Python: what `import riprap` offers. The commands of `riprap` do the same.

    import riprap

    assessment = riprap.assess("bargain-discovery", "market.parquet")
    plan = riprap.plan("bargain-discovery", recovery="5s", latency="1s")
    plan.save("plan.toml")
    proof = riprap.prove("bargain-discovery", "market.parquet", plan=plan, out="proof", seconds="30s")

`app` is the name of a bundled app, `module:attribute`, an `App` or a `Graph`. `inputs` is a path, an Arrow table or a
DataFrame of Spark, pandas or Polars where the app has one source, and a mapping by source otherwise. Durations are
texts ("2s") or `timedelta`. `spark`: the session to use instead of an embedded one. Results are frozen.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from riprap.api import prove as proving
from riprap.api import run as running
from riprap.api.app_inputs import AnyApp, AnyInputs, as_graph, duration_text, input_paths
from riprap.api.app_inputs import seconds as in_seconds
from riprap.api.assess import Assessment, run_request
from riprap.api.job_inputs import prepared_inputs
from riprap.api.measure import measure_inputs
from riprap.api.model import Prediction, describe_app, protections_of
from riprap.api.model import model as predict
from riprap.api.plan import ProtectionForBudget, plan_budget
from riprap.api.protect import ProtectSettings, protect_app
from riprap.api.prove_options import ProveOptions
from riprap.api.record_job import JobRecording, record_job
from riprap.api.recovery_plan import RecoveryPlan, plan_recovery
from riprap.api.request import SCALES, AssessRequest, OutputScores
from riprap.api.run import RunResult
from riprap.api.run_options import ResumeOptions, RunOptions
from riprap.base import files
from riprap.base.errors import UsageError
from riprap.base.options import takes
from riprap.base.quantities import Duration, parse_duration
from riprap.base.scratch import scratch
from riprap.graph.graph import Graph
from riprap.graph.plan_file import Plan, read_plan, write_plan
from riprap.planner.measured import Measured
from riprap.planner.slo import Slo
from riprap.proof.protection_results import Protection
from riprap.proof.verdict import Proof
from riprap.san.replicate import in_threads
from riprap.san.statistics import Precision
from riprap.san.streaming.failures import Faults

AnyPlan = str | Path | Plan | RecoveryPlan | ProtectionForBudget


def from_spark(frames: Any, *, name: str = "job") -> Graph:
    """The app of a DataFrame, or of several that may share sources: streaming or static, and not started.

    It goes wherever an app goes. If it has an operator that only Spark runs, it can be assessed and planned, not run;
    `riprap graph --explain` says which.

        app = riprap.from_spark(volumes, name="volumes")
        riprap.assess(app, {"clicks": "recorded/clicks.parquet"})
    """
    from riprap.spark.jobs.job_files import graph_of_frames

    return graph_of_frames(frames, name)


def assess(
    app: AnyApp, inputs: AnyInputs = None, *, out: Path | str = "assessment", spark: Any = None, **options: Any
) -> Assessment:
    """Inject faults operator by operator, and rank the operators by what their loss does to the output.

    Options are the fields of `riprap.api.request.AssessRequest`. Without `inputs` a bundled app gets generated data.

        found = riprap.assess("bargain-discovery", scale="demo", reps=1, golden=4)
        found.to_pandas()[["operator", "I", "verdict"]]
    """
    graph = as_graph(app)
    with _inputs(graph, inputs, options, assessed=True) as paths:
        return run_request(AssessRequest(graph, paths, **options), Path(out), spark=spark)


def protect(
    app: AnyApp,
    inputs: AnyInputs = None,
    *,
    slo: Slo,
    out: Path | str = "protection",
    score: OutputScores = (),
    spark: Any = None,
    seed: int = 1,
    **options: Any,
) -> Protection:
    """The cheapest protection that keeps every line of your objectives, proven by real kills.

    Options are the fields of `riprap.api.protect.ProtectSettings`. The same call goes on after an interruption.

        found = riprap.protect(app, "clicks.parquet", slo=riprap.Slo(recovery="5s", wrong="1%"), out="protection")
        found.kept, found.price
    """
    graph = as_graph(app)
    with _inputs(graph, inputs, {"seed": seed}) as paths:
        settings = ProtectSettings(seed=seed, **options)
        return protect_app(graph, paths, slo, Path(out), scores=score, settings=settings, spark=spark)


def measure(app: AnyApp, inputs: AnyInputs = None, *, spark: Any = None, seed: int = 1, **options: Any) -> Measured:
    """What operators do, how they recover, and what protecting them costs, from short real runs.

    Options are those of `riprap.api.measure.measure_inputs`.

        found = riprap.measure("bargain-discovery", kills=4)
        found.operators["Aggregator"].restart
    """
    graph = as_graph(app)
    with _inputs(graph, inputs, {"seed": seed}) as paths, scratch("measure") as directory:
        return measure_inputs(graph, paths, directory, spark=spark, **options).measured


def model(
    app: AnyApp,
    inputs: AnyInputs = None,
    *,
    techniques: Sequence[str] = (),
    plan: AnyPlan | None = None,
    mtbf: str | timedelta = "1h",
    recovery: str | timedelta = "3.5s",
    simulated: str | timedelta = "2h",
    calibrate: bool = False,
    seed: int = 1,
    precision: Precision | None = None,
) -> Prediction:
    """Predict availability and tainted tuples over hours of crashes, for each technique.

    `mtbf`: mean time between crashes of an operator. `techniques`: none, checkpoint, ha-group, full-replication, for
    every operator that each can protect; by default what the app and the plan say.

        riprap.model("bargain-discovery", techniques=["none", "checkpoint"]).to_pandas()
    """
    graph = as_graph(app)
    with plan_file(plan) as path:
        graph = read_plan(path).apply(graph) if path is not None else graph
    with _inputs(graph, inputs, {"seed": seed}) as paths:
        application, stability = describe_app(graph, paths, calibrated=calibrate, seed=seed)
    faults = Faults(1.0 / in_seconds(mtbf), 0.0, in_seconds(recovery))
    protected = protections_of(graph, techniques)
    hours = in_seconds(simulated) / 3600
    return predict(
        graph, application, protected, faults, hours, in_threads(), precision=precision, seed=seed, stability=stability
    )


def plan(
    app: AnyApp | Path,
    *,
    recovery: str | timedelta | None = None,
    budget: str | None = None,
    assessment: Path | str | Sequence[Path | str] = (),
    profile: Path | str | None = None,
    **options: Any,
) -> RecoveryPlan | ProtectionForBudget:
    """The fewest backups for a recovery bound, or the best protection for a budget.

    `recovery` alone: options are those of `riprap.api.recovery_plan.plan_recovery`, and `app` may be a topology file.
    With a `budget`, which needs the directory of an `assessment` and a `profile` of costs: also within that bound.

        riprap.plan("bargain-discovery", recovery="5s", latency="1s").save("plan.toml")
    """
    bound = None if recovery is None else duration_text(recovery)
    if budget is None:
        if bound is None:
            raise UsageError('plan what? give recovery="5s", or a budget and an assessment')
        target = str(app) if isinstance(app, str | Path) else as_graph(app)  # a text may name a topology file
        return plan_recovery(target, bound, profile=profile, **options)
    given = [assessment] if isinstance(assessment, str | Path) else list(assessment)
    if isinstance(app, Path) or not given:
        raise UsageError("a plan for a budget needs an app and the directory of its assessment: assessment=…")
    limit = parse_duration(bound) if bound is not None else None
    chosen = Path(profile) if profile is not None else None
    return plan_budget(as_graph(app), [Path(path) for path in given], budget, limit, profile=chosen, **options)


def record(
    job: str,
    *,
    out: Path | str = "recorded",
    seconds: str | float | timedelta = "10m",
    hash: Sequence[str] = (),
    drop: Sequence[str] = (),
    spark: Any = None,
) -> JobRecording:
    """Run only the sources of a PySpark script, `job.py` or `job.py:QUERY`, and keep what they bring.

    `hash`, `drop`: columns whose values are replaced by keyed hashes, or left out. `out` must be new or empty.

        riprap.record("job.py", out="recorded", seconds="10m", hash=["email"]).paths
    """
    return record_job(job, Path(out), in_seconds(seconds), hash=hash, drop=drop, spark=spark)


@takes(RunOptions)
def run(
    app: AnyApp,
    inputs: AnyInputs = None,
    *,
    out: Path | str,
    plan: AnyPlan | None = None,
    seconds: str | float | timedelta | None = None,
    spark: Any = None,
    **options: Any,
) -> RunResult:
    """Run an app on Spark until its inputs end, or for some `seconds`; `out`, its directory, must be new or empty.

    Options are the fields of `riprap.api.run_options.RunOptions`. An input that is a table or DataFrame is written
    beside the run, so that the run can be resumed.

        result = riprap.run("bargain-discovery", out="run", plan="plan.toml", rate=20_000, kill="Aggregator@4s")
        result.sink("Sink").num_rows
    """
    graph = as_graph(app)
    limit = None if seconds is None else in_seconds(seconds)
    with plan_file(plan) as path, _inputs(graph, inputs, options, beside=Path(out)) as paths:
        return running.run(
            app if isinstance(app, str) else graph, paths, out=out, plan=path, seconds=limit, spark=spark, **options
        )


@takes(ResumeOptions)
def resume(
    directory: Path | str, app: AnyApp | None = None, *, seconds: str | float | timedelta | None = None, **options: Any
) -> RunResult:
    """Go on with a run whose driver was killed or interrupted. Your own app must be given again.

    Options are the fields of `riprap.api.run_options.ResumeOptions`.

        riprap.resume("run")
    """
    limit = None if seconds is None else in_seconds(seconds)
    return running.resume(directory, app=app, seconds=limit, **options)


@takes(ProveOptions)
def prove(
    app: AnyApp,
    inputs: AnyInputs = None,
    *,
    out: Path | str,
    plan: AnyPlan | None = None,
    seconds: str | float | timedelta = 60.0,
    recovery: str | timedelta | None = None,
    **options: Any,
) -> Proof:
    """Run an app under its plan, kill things, and check its output and recoveries against what the plan promises.

    Options are the fields of `riprap.api.prove_options.ProveOptions`.

        proof = riprap.prove("bargain-discovery", plan="plan.toml", out="proof", seconds="30s", seed=7)
        proof.holds, proof.broken
    """
    graph = as_graph(app)
    bound: Duration | None = None if recovery is None else parse_duration(duration_text(recovery))
    with plan_file(plan) as path, _inputs(graph, inputs, options) as paths:
        return proving.prove(
            app if isinstance(app, str) else graph, paths, out=out, plan=path, seconds=in_seconds(seconds),
            recovery=bound, **options,
        )  # fmt: skip


@contextmanager
def plan_file(plan: AnyPlan | None) -> Iterator[Path | None]:
    """A plan in any form as the path of a plan file."""
    if plan is None or isinstance(plan, str | Path):
        yield None if plan is None else Path(plan)
        return
    text = plan.text if isinstance(plan, RecoveryPlan) else write_plan(plan if isinstance(plan, Plan) else plan.plan)
    with scratch("plan") as place:
        files.write_text(place / "plan.toml", text)
        yield place / "plan.toml"


@contextmanager
def _inputs(
    graph: Graph, inputs: AnyInputs, options: Mapping[str, Any], beside: Path | None = None, *, assessed: bool = False
) -> Iterator[dict[str, Path]]:
    if not assessed:
        graph.check_runs()
    if inputs is None and any(source.recorded is not None for source in graph.sources):
        yield dict(prepared_inputs(graph, {}).paths)
        return
    if inputs is None:
        from riprap.apps.samples import cache_directory, sample_inputs

        scale = SCALES.get(options.get("scale", "demo"), SCALES["demo"])
        yield dict(sample_inputs(graph, scale.tuples, options.get("seed", 2), cache_directory()))
        return
    with input_paths(graph, inputs, beside) as paths:
        yield paths
