"""`riprap measure`: rates, state, recoveries and costs of an app, from short real runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from riprap.cli.app_options import AppName, AsJson, InputPaths, Seed, Tuples, input_paths
from riprap.cli.output_paths import output_file

if TYPE_CHECKING:
    from riprap.planner.measured import Measured


def command(
    app: AppName,
    input: InputPaths = None,
    tuples: Tuples = 200_000,
    seed: Seed = 1,
    kills: Annotated[int, typer.Option(help="Elements to kill, to measure recoveries.", min=1, max=1000)] = 8,
    duration: Annotated[str, typer.Option("--for", help="How long each run for costs lasts.")] = "5s",
    speed: Annotated[
        float | None, typer.Option(help="Seconds of data per second.", show_default="1 where that fits")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Do not check the model of costs by further runs.")] = False,
    master: Annotated[str | None, typer.Option(help="Spark master.", show_default="local, sized for the run")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the measurements to this JSON file.")] = None,
    json: AsJson = False,
) -> None:
    """Measure what operators do, how they recover, and what protecting them costs, by running the app."""
    from riprap.api.measure import measure_inputs
    from riprap.apps.catalogue import load_app
    from riprap.base.errors import UsageError
    from riprap.base.quantities import parse_duration
    from riprap.base.scratch import scratch
    from riprap.cli.console import ERR, print_json
    from riprap.planner.measured import write_measured

    output_file(out)
    seconds = parse_duration(duration) / 1e6
    if seconds < 2:
        raise UsageError(f"--for {duration}: elements report their costs once a second; write a time of 2s or more")
    graph = load_app(app)
    paths = input_paths(graph, input, tuples, seed)

    def say(what: str, left: float) -> None:
        if not json:
            ERR.print(f"{what} …; about {left:.0f} s left", soft_wrap=True)

    with scratch("measure") as directory:
        found = measure_inputs(
            graph, paths, directory, speed=speed, kills=kills, seconds=seconds, checks=not quick, master=master,
            say=say, warn=lambda text: ERR.print(text, style="yellow", soft_wrap=True),
        ).measured  # fmt: skip
    if out is not None:
        write_measured(found, out)
    if json:
        print_json(found.to_json())
    else:
        _print(found)


def _print(found: "Measured") -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from riprap.base.quantities import format_count, format_size
    from riprap.cli.console import OUT

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("operator", no_wrap=True)
    for heading in ("in/s", "out/in", "state", "restart", "cores", "memory", "saving", "logging"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, row in found.operators.items():
        costs = {kind: cost.cores for kind, cost in row.techniques.items()}
        shown = [f"{costs[kind]:.3f}" if kind in costs else "" for kind in ("checkpoint", "backup")]
        table.add_row(
            name, format_count(row.rate), f"{row.selectivity:.2f}",
            format_size(round(row.state)) if row.state else "", f"{row.restart.middle:.2f} s",
            f"{row.running.cores:.3f}", format_size(round(row.running.memory)), *shown,
        )  # fmt: skip
    OUT.print(table)
    OUT.print(
        f"saving, logging: cores that checkpoints every {found.every:g} s and a backup take. Detection takes "
        f"{found.detection.middle:.2f} s ({found.detection.high:.2f} s in 95 %).",
        soft_wrap=True,
    )
    if any(found.error):
        OUT.print(
            f"Error of the cost model in further runs: cores {found.error.cores:.0%}, memory {found.error.memory:.0%}, "
            f"bytes written {found.error.written:.0%}.",
            soft_wrap=True,
        )
