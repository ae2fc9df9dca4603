"""What the operators of a PySpark job become, as a table of 80 columns."""

from dataclasses import asdict
from typing import Any


def print_job(name: str, *, json: bool) -> None:
    from rich.table import Table

    from riprap.api.job_explanation import explained
    from riprap.cli.console import OUT, print_json
    from riprap.spark.jobs.job_files import job_app

    found = job_app(name)
    rows = explained(found)
    if json:
        print_json({"job": found.job.name, "operators": [_named(asdict(row)) for row in rows]})
        return
    table = Table(title=found.job.origin or found.job.name, title_justify="left")
    table.add_column("operator", overflow="fold", ratio=4)
    table.add_column("in the job", overflow="fold", ratio=4)
    table.add_column("runs as", no_wrap=True)
    table.add_column("why", overflow="fold", ratio=5)
    for row in rows:
        at = "\n".join(filter(None, (row.is_, row.line)))
        table.add_row(row.operator or f"({row.query})", at, row.runs_as, _short(row.why))
    OUT.print(table)
    for missing in found.missing:
        OUT.print(
            f"Query {missing.query} is assessed in Spark's own plan, because of its {missing.does}.", soft_wrap=True
        )
    for note in found.job.notes:
        OUT.print(f"Note: {note}.", soft_wrap=True)


def _named(row: dict[str, Any]) -> dict[str, Any]:
    return {("is" if key == "is_" else key): value for key, value in row.items()}


def _short(text: str, most: int = 160) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
