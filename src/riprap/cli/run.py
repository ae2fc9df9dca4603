"""`riprap run`: an app as long-running processing elements on Spark, with protection chosen per operator."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from riprap.cli.app_options import AsJson, InputPaths, PlanFile, Seed, input_paths, planned_app, shards_of
from riprap.cli.output_paths import output_directory, output_file

if TYPE_CHECKING:
    from riprap.api.run import RunResult

_TUPLES = 2_000_000  # generated where nothing says how many
_DIFFERENCES = 5  # that are shown of each element in copies; all are in summary.json


def command(
    app: Annotated[
        str | None, typer.Argument(help="A bundled app, or module:attribute; none with --resume.", show_default=False)
    ] = None,
    input: InputPaths = None,
    plan: PlanFile = None,
    fuse: Annotated[str, typer.Option(help="auto, none or all: which operators share a process.")] = "auto",
    parallelism: Annotated[str, typer.Option(help="Shards of operators.", metavar="OP=N,…", show_default="code")] = "",
    rate: Annotated[
        float | None, typer.Option(help="Tuples per second of each source.", min=0.001, show_default="unlimited")
    ] = None,
    duration: Annotated[
        str | None, typer.Option("--for", help="End after this time, as in 60s.", show_default="end of input")
    ] = None,
    until_end: Annotated[bool, typer.Option("--until-end", help="Go on to the end of the input (default).")] = False,
    kill: Annotated[
        str, typer.Option(help='What to kill when: "Aggregator@10s,executor@20s,driver@30s".', metavar="WHAT@TIME,…")
    ] = "",
    corrupt: Annotated[
        str, typer.Option(help="Where a bit flips when, of one tuple or of the state.", metavar="OP@TIME,…")
    ] = "",
    protocol: Annotated[
        str, typer.Option(help="partial, coordinated, unaligned, hybrid, uncoordinated, …", metavar="NAME")
    ] = "partial",
    interval: Annotated[
        str | None, typer.Option(help="Between checkpoints of such a protocol.", show_default="10s")
    ] = None,
    log: Annotated[
        str | None, typer.Option(help="persistent or volatile: uncoordinated, induced.", show_default="persistent")
    ] = None,
    induced_scope: Annotated[
        str | None, typer.Option(help="cycles or all: where induced forces checkpoints.", show_default="cycles")
    ] = None,
    induced_rule: Annotated[
        str | None, typer.Option(help="hmnr or bcs: which messages force one.", show_default="hmnr")
    ] = None,
    sinks: Annotated[
        str | None, typer.Option(help="eager, or committed: shown with the line.", show_default="eager")
    ] = None,
    virtual: Annotated[
        bool, typer.Option("--virtual", help="Who did not fail may stay as it is: uncoordinated, induced.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Inputs are persistent streams that are still being written.")
    ] = False,
    idle: Annotated[
        str | None,
        typer.Option(help="With --follow: an input without rows for so long is not waited for.", metavar="TIME"),
    ] = None,
    stability: Annotated[
        str, typer.Option(help="Of persistent streams: async, group or fsync.", metavar="NAME")
    ] = "async",
    silence: Annotated[str, typer.Option(help="Without a sign of life an element is replaced after this.")] = "3s",
    failover: Annotated[str, typer.Option(help="smart or plain: how HA groups go on.")] = "smart",
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this directory.")] = None,
    own: Annotated[
        str | None, typer.Option("--app", help="With --resume: your own app, which no directory names.")
    ] = None,
    tuples: Annotated[
        int | None, typer.Option(help="Without --input: how many tuples to generate.", min=1, show_default="enough")
    ] = None,
    seed: Seed = 1,
    tls: Annotated[bool, typer.Option("--tls", help="Encrypt the traffic between elements.")] = False,
    master: Annotated[str | None, typer.Option(help="Spark master.", show_default="local, sized for the run")] = None,
    out: Annotated[Path | None, typer.Option(help="The run's directory.", show_default="run-APP")] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML page on what became of the run.")] = None,
    json: AsJson = False,
) -> None:
    """Run an app on Spark while its parts die, and say what became of every stream."""
    from riprap.base.errors import UsageError
    from riprap.base.phases import Phases, process_started
    from riprap.base.quantities import parse_duration

    output_file(report, "--report")
    if (app is None) == (resume is None):
        raise UsageError("give an app to run, or --resume DIR to go on with a run, and not both")
    if own is not None and resume is None:
        raise UsageError(f"--app is for --resume: write riprap run {own}")
    if duration is not None and until_end:
        raise UsageError("--for and --until-end contradict each other: give one of them")
    if follow and not input and resume is None:
        raise UsageError("--follow needs the streams to follow: give --input SOURCE=stream:DIR")
    seconds = parse_duration(duration) / 1e6 if duration is not None else None
    if seconds == 0:
        raise UsageError("--for 0s: write a time that is longer than nothing")
    from riprap.spark import launching

    # Beside everything that follows, until a session is needed. A JVM that somebody may kill writes nothing at its end.
    launching.launch(master, archive=not kill)
    from riprap.api import run as api
    from riprap.cli.console import ERR, print_json
    from riprap.cli.live_table import LiveTable
    from riprap.protocols.registry import configured

    phases = Phases(since=process_started())
    common: dict[str, Any] = {"seconds": seconds, "kill": kill, "tls": tls, "master": master, "phases": phases}
    common["silence"] = silence

    def warn(text: str) -> None:
        ERR.print(text, style="yellow", soft_wrap=True)

    if resume is not None:
        given = (
            input, plan, rate, out, interval, log, induced_scope, induced_rule, follow, idle, sinks,
            virtual, corrupt,
        )  # fmt: skip
        others = (fuse, protocol, stability, failover)
        if any(given) or others != ("auto", "partial", "async", "smart"):
            raise UsageError("--resume goes on with the settings of before: leave --input, --plan, --fuse, … out")
        api.resumed_app(resume, api.read_settings(resume), own)
        common["parallelism"] = shards_of(parallelism)
        directory = resume
    else:
        assert app is not None
        if plan is None or protocol != "partial":  # a plan may name another
            configured(
                protocol, interval=interval, log=log, scope=induced_scope, rule=induced_rule,
                failover=failover, sinks=sinks, virtual=virtual,
            )  # fmt: skip
        graph = planned_app(app, plan)
        directory = out or Path(f"run-{graph.name}")
        output_directory(directory)
        shards = shards_of(parallelism)
        enough = round(rate * seconds * 1.2) + 1 if rate and seconds else _TUPLES

    def starting() -> None:
        if not json:
            ERR.print("starting Spark and the processing elements …")

    def inputs() -> Mapping[str, Path]:
        paths = input_paths(graph, input, tuples or enough, seed)
        starting()  # everything has been checked
        return paths

    try:
        with LiveTable(ERR, show=not json) as table:
            if resume is not None:
                starting()
                result = api.resume(resume, app=own, show=table, warn=warn, **common)
            else:
                assert app is not None
                result = api.run(
                    app, inputs, out=directory, plan=plan,
                    fuse=fuse, parallelism=shards, rate=rate, show=table, warn=warn,  # type: ignore[arg-type]
                    protocol=protocol, interval=interval, log=log, scope=induced_scope, rule=induced_rule,
                    failover=failover, stability=stability, follow=follow, idle=idle, sinks=sinks,  # type: ignore[arg-type]
                    virtual=virtual, corrupt=corrupt,
                    **common,
                )  # fmt: skip
    except KeyboardInterrupt:
        begun = (directory / "run.json").exists()
        named = app if own is None else own
        again = f"riprap run --resume {directory}" + (f" --app {named}" if named and not api.bundled(named) else "")
        ERR.print(f"interrupted; go on with: {again}" if begun else "interrupted")
        raise typer.Exit(130) from None
    if report is not None:
        from riprap.report.run import run_report

        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(run_report(result.summary, command=f"riprap run {app or f'--resume {resume}'}"))
    if json:
        print_json(dict(result.summary))
    else:
        _print(result)
        if report is not None:
            ERR.print(f"wrote {report}", style="dim", soft_wrap=True)
    launching.end()


def _print_group(name: str, group: Mapping[str, Any]) -> None:
    """Who is active of an HA group, and how it came to that."""
    from riprap.cli.console import OUT

    replicas = ", ".join(
        f"replica {number} {'active' if number == group['active'] else replica['state']}"
        for number, replica in enumerate(group["replicas"], 1)
    )
    tainted = ", and what it gives out is tainted" if group["tainted"] else ""
    OUT.print(f"HA group {name}: {replicas}{tainted}", soft_wrap=True)
    for failover in group["failovers"]:
        if failover["to"] is None:
            OUT.print(f"HA group {name}: nobody was left when {failover['lost']} was lost", style="yellow")
            continue
        took = failover["from_kill"] if failover["from_kill"] is not None else failover["seconds"]
        OUT.print(
            f"HA group {name} failed over to replica {failover['to']} when {failover['lost']} was lost"
            + (f": {took:.3f} s to its first tuple" if took is not None else "")
            + f", {failover['dropped']:,} dropped, {failover['doubled']:,} doubled"
            + (", tainted" if failover["tainted"] else ""),
            soft_wrap=True,
        )


def _print(result: "RunResult") -> None:
    from rich.table import Table

    from riprap.cli.console import ERR, OUT
    from riprap.runtime.element.latency import format_latency

    summary = result.summary
    streams = Table(box=None)
    kept = any(counts["recovery"] == "while-down" for counts in summary["streams"].values())
    columns = ("sent", "received", "late", "lost", "repeated", *(("forgotten",) if kept else ()))
    for name in ("stream", "recovery", *columns):
        streams.add_column(name, justify="left" if name in ("stream", "recovery") else "right")
    for name, counts in summary["streams"].items():
        numbers = [f"{counts[column]:,}" for column in columns]
        streams.add_row(name, counts["recovery"], *numbers)
    if summary["streams"]:
        OUT.print(streams)
    for pe, what in summary["pes"].items():
        for number, recovery in enumerate(what["recoveries"], 1):
            parts = ", ".join(
                f"{name.replace('_', ' ')} {'?' if value is None else f'{value:.2f} s'}"
                for name, value in recovery.items()
            )
            OUT.print(f"{pe} came back ({number} of {what['restarts']}): {parts}")
        if what["delivery"].startswith("at least once"):
            OUT.print(f"{pe}: {what['delivery']}", style="yellow", soft_wrap=True)
    for name, group in summary["groups"].items():
        _print_group(name, group)
    for name, copied in summary["copies"].items():
        states = ", ".join(f"{copy['element']} {copy['state']}" for copy in copied["copies"])
        tainted = f"; tainted {copied['tainted']} times, when no copy was left" if copied["tainted"] else ""
        OUT.print(f"{name}: {states}; {copied['restored']} began with the state of another{tainted}", soft_wrap=True)
        for difference in copied["differences"][:_DIFFERENCES]:
            odd = f": {', '.join(difference['odd'])} is wrong" if difference["odd"] else ""
            OUT.print(
                f"copies of {difference['operator']} gave out different tuples on {difference['stream']} from "
                f"{difference['from'] / 1e6:.3f} s to {difference['to'] / 1e6:.3f} s of event time{odd}",
                style="yellow", soft_wrap=True,
            )  # fmt: skip
    for struck in summary["corruptions"]:
        where = f"a tuple that came to {struck['pe']}" if struck["what"] == "tuple" else f"the state of {struck['pe']}"
        OUT.print(f"corrupted: {where}, {struck['column'] or 'in which nothing could be altered'}", soft_wrap=True)
    for missed in summary["not_injected"]:
        OUT.print(f"not injected: {missed['fault']}: {missed['why']}", style="yellow", soft_wrap=True)
    for operator, counts in summary["checkpoints"].items():
        OUT.print(
            f"{operator}: {counts['taken']} checkpoints, {counts['bytes'] / 1024:,.0f} KiB"
            + (f", {counts['missed']} deadlines missed" if counts["missed"] else "")
        )
    for text in summary["warnings"]:
        ERR.print(text, style="yellow", soft_wrap=True)
    latency = summary["latency"]
    half, most = latency["p50"], latency["p99"]
    took = "" if half is None else f", latency p50 {format_latency(half)}, p99 {format_latency(most)}"
    before = summary["resumed_at"]
    since = f" since it was resumed at {before:,}" if before else ""
    OUT.print(
        f"{summary['tuples'] - before:,} tuples in {summary['seconds']:.1f} s{since}: "
        f"{summary['throughput']:,.0f} tuples/s{took}",
        soft_wrap=True,
    )
    for name, source in summary["sources"].items():
        if source["lost"]:
            OUT.print(f"{name}: {source['lost']:,} tuples were lost in its own element", style="yellow", soft_wrap=True)
    for name, sink in summary["sinks"].items():
        lost = f", and {sink['lost']:,} that were lost before they were there" if sink["lost"] else ""
        OUT.print(f"{name}: {sink['tuples']:,} tuples in {sink['path']}{lost}", soft_wrap=True)
    for name, tap in summary["taps"].items():
        OUT.print(f"{name}: {tap['tuples']:,} tuples in {', '.join(tap['paths'])}", soft_wrap=True)
    took = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in summary["phases"].items() if seconds >= 0.05)
    OUT.print(f"where the time went: {took}", soft_wrap=True)
