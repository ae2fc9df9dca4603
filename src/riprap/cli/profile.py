"""`riprap profile`: what a recorded stream makes of each operator."""

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
        bool, typer.Option("--recovery", help="Also run it and kill elements: how long a restart takes.")
    ] = False,
    kills: Annotated[int, typer.Option(help="With --recovery: how many.", min=1, max=1000)] = 6,
    costs: Annotated[
        bool, typer.Option("--costs", help="Also run it without and with each technique: what protection takes.")
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
    seconds = parse_duration(duration) / 1e6
    if seconds < 1:
        raise UsageError(f"--for {duration}: elements tell what they take once a second; write a time of 1s or more")
    graph = planned_app(app, plan)
    paths = input_paths(graph, input, tuples, seed)
    if not json:
        ERR.print(f"profiling {graph.name} over {', '.join(str(path) for path in paths.values())} …")
    result = profile(graph, paths)
    found = None
    if recovery:
        from riprap.api.recovery_profile import recovery_profile

        if not json:
            ERR.print(f"running it, with {kills} kills …")
        found = recovery_profile(app, paths, plan=plan, kills=kills, seed=seed)
    taken = None
    if costs:
        from riprap.api.cost_profile import cost_profile

        def warn(text: str) -> None:
            ERR.print(text, style="yellow", soft_wrap=True)

        def say(what: str) -> None:
            if not json:
                ERR.print(f"running it for {duration} at {rate:,.0f} tuples/s, {_PROTECTED[what]} …")

        taken = cost_profile(graph, paths, rate=rate, seconds=seconds, say=say, warn=warn)
    if out is not None:
        sections = [write_profile(result), *(one.as_toml() for one in (found, taken) if one is not None)]
        try:
            out.write_text("".join(sections))
        except OSError as error:
            raise UsageError(f"cannot write {out}: {error.strerror}") from error
    if json:
        measured = {"recovery": asdict(found)} if found is not None else {}
        print_json(asdict(result) | measured | ({"costs": taken.as_json()} if taken is not None else {}))
    else:
        _print(result)
        if found is not None:
            OUT.print(
                f"A killed element has its state again after {found.restart_median:.2f} s (median of {found.kills}), "
                f"{found.restart:.2f} s at most, and has caught up {found.caught_up:.2f} s later at most; "
                f"a checkpoint is on disk after {found.durable * 1e3:.0f} ms at most.",
                soft_wrap=True,
            )
        if taken is not None:
            _print_costs(taken)


_PROTECTED = {
    "running": "without protection",
    "checkpoint": "with checkpoints",
    "backup": "with persistent streams",
    "ha_group": "with a replica more",
    "copies": "with a copy more",
}


def _print_costs(taken: "CostProfile") -> None:
    """What each technique takes when every operator has it, beyond running the app."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from riprap.base.quantities import format_size
    from riprap.cli.console import OUT

    title = f"What all operators take at {taken.rate:,.0f} tuples/s, and techniques beyond that"
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    for heading in ("cores", "memory", "written/s", "sent/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, cost in taken.totals().items():
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
