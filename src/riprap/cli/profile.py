"""`riprap profile`: measures the operators of an app over recorded data."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from riprap.cli.app_options import AppName, AsJson, InputPaths, PlanFile, Seed, Tuples, input_paths, planned_app
from riprap.cli.output_paths import output_file

if TYPE_CHECKING:
    from riprap.api.cost_profile import CostProfile


def command(
    app: AppName,
    input: InputPaths = None,
    plan: PlanFile = None,
    tuples: Tuples = 500_000,
    seed: Seed = 1,
    recovery: Annotated[
        bool, typer.Option("--recovery", help="Also run the app and kill elements: measure restarts.")
    ] = False,
    kills: Annotated[int, typer.Option(help="With --recovery: number of kills.", min=1, max=1000)] = 6,
    costs: Annotated[
        bool,
        typer.Option(
            "--costs", help="Also run the app without and with each technique: measure what protection costs."
        ),
    ] = False,
    rate: Annotated[float, typer.Option(help="With --costs: tuples per second of each source.", min=1)] = 20_000,
    duration: Annotated[str, typer.Option("--for", help="With --costs: how long each run lasts.")] = "5s",
    out: Annotated[Path | None, typer.Option("--out", help="Also write the profile as TOML to this file.")] = None,
    json: AsJson = False,
) -> None:
    """Run an app over recorded data in this process and measure rates, selectivity, time and state per operator."""
    from riprap.api.profile import profile
    from riprap.base.errors import UsageError
    from riprap.base.quantities import parse_duration
    from riprap.cli.console import ERR, OUT, print_json
    from riprap.engine.profile import write_profile

    output_file(out)
    if out is not None and out.suffix == ".json":  # `--profile` would read it as JSON
        raise UsageError(f"--out {out}: a profile is TOML; name it {out.with_suffix('.toml')}")
    seconds = parse_duration(duration) / 1e6
    if seconds < 1:
        raise UsageError(f"--for {duration}: elements report their costs once a second; write a time of 1s or more")
    graph = planned_app(app, plan)
    paths = input_paths(graph, input, tuples, seed)
    if not json:
        ERR.print(f"profiling {graph.name} over {', '.join(str(path) for path in paths.values())} …")
    result = profile(graph, paths)
    recoveries = None
    if recovery:
        from riprap.api.recovery_profile import recovery_profile

        if not json:
            ERR.print(f"running the app with {kills} kills …")
        recoveries = recovery_profile(app, paths, plan=plan, kills=kills, seed=seed)
    measured_costs = None
    if costs:
        from riprap.api.cost_profile import cost_profile

        def warn(text: str) -> None:
            ERR.print(text, style="yellow", soft_wrap=True)

        def announce(what: str) -> None:
            if not json:
                ERR.print(f"running the app for {duration} at {rate:,.0f} tuples/s, {_PROTECTED[what]} …")

        measured_costs = cost_profile(graph, paths, rate=rate, seconds=seconds, say=announce, warn=warn)
    if out is not None:
        sections = [
            write_profile(result),
            *(part.as_toml() for part in (recoveries, measured_costs) if part is not None),
        ]
        try:
            out.write_text("".join(sections))
        except OSError as error:
            raise UsageError(f"cannot write {out}: {error.strerror}") from error
    if json:
        measured = {"recovery": asdict(recoveries)} if recoveries is not None else {}
        print_json(
            asdict(result) | measured | ({"costs": measured_costs.as_json()} if measured_costs is not None else {})
        )
    else:
        _print(result)
        if recoveries is not None:
            OUT.print(
                f"A killed element has restored its state after {recoveries.restart_median:.2f} s (median of "
                f"{recoveries.kills} kills), {recoveries.restart:.2f} s at most, and has caught up "
                f"{recoveries.caught_up:.2f} s later at most; a checkpoint is on disk after "
                f"{recoveries.durable * 1e3:.0f} ms at most.",
                soft_wrap=True,
            )
        if measured_costs is not None:
            _print_costs(measured_costs)


_PROTECTED = {
    "running": "without protection",
    "checkpoint": "with checkpoints",
    "backup": "with persistent streams",
    "ha_group": "with one more replica",
    "copies": "with one more copy",
}


def _print_costs(costs: "CostProfile") -> None:
    """The cost of each technique when every operator has it, on top of running the app."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from riprap.base.quantities import format_size
    from riprap.cli.console import OUT

    title = f"Cost of all operators at {costs.rate:,.0f} tuples/s, and what each technique adds"
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    for heading in ("cores", "memory", "written/s", "sent/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, cost in costs.totals().items():
        sizes = (format_size(round(size)) for size in cost[1:])
        table.add_row(_PROTECTED[name], f"{cost.cores:.3f}", *sizes)
    OUT.print(table)


def _print(result: Any) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from riprap.base.quantities import format_count
    from riprap.cli.console import OUT

    title = f"{result.app}: {result.tuples:,} tuples over {result.seconds:,.0f} s of event time"
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("operator", no_wrap=True)
    for heading in ("in", "out", "out/in", "mean/s", "peak/s", "ns/tuple", "state"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in result.operators.values():
        table.add_row(
            row.name,
            "\n".join(map(format_count, row.tuples_in)),
            "\n".join(map(format_count, row.tuples_out)),
            "\n".join(f"{value:.3f}" for value in row.selectivity),
            "\n".join(map(format_count, row.mean_rate)),
            "\n".join(map(format_count, row.peak_rate)),
            f"{row.seconds_per_tuple * 1e9:.1f}",
            format_count(row.state_tuples) if row.state_tuples else "",
        )
    OUT.print(table)
    for piece in result.pieces:
        what = f"{piece.operators[0]} … {piece.operators[-1]}" if len(piece.operators) > 1 else piece.operators[0]
        OUT.print(
            f"{what}: one loop, {piece.seconds_per_tuple * 1e9:.1f} ns a tuple and "
            f"{piece.seconds_per_batch * 1e6:.0f} µs a batch at its edges"
        )
