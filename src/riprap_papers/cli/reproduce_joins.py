"""`riprap reproduce joins`: repeats the published experiments on the cost of checkpoints of a join."""

from pathlib import Path
from typing import Annotated

import typer

_SHOWN = (0, 1, 2, 3, 6, 7)  # columns of the report that fit a terminal


def command(
    seconds: Annotated[
        float, typer.Option("--seconds", help="Longest time per case and interval.", min=1, max=86_400)
    ] = 120.0,
    intervals: Annotated[str, typer.Option("--intervals", help="Checkpoint intervals, in seconds.")] = "1,10",
    out: Annotated[Path | None, typer.Option("--out", help="Directory for joins.html and results.json.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Table 3.1 and figures 3.11 to 3.13: rates of joins without checkpoints, and with one every 1 and 10 s."""
    import json as text
    from dataclasses import asdict

    from rich.table import Table

    from riprap.base.errors import UsageError
    from riprap.base.quantities import parse_whole
    from riprap.cli.console import ERR, OUT, print_json
    from riprap_papers.experiments.join_checkpoints import CASES, measure
    from riprap_papers.report.joins_report import COLUMNS, RATES, cells, joins_report, rates

    every = [parse_whole(part.strip(), "--intervals", least=1, most=3600) for part in intervals.split(",")]
    if out is not None:
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot write to {out}: {error.strerror}") from error
    found = []
    for case in CASES:
        for interval in every:
            if not json:
                ERR.print(f"{case.name}, a checkpoint every {interval} s …", style="dim")
            found.append(measure(case, interval, seconds))
    rows = [{**asdict(outcome), "decided": outcome.decided} for outcome in found]
    if out is not None:
        (out / "joins.html").write_text(joins_report(found))
        (out / "results.json").write_text(text.dumps({"rows": rows}, indent=2) + "\n")
    if json:
        print_json({"rows": rows})
        return
    tables = {
        "Table 3.1: rates without checkpoints": (RATES, rates(found)),
        "Figures 3.11 to 3.13: with checkpoints": (
            [COLUMNS[place] for place in _SHOWN],
            [[row[place] for place in _SHOWN] for row in map(cells, found)],
        ),
    }
    for title, (names, lines) in tables.items():
        table = Table(box=None, title=title, title_justify="left")
        for name in names:
            table.add_column(name, justify="left" if name in ("case", "published") else "right")
        for line in lines:
            table.add_row(*line)
        OUT.print(table)
    if out is not None:
        OUT.print(f"report: {out / 'joins.html'}", markup=False)
