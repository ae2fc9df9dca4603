"""`riprap reproduce san`: repeats the published model-based evaluation of fault-tolerance techniques."""

from dataclasses import asdict
from typing import Annotated, Any

import typer


def command(
    replications: Annotated[
        int, typer.Option("--runs", help="Runs per point; the published study had 1,000.", min=2, max=10_000_000)
    ] = 1000,
    seed: Annotated[int, typer.Option("--seed", help="Seed of all runs.")] = 1,
    master: Annotated[str | None, typer.Option("--master", help="Spark master.", show_default="embedded local")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Model-based evaluation of Bargain Discovery: our numbers beside the published ones."""
    from riprap.cli.console import print_json
    from riprap.cli.progress import spark_runner
    from riprap_papers.san.evaluation import evaluate

    with spark_runner(master, "published evaluation", quiet=json) as runner:
        rows = [*evaluate(runner, replications, seed), *_figures(), _engine_rate()]
    if json:
        print_json({"runs": replications, "seed": seed, "rows": [asdict(row) for row in rows]})
    else:
        _print(rows)


def _figures() -> Any:
    """Figures 5.10, 5.11 and 5.15 from generated data."""
    from riprap.apps.catalogue import load_app
    from riprap.apps.samples import DEMO_TUPLES, cache_directory, sample_inputs
    from riprap.engine.inputs import keyed, read_file
    from riprap_papers.san.stabilisation import figure_rows

    graph = load_app("bargain-discovery")
    path = sample_inputs(graph, DEMO_TUPLES, 1, cache_directory())["Source"]
    (source,) = graph.sources
    return figure_rows(graph, {source.name: list(keyed(read_file(path), source))})


def _engine_rate() -> Any:
    """The output rate of the real operators for 450 source tuples/s of generated data, on Spark."""
    from riprap.apps.catalogue import load_app
    from riprap.apps.samples import DEMO_TUPLES, cache_directory, sample_inputs
    from riprap.spark.bounded import run_bounded
    from riprap_papers.san.table_rows import SanRow

    graph = load_app("bargain-discovery")
    path = sample_inputs(graph, DEMO_TUPLES, 1, cache_directory())["Source"]
    stored = run_bounded(graph, str(path))["Sink"].count()
    case = "450 tuples/s, run-bounded on generated data (published: measured)"
    return SanRow("figure 5.15: output rate", case, "tuples/s at the sink", 60.03, stored / DEMO_TUPLES * 450.0)


def _print(rows: list[Any]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from riprap.cli.console import OUT

    for name, reading in dict.fromkeys((row.table, row.reading) for row in rows):
        title = f"{name}; configuration 2 read as: {reading}" if reading else name
        table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False, title_justify="left")
        table.add_column("case")
        table.add_column("metric")
        for heading in ("published", "ours", "95 % interval"):
            table.add_column(heading, justify="right", no_wrap=True)
        for row in rows:
            if (row.table, row.reading) == (name, reading):
                interval = f"{_number(row.low)} – {_number(row.high)}" if row.low is not None else ""
                published = "" if row.published is None else f"{_SIGN.get(row.bound, '')}{_number(row.published)}"
                table.add_row(row.case, row.metric, published, _number(row.ours), interval)
        OUT.print(table)


_SIGN = {"at most": "≤ ", "at least": "≥ "}


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.5g}" if abs(value) < 10 else f"{value:.2f}"
