"""`riprap reproduce corruption`: bit flips in real runs, and which of them copies detect."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    strikes: Annotated[int, typer.Option(help="Bit flips in each run.", min=1, max=1_000)] = 20,
    copies: Annotated[str, typer.Option(help="Number of copies of each run.", metavar="N,…")] = "1,2,3",
    rate: Annotated[float, typer.Option(help="Tuples per second.", min=100, max=1_000_000)] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of the data.")] = 1,
    out: Annotated[Path, typer.Option(help="Directory for the runs.")] = Path("reproduce-corruption"),
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Flip bits of tuples and states in real runs: more tuples reach the sink than without faults."""
    from rich.table import Table

    from riprap.base.errors import UsageError
    from riprap.cli.console import ERR, OUT, print_json
    from riprap.cli.output_paths import output_directory
    from riprap.spark.session import hosting_session
    from riprap_papers.experiments.corrupted_copies import as_json, reproduce

    try:
        numbers = [int(part) for part in copies.split(",") if part.strip()]
    except ValueError:
        numbers = []
    if not numbers or not all(1 <= number <= 5 for number in numbers):
        raise UsageError(f"--copies {copies}: write whole numbers from 1 to 5, as in 1,2,3")
    output_directory(out)
    out.mkdir(parents=True, exist_ok=True)

    def say(text: str) -> None:
        if not json:
            ERR.print(text, style="dim")

    spark = hosting_session(2 + 2 * max(numbers))
    outcomes = list(reproduce(out, copies=numbers, strikes=strikes, rate=rate, seed=seed, spark=spark, say=say))
    if json:
        print_json({"seed": seed, "strikes": strikes, "rate": rate, "rows": [as_json(outcome) for outcome in outcomes]})
        return
    table = Table(box=None)
    columns = (
        "copies", "tuples", "states", "expected", "found", "more", "wrong", "lost", "doubled", "differ", "odd",
        "restored",
    )  # fmt: skip
    for title in columns:
        table.add_column(title, justify="right")
    for one in outcomes:
        table.add_row(
            str(one.copies), str(one.tuples), str(one.states), f"{one.expected:,}", f"{one.found:,}", f"{one.more:+,}",
            f"{one.wrong:,}", f"{one.lost:,}", f"{one.doubled:,}", str(one.differences), str(one.odd),
            str(one.restored),
        )  # fmt: skip
    OUT.print(table)
    OUT.print(
        "tuples, states: bits flipped in them. differ: intervals in which copies differed; odd: those of them in which "
        "one copy was found to be wrong. A wrong value replaces a tuple; a wrong key creates a group that should not "
        "exist, and it emits. The model agrees: under corruption more tuples reach the sink. With three copies the "
        "wrong one is restarted."
    )
