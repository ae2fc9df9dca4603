"""`riprap record`: keeps what the sources of a PySpark job bring."""

from pathlib import Path
from typing import Annotated

import typer

from riprap.cli.app_options import AsJson
from riprap.cli.output_paths import output_directory


def command(
    job: Annotated[str, typer.Argument(help="A PySpark script: job.py, or job.py:QUERY.", show_default=False)],
    duration: Annotated[str, typer.Option("--for", help="How long to record.")] = "10m",
    out: Annotated[Path, typer.Option("--out", help="A new directory for the recording.")] = Path("recorded"),
    hash: Annotated[
        list[str] | None,
        typer.Option("--hash", help="Replace the values of a column by keyed hashes: COLUMN or SOURCE.COLUMN."),
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option("--drop", help="Leave a column out: COLUMN or SOURCE.COLUMN.")
    ] = None,
    master: Annotated[str | None, typer.Option(help="Spark master.", show_default="local[*]")] = None,
    json: AsJson = False,
) -> None:
    """Run only the sources of a PySpark job, and keep what they bring as the input of assessments."""
    from riprap.api.record_job import record_job
    from riprap.base.quantities import parse_duration
    from riprap.cli.console import ERR, OUT, print_json
    from riprap.spark.session import session

    seconds = parse_duration(duration) / 1e6
    output_directory(out)
    if not json:
        ERR.print(f"recording the sources of {job} for {duration}; Ctrl-C ends it earlier …")
    found = record_job(job, out, seconds, hash=hash or (), drop=drop or (), spark=session(master=master))
    if json:
        print_json({"out": str(out), "sources": {str(row["source"]): row for row in found.rows()}})
        return
    for each in found.sources:
        OUT.print(each.sentence(), soft_wrap=True)
    for name, path in found.paths.items():
        OUT.print(f"--input {name}={path}", soft_wrap=True)
