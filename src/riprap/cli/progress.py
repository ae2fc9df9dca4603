"""A progress bar on stderr for replications that run as Spark tasks."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from riprap.san.replicate import Runner


@contextmanager
def spark_runner(master: str | None, what: str, quiet: bool = False) -> "Iterator[Runner]":
    """A runner of replications on Spark, with a bar that shows how many of its tasks are done."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from riprap.cli.console import ERR
    from riprap.spark.replications import on_spark
    from riprap.spark.session import session

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} tasks"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=ERR, disable=quiet, transient=True) as progress:
        bar = progress.add_task(what, total=None)

        def update(done: int, total: int) -> None:
            progress.update(bar, completed=done, total=total or None)

        yield on_spark(session(master=master), update)
