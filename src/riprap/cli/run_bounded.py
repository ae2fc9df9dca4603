"""`riprap run-bounded`: runs an app over files or generated data as one Spark job."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from riprap.cli.app_options import AppName, AsJson, InputPaths, PlanFile, Seed, Tuples, input_paths, planned_app
from riprap.cli.output_paths import output_directory

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from riprap.graph.partitioning import KeyPartitioning
    from riprap.spark.bounded import SinkTotals

_MOST_PARTITIONS = 100_000


def command(
    app: AppName,
    input: InputPaths = None,
    plan: PlanFile = None,
    tuples: Tuples = 500_000,
    seed: Seed = 1,
    partitions: Annotated[
        int | None, typer.Option(help="Tasks among which keys are divided.", show_default="slots, or 1")
    ] = None,
    master: Annotated[str | None, typer.Option(help="Spark master.", show_default="local[*]")] = None,
    out: Annotated[Path | None, typer.Option(help="Write each sink's rows as Parquet to this directory.")] = None,
    json: AsJson = False,
) -> None:
    """Run an app on Spark over bounded data and report its output."""
    from riprap.base.clock import SYSTEM_CLOCK
    from riprap.base.errors import UsageError
    from riprap.cli.console import ERR, print_json
    from riprap.engine.inputs import count_rows, late_rows
    from riprap.graph.partitioning import key_partitioning

    output_directory(out)
    if partitions is not None and not 1 <= partitions <= _MOST_PARTITIONS:
        raise UsageError(f"--partitions {partitions}: write a whole number from 1 to {_MOST_PARTITIONS}")
    graph = planned_app(app, plan)
    if out is not None and out.exists():
        raise UsageError(f"{out} exists already: give another directory with --out, or remove it")
    if not json and not input:
        ERR.print(f"{graph.name} over {tuples:,} generated tuples (seed {seed})")
    paths = input_paths(graph, input, tuples, seed)
    tuples_read = sum(count_rows(path) for path in paths.values())

    from riprap.spark.bounded import write_bounded
    from riprap.spark.session import session

    if not json:
        ERR.print("starting Spark …")
    spark = session(master=master)
    start = SYSTEM_CLOCK.monotonic()
    totals = _with_bar(
        spark, lambda: write_bounded(graph, paths, out, spark=spark, partitions=partitions), show=not json
    )
    sinks = {name: {"rows": sink.rows, "sums": dict(sink.sums)} for name, sink in totals.items()}
    seconds = SYSTEM_CLOCK.monotonic() - start
    division = key_partitioning(graph)
    result = {
        "app": graph.name,
        "tuples": tuples_read,
        "late": {s.name: late_rows(paths[s.name], s) for s in graph.sources if s.lateness is not None},
        "seconds": seconds,
        "throughput": tuples_read / seconds,
        "division": _division(division),
        "divided": division.reason,
        "sinks": sinks,
        "out": str(out) if out is not None else None,
    }
    if json:
        print_json(result)
    else:
        _print(result)


def _with_bar(
    spark: "SparkSession", action: "Callable[[], dict[str, SinkTotals]]", *, show: bool
) -> "dict[str, SinkTotals]":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from riprap.cli.console import ERR
    from riprap.spark.job_progress import with_progress

    columns = (TextColumn("running"), BarColumn(), MofNCompleteColumn(), TextColumn("tasks"), TimeElapsedColumn())
    with Progress(*columns, console=ERR, disable=not show) as progress:
        bar = progress.add_task("running", total=None)
        return with_progress(
            spark, action, lambda done, total: progress.update(bar, completed=done, total=total or None)
        )


def _division(division: "KeyPartitioning") -> str:
    if not division.divisible:
        return "not divided"
    return "divided by key" if any(division.columns.values()) else "divided in any way"


def _print(result: dict[str, Any]) -> None:
    from rich.table import Table

    from riprap.cli.console import OUT

    table = Table(title=f"{result['app']}: {result['tuples']:,} tuples in {result['seconds']:.2f} s")
    for heading in ("sink", "rows", "column", "sum"):
        table.add_column(heading, justify="left" if heading in ("sink", "column") else "right")
    for name, sink in result["sinks"].items():
        rows = list(sink["sums"].items()) or [("", None)]
        for index, (column, total) in enumerate(rows):
            first = index == 0
            shown = "" if total is None else f"{total:,.2f}" if isinstance(total, float) else f"{total:,}"
            table.add_row(name if first else "", f"{sink['rows']:,}" if first else "", column, shown)
    OUT.print(table)
    OUT.print(f"{result['throughput']:,.0f} tuples/s; {result['division']}: {result['divided']}.")
    for name, late in result["late"].items():
        OUT.print(f"{name}: {late:,} tuples were later than its lateness and were dropped.")
    if result["out"]:
        OUT.print(f"rows are in {result['out']}")
