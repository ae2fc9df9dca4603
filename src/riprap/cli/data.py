"""`riprap data`: generates the input of the example apps."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from riprap.cli.arguments import Commands

if TYPE_CHECKING:
    from riprap.apps.market_statistics import MarketStatistics

app = Commands(help="Generate the input of the example apps.", no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Makes `riprap data` a group even with a single command."""


@app.command("market")
def market(
    out: Annotated[
        Path | None, typer.Option(help="File to write; its ending, .parquet or .arrow, sets the format.")
    ] = None,
    tuples: Annotated[int, typer.Option(help="Trades and quotes; the published experiment has 5000000.")] = 500_000,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal data.")] = 2,
    symbols: Annotated[int, typer.Option(help="Number of listed symbols.")] = 3_099,
    zipf: Annotated[float | None, typer.Option(help="Activity by Zipf's law with this exponent.")] = None,
    format: Annotated[str | None, typer.Option(help="parquet or arrow, whatever the file's ending.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
    stats: Annotated[bool, typer.Option("--stats", help="Print statistics of the data.")] = False,
    json: Annotated[bool, typer.Option("--json", help="With --stats: print one JSON object.")] = False,
) -> None:
    """Generate trades and quotes for Bargain Discovery, with the statistics of the published data set."""
    from riprap.apps import market as generator
    from riprap.apps import market_files
    from riprap.apps.market_statistics import statistics
    from riprap.apps.samples import check_tuples
    from riprap.base.errors import UsageError
    from riprap.cli.console import ERR

    if out is None and not stats:
        raise UsageError("nothing to do: name a file with --out, or ask for --stats")
    if json and not stats:
        raise UsageError("--json prints statistics: give --stats too")
    if out is not None:
        market_files.check_place(out, format=format, overwrite=overwrite)
    check_tuples(tuples)
    table = generator.generate(tuples, seed, symbols=symbols, zipf=zipf)
    if out is not None:
        market_files.write(table, out, format=format, overwrite=overwrite)
        ERR.print(f"wrote {tuples:,} tuples to {out}")
    if stats:
        _print(statistics(table), as_json=json)


def _print(figures: "MarketStatistics", as_json: bool) -> None:
    from dataclasses import asdict
    from math import isnan

    from rich.table import Table

    from riprap.cli.console import OUT, print_json

    values = asdict(figures)
    if as_json:
        print_json({name: None if isnan(value) else value for name, value in values.items()})
        return
    lines = Table(box=None, show_header=False)
    lines.add_column()
    lines.add_column(justify="right")
    for label, template in _LINES:
        lines.add_row(label, template.format(**values))
    OUT.print(lines)


# The printed statistics: a label, and the figure with its unit.
_LINES = (
    ("tuples", "{tuples:,}"),
    ("duration", "{seconds:,} s"),
    ("symbols", "{symbols:,}"),
    ("quotes", "{quote_share:.1%} of the tuples"),
    ("bargains", "{bargain_share:.1%} of the quotes"),
    ("mean rate", "{mean_rate:,.0f} tuples/s"),
    ("busiest second", "{peak_rate:,} tuples, {trade_peak_rate:,} trades"),
    ("dispersion", "{dispersion:,.0f} (Poisson: 1)"),
    ("mean size", "{mean_size:,.0f} shares"),
    ("median spread", "{median_spread:.3%}"),
    ("activity σ", "{activity_sigma:.2f}"),
    ("volatility", "{volatility:.2e} per √s"),
)
