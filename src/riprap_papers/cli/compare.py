"""`riprap compare`: runs workloads under several protocols with the same fault and compares what is measured."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from riprap.cli.app_options import AsJson

if TYPE_CHECKING:
    from collections.abc import Iterable

    from riprap_papers.compare.comparison import Comparison
    from riprap_papers.compare.grid import ComparedCase
    from riprap_papers.compare.measures import Result


def command(
    workloads: Annotated[
        list[str] | None, typer.Argument(help="nexmark-2, -3, -5, -6, wordcount, nhop.", show_default="all")
    ] = None,
    protocols: Annotated[
        str, typer.Option(help="Protocols to compare; none: no protection.", metavar="NAME,…", show_default="all")
    ] = "",
    interval: Annotated[
        str | None, typer.Option(help="Checkpoint interval.", show_default="2s; demo 1s; paper 10s and 15s")
    ] = None,
    windows: Annotated[str | None, typer.Option(help="large or small.", show_default="small; paper both")] = None,
    kill: Annotated[str, typer.Option(help="The operator to kill.", show_default="as published")] = "",
    no_kill: Annotated[bool, typer.Option("--no-kill", help="Measure without a failure.")] = False,
    log: Annotated[
        str | None, typer.Option(help="persistent or volatile (uncoordinated, induced).", show_default="persistent")
    ] = None,
    induced_scope: Annotated[
        str | None, typer.Option(help="cycles or all: where induced forces checkpoints.", show_default="cycles")
    ] = None,
    induced_rule: Annotated[
        str | None, typer.Option(help="hmnr or bcs: which messages force a checkpoint.", show_default="hmnr")
    ] = None,
    sinks: Annotated[
        str | None, typer.Option(help="eager, or committed: rows show with the recovery line.", show_default="eager")
    ] = None,
    virtual: Annotated[
        bool,
        typer.Option("--virtual", help="Elements that did not fail may keep their state (uncoordinated, induced)."),
    ] = False,
    skew: Annotated[float | None, typer.Option(help="Zipf exponent of the keys.", show_default="none")] = None,
    rate: Annotated[
        float | None, typer.Option(help="Events per second of all sources.", min=1.0, show_default="published, or less")
    ] = None,
    load: Annotated[
        float | None,
        typer.Option(help="Instead of --rate: share of the maximum rate of each protocol.", show_default="none"),
    ] = None,
    duration: Annotated[
        str | None, typer.Option("--for", help="Length of the input.", show_default="12s; demo 6s; paper 60s")
    ] = None,
    repetitions: Annotated[
        int | None, typer.Option(help="Repetitions of each case.", min=1, max=1000, show_default="1; paper 3")
    ] = None,
    shards: Annotated[
        int | None, typer.Option(help="Most shards of an operator.", min=1, show_default="1; with --skew 8")
    ] = None,
    scale: Annotated[str, typer.Option(help="small, demo (on Spark) or paper (the published grid).")] = "small",
    host: Annotated[str | None, typer.Option(help="simulated or spark.", show_default="simulated; demo spark")] = None,
    maximum: Annotated[
        bool, typer.Option("--find-maximum", help="Instead, find the maximum sustainable rate of each protocol.")
    ] = False,
    master: Annotated[str | None, typer.Option(help="Spark master.", show_default="local, sized for the run")] = None,
    profile: Annotated[
        list[Path] | None, typer.Option(help="Costs of operators, from `riprap profile`.", show_default="round")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(help="Processes for simulations.", min=1, show_default="one per core")
    ] = None,
    out: Annotated[Path, typer.Option(help="Directory of the comparison; an existing one is resumed.")] = Path(
        "comparison"
    ),
    json: AsJson = False,
) -> None:
    """Compare protocols on workloads: throughput, latency, checkpoints, recovery, lost tuples."""
    import sys

    from riprap.base.errors import UsageError
    from riprap.base.quantities import parse_duration
    from riprap.cli.console import ERR, OUT, print_json
    from riprap.cli.output_paths import output_directory
    from riprap_papers.compare import comparison as api

    named = [name.strip() for name in protocols.split(",") if name.strip()]
    if protocols and not named:
        raise UsageError(
            f"--protocols {protocols} names no protocol: give some, as in coordinated,repeat, or leave it out"
        )
    if kill and no_kill:
        raise UsageError("--kill and --no-kill contradict each other: give one of them")
    if maximum:
        if not workloads or len(workloads) != 1:
            raise UsageError(
                "--find-maximum needs one workload: name it, as in riprap compare --find-maximum nexmark-5"
            )
        if host == "spark" or scale != "small":
            raise UsageError("--find-maximum searches on the simulated host: leave --host and --scale out")
        unused = {
            "--rate": rate, "--load": load, "--kill": kill, "--no-kill": no_kill, "--log": log, "--sinks": sinks,
            "--induced-scope": induced_scope, "--induced-rule": induced_rule, "--virtual": virtual, "--master": master,
            "--repetitions": repetitions, "--profile": profile,
        }  # fmt: skip
        if excess := [option for option, value in unused.items() if value]:
            raise UsageError(f"--find-maximum measures without failures or logs: leave {', '.join(excess)} out")
        report = (
            (lambda case, maximum: None)
            if json
            else (lambda case, maximum: OUT.print(f"{case.label}: {maximum:,.0f} events/s"))
        )
        rates = api.find_maximum(
            workloads[0], protocols=named, interval=interval, windows=windows, skew=skew, shards=shards,
            seconds=parse_duration(duration) / 1e6 if duration else None, processes=processes, tell=report,
        )  # fmt: skip
        if json:
            print_json({case.label: maximum_rate for case, maximum_rate in rates.items()})
        return
    output_directory(out)

    def progress(case: "ComparedCase", result: "Result") -> None:
        if not json:
            ERR.print(f"{case.title}, {case.label}{', one failure' if case.failure else ''} ✓", highlight=False)

    try:
        comparison = api.compare(
            workloads or (),
            protocols=named,
            interval=interval,
            windows=windows,
            failure=False if no_kill else None,
            log=log,
            scope=induced_scope,
            rule=induced_rule,
            sinks=sinks,
            virtual=virtual,
            skew=skew,
            kill=kill,
            rate=rate,
            load=load,
            seconds=parse_duration(duration) / 1e6 if duration else None,
            repetitions=repetitions,
            shards=shards,
            scale=scale,  # type: ignore[arg-type]
            host=host,  # type: ignore[arg-type]
            out=out,
            master=master,
            processes=processes,
            profile=profile or (),
            tell=progress,
            command=" ".join(["riprap", *sys.argv[1:]]),
        )
    except KeyboardInterrupt:
        ERR.print(f"interrupted; run the same command again to resume the comparison in {out}")
        raise typer.Exit(130) from None
    if json:
        print_json([{**vars(case), **_short(result)} for case, result in comparison.results.items()])
    else:
        _print(comparison)


def _intervals(cases: "Iterable[ComparedCase]") -> str:
    from riprap.base.quantities import format_duration

    return "checkpoints every " + " and ".join(dict.fromkeys(format_duration(case.interval) for case in cases))


def _short(result: "Result") -> dict[str, Any]:
    return {name: value for name, value in result.as_json().items() if name != "series"}


def _print(comparison: "Comparison") -> None:
    from rich.table import Table

    from riprap.base.quantities import format_duration
    from riprap.cli.console import OUT
    from riprap_papers.compare.grid import groups

    for group in groups(comparison.results):
        chosen = {case: r for case, r in comparison.results.items() if case.group == group}
        table = Table(
            title=f"{next(iter(chosen)).title}, {_intervals(chosen)}", title_justify="left", box=None, pad_edge=False
        )
        for name in ("protocol", "rows/s", "p50 ms", "p99 ms", "cp", "forced", "first s", "recov s", "lost", "twice"):
            table.add_column(
                name, justify="left" if name == "protocol" else "right", no_wrap=name != "protocol", overflow="fold"
            )
        alike = len({case.interval for case in chosen}) == 1  # then the labels omit it
        for case, r in chosen.items():
            label = case.label.replace(f" @ {format_duration(case.interval)}", "") if alike else case.label
            first, back = ("–" if v is None else f"{v:.1f}" for v in (r.first_output, r.recovery_adaptive))
            # There may be no output before the kill.
            p50, p99 = (f"{v:.0f}" if r.throughput else "–" for v in (r.latency_p50, r.latency_p99))
            table.add_row(
                label, f"{r.throughput:,.0f}", p50, p99, f"{r.checkpoints}",
                f"{r.forced}", first if case.failure else "", back if case.failure else "", f"{r.lost:,}",
                f"{r.repeated:,}",
            )  # fmt: skip
        OUT.print(table)
    for sentence in comparison.advice:
        OUT.print(sentence, soft_wrap=True)
    OUT.print(f"{comparison.page}", soft_wrap=True)
