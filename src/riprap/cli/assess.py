"""`riprap assess`: which operators of an app are worth protecting."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from riprap.cli.app_options import AppName, AsJson, InputPaths, input_paths, is_of_job
from riprap.cli.output_paths import output_directory

if TYPE_CHECKING:
    from riprap.api.assess import Assessment
    from riprap.graph.graph import Graph


def command(
    app: AppName,
    input: InputPaths = None,
    scale: Annotated[str, typer.Option(help="demo: under a minute. paper: the published experiment.")] = "demo",
    fault: Annotated[
        str, typer.Option(help="loss, duplicate, reorder, diverge, corrupt, corrupt-tuple, corrupt-state or sdc.")
    ] = "loss",
    state: Annotated[
        str,
        typer.Option(help="What a loss does to state: planned (lost; from a checkpoint), kept, lost, checkpoint(AGE)."),
    ] = "planned",
    targets: Annotated[
        str, typer.Option(help="auto, all, or names; A+B are operators that fail together.", metavar="auto|all|NAME,…")
    ] = "auto",
    colocated: Annotated[
        str | None,
        typer.Option(help="Targets are the elements of `run --fuse` auto, none or all: operators that fail together."),
    ] = None,
    offsets: Annotated[
        str | None,
        typer.Option(help="Positions of faults: tuples, or shares such as 0.3.", metavar="N,…", show_default="scale"),
    ] = None,
    outages: Annotated[
        str | None, typer.Option(help="Lengths of the outages.", metavar="0.5s,…", show_default="scale")
    ] = None,
    rates: Annotated[str, typer.Option(help="Rates that convert outages to tuples.")] = "average,peak",
    reps: Annotated[int | None, typer.Option(help="Repetitions of each trial.", show_default="scale")] = None,
    golden: Annotated[int | None, typer.Option(help="Golden runs, without a fault.", show_default="scale")] = None,
    section: Annotated[int, typer.Option(help="Input tuples per section of the output.")] = 5_000,
    threshold: Annotated[str, typer.Option(help="Error above which a section is wrong.")] = "3%",
    percentile: Annotated[float, typer.Option(help="Percentage of the wrong sections that R covers.")] = 90.0,
    seed: Annotated[int, typer.Option(help="Seed of the jitter and of generated data.")] = 2,
    osf: Annotated[
        list[str] | None,
        typer.Option(
            help='Output score function, as in "sum(gain)" or module:function; SINK=… for several sinks.',
            show_default="last column",
        ),
    ] = None,
    jitter: Annotated[int, typer.Option(help="Bound of the arrival jitter, in tuples.")] = 10,
    plan: Annotated[Path | None, typer.Option(help="A plan (TOML): also assess the app under it.")] = None,
    failover: Annotated[str, typer.Option(help="With a plan: time in which a replica takes over.")] = "2s",
    reassess: Annotated[bool, typer.Option(help="Assess again under the proposed plan.")] = True,
    signed: Annotated[bool, typer.Option("--signed", help="Count underestimates as negative in I.")] = False,
    errors: Annotated[str, typer.Option(help="absolute, or over: underestimates count as 0 in R and I.")] = "absolute",
    explain: Annotated[bool, typer.Option("--explain", help="Explain the choice of targets; run nothing.")] = False,
    master: Annotated[str | None, typer.Option(help="Spark master.", show_default="local[*]")] = None,
    out: Annotated[Path | None, typer.Option(help="Directory for results.", show_default="assessment-…")] = None,
    json: AsJson = False,
) -> None:
    """Inject faults operator by operator, measure their effect on the output, and advise what to protect."""
    from riprap.apps.catalogue import load_app

    graph = load_app(app)
    if colocated is not None:
        from riprap.base.errors import UsageError
        from riprap.cli.colocation import colocated_operators

        if targets != "auto":
            raise UsageError("--colocated selects the targets: leave --targets out")
        targets = ",".join("+".join(members) for members in colocated_operators(graph, colocated, "--colocated"))
    if explain:
        _explain(graph, fault, state, osf or [], as_json=json)
        return
    from riprap.api.assess import run_request
    from riprap.api.request import SCALES, AssessRequest, settings_of
    from riprap.base.errors import UsageError, known, without_secrets
    from riprap.base.quantities import parse_share
    from riprap.cli.console import ERR, print_json
    from riprap.graph.plan_file import read_plan
    from riprap.spark.session import session

    if scale not in SCALES:
        raise UsageError(f"--scale {scale} is unknown; known: {known(SCALES, scale)}")
    own = is_of_job(graph)  # with recordings instead of generated data
    if not json and not input and not own:
        ERR.print(f"{graph.name} over {SCALES[scale].tuples:,} generated tuples (seed {seed})")
    request = AssessRequest(
        graph,
        input_paths(graph, input, SCALES[scale].tuples, seed, assessed=True) if input or own else {},
        scale,
        fault,
        state,
        targets,
        [_offset(text) for text in _listed(offsets)] if offsets is not None else None,
        _listed(outages) if outages is not None else None,
        _listed(rates),
        reps,
        golden,
        section,
        parse_share(threshold, "--threshold", most=100.0),
        percentile,
        seed,
        osf or (),
        jitter,
        plan,
        failover,
        signed,
        without_secrets(" ".join(["riprap", *sys.argv[1:]])),
        reassess,
        errors,
    )
    folder = out or Path(f"assessment-{graph.name}-{scale}")
    output_directory(folder)
    # Invalid requests are refused before data is generated and Spark starts.
    settings_of(graph, request, None if input or own else SCALES[scale].tuples)
    if plan is not None:
        read_plan(plan).apply(graph)
    if not input and not own:
        request = replace(request, inputs=input_paths(graph, None, SCALES[scale].tuples, seed, assessed=True))
    if not json:
        ERR.print("starting Spark …")
    spark = session(master=master)
    try:
        assessment = _run(run_request, request, folder, spark, show=not json)
    except KeyboardInterrupt:
        ERR.print(f"interrupted; run the same command again to resume ({folder})")
        raise typer.Exit(130) from None
    if json:
        print_json(assessment.to_json())
    else:
        _print(assessment)


def _run(run: Any, request: Any, folder: Path, spark: Any, *, show: bool) -> "Assessment":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from riprap.cli.console import ERR

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=ERR, disable=not show, transient=True) as progress:
        task = progress.add_task("injecting", total=None)

        def update(wave: str, done: int, total: int) -> None:
            words = {
                "profile": "profiling the operators",
                "prepare": "golden runs for the trials",
                "golden": "golden runs",
            }.get(wave, "injecting")
            progress.update(task, description=words, completed=done, total=total)

        def warn(sentence: str) -> None:
            if show:
                ERR.print(sentence, style="yellow", soft_wrap=True, markup=False)

        assessment: Assessment = run(request, folder, spark=spark, tell=update, warn=warn)
    return assessment


def _explain(graph: "Graph", fault: str, state: str, osf: list[str], *, as_json: bool) -> None:
    from rich.table import Table

    from riprap.cli.console import OUT, print_json
    from riprap.faults.models import parse_kind, state_after
    from riprap.faults.targets import placements

    sinks = [sink.name for sink in graph.sinks]
    named = [text.partition("=")[0] for text in osf if text.partition("=")[0] in sinks]
    kind = parse_kind(fault)
    placed = placements(graph, kind, named or sinks, state_after(kind, state))
    if as_json:
        print_json({p.operator: {"target": p.chosen, "reason": p.reason, "like": p.like or None} for p in placed})
        return
    table = Table(box=None, title=f"Targets of {fault}", title_justify="left")
    for column in ("operator", "", "why"):
        table.add_column(column)
    for p in placed:
        table.add_row(p.operator, "target" if p.chosen else f"like {p.like}" if p.like else "–", p.reason)
    OUT.print(table)


_LEGEND = "R: sections until the output is correct again; I: squared error over them."
_ADVICE = {
    "restart": "restart: restarting it is enough",
    "checkpoint": "checkpoint: save its state periodically",
    "replicate": "replicate: run it twice",
    "compare": "compare: run it in full replication and compare its copies",
}


def _print(assessment: "Assessment") -> None:
    from rich.table import Table

    from riprap.cli.console import ERR, OUT

    result = assessment.result
    table = Table(box=None)
    several = len(result.settings.scores) > 1
    for name in ("operator", *(["sink"] if several else []), "C", "D", "R", "I"):
        table.add_column(name, justify="right" if name in ("C", "D", "R", "I") else "left", no_wrap=True)
    saved = {(s.sink, s.target): s.paired for s in assessment.checkpointed}
    if saved:
        table.add_column("checkpointed", justify="right", no_wrap=True)
    table.add_column("advice", no_wrap=True)
    for s in sorted(assessment.summaries, key=lambda s: -s.paired.I):
        m, kept = s.paired, saved.get((s.sink, s.target))
        table.add_row(
            s.target, *([s.sink] if several else []), f"{m.C:.2f}", f"({m.D[0]:.2f}, {m.D[1]})", str(m.R), f"{m.I:.2f}",
            *([f"{kept.I:.2f}" if kept else ""] if saved else []), assessment.verdicts[s.target].advice,
        )  # fmt: skip
    OUT.print(table, width=max(OUT.width, 1_000), soft_wrap=True)  # long names are not broken
    advised = {verdict.advice for verdict in assessment.verdicts.values()}
    legend = "; ".join(words for advice, words in _ADVICE.items() if advice in advised)
    words = f"{_LEGEND} checkpointed: I with a checkpoint instead of no state." if saved else _LEGEND
    OUT.print(f"{words} {legend}." if legend else words, style="dim")
    for name, verdict in assessment.verdicts.items():
        OUT.print(f"{name}: {verdict.sentence}", soft_wrap=True)
    for name, after in assessment.protected.items():
        OUT.print(f"under the plan: {name}  R {after.paired.R}  I {after.paired.I:.2f}", markup=False)
    for warning in assessment.content.warnings:
        ERR.print(warning, style="yellow", soft_wrap=True)
    if result.resumed:
        ERR.print(f"resumed: {result.resumed} of {result.waves} waves were already done")
    trials = result.trials.num_rows // len(result.settings.scores)
    ERR.print(
        f"{trials:,} injections and {result.settings.golden:,} golden runs over {result.tuples:,} tuples "
        f"in {result.seconds:.1f} s"
    )
    OUT.print(f"report: {assessment.report}\nplan:   {assessment.report.with_name('plan.toml')}")


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _offset(text: str) -> float:
    """`500000`, `0.5e6`, `0.3` or `30%`; the request checks its range."""
    from riprap.base.errors import UsageError

    try:
        if text.endswith("%"):
            return float(text.removesuffix("%")) / 100
        return int(text) if text.isdecimal() else float(text)
    except ValueError:
        raise UsageError(
            f"--offsets {text}: write a whole number of tuples, as in 500000 or 0.5e6, or a share, as in 0.3 or 30%"
        ) from None
