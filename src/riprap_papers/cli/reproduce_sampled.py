"""`riprap reproduce sampled`: accuracy against recovery time, if a share of the tuples of an outage is retained."""

from typing import Annotated

import typer


def command(
    tuples: Annotated[
        int, typer.Option("--tuples", help="Tuples of market data.", min=1000, max=50_000_000)
    ] = 1_000_000,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the data.")] = 2,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Bargain Discovery after an outage, retaining 0 to 100 % of its tuples: suggested, but never measured."""
    from dataclasses import asdict

    from rich.table import Table

    from riprap.base.scratch import scratch
    from riprap.cli.console import OUT, print_json
    from riprap_papers.experiments.sampled_outage import points

    with scratch("sampled") as folder:
        found = points(tuples, seed, folder)
    if json:
        print_json({"points": [asdict(point) for point in found]})
        return
    table = Table(title=f"An outage of {found[0].missed:,} tuples", box=None)
    for name in ("share", "retained", "recovery", "quality", "found", "error of vwap"):
        table.add_column(name, justify="right")
    for point in found:
        table.add_row(
            f"{point.share:.0%}", f"{point.kept:,}", f"{point.seconds * 1e3:.0f} ms", f"{point.quality:.3f}",
            f"{point.found:.1%}", f"{point.error:.2%}",
        )  # fmt: skip
    OUT.print(table)
    OUT.print(
        "recovery: until the retained tuples are processed, without detection and restart; quality: sum(gain) of the "
        "outage relative to a run without faults; retained: includes what the consumer had not acknowledged."
    )
