"""What every function of the API takes: an app in any form, its inputs in any form, and durations.

as_graph("bargain-discovery"), as_graph(app), as_graph(graph)
with input_paths(graph, "market.parquet") as paths: ...       # one source; else by source
with input_paths(graph, {"Orders": orders_table, "Clicks": clicks_frame}) as paths: ...
seconds("2s"), seconds(timedelta(seconds=2)), seconds(2.0)
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from riprap.api.job_inputs import prepared_inputs
from riprap.apps.catalogue import load_app
from riprap.base import files
from riprap.base.errors import UsageError, known
from riprap.base.quantities import parse_duration
from riprap.base.scratch import scratch
from riprap.engine.inputs import read_file
from riprap.graph.builder import App
from riprap.graph.graph import Graph

AnyApp = str | App | Graph
AnyInputs = Any  # a path, an Arrow table or a DataFrame of Spark, pandas or Polars; or a mapping of these by source


def as_graph(app: AnyApp) -> Graph:
    if isinstance(app, str):
        return load_app(app)
    if not isinstance(app, App | Graph):
        raise UsageError(f"an app cannot be a {type(app).__name__}: give the name of an app, an App or a Graph")
    return app.build() if isinstance(app, App) else app


@contextmanager
def input_paths(graph: Graph, inputs: AnyInputs, beside: Path | None = None) -> Iterator[dict[str, Path]]:
    """The input of each source as a path.

    Tables and DataFrames are written to files that are removed afterwards, or that stay beside a directory.
    """
    if not isinstance(inputs, Mapping):
        if len(graph.sources) != 1:
            names = known(source.name for source in graph.sources)
            raise UsageError(f"{graph.name} has several sources, {names}: give the inputs by source")
        inputs = {graph.sources[0].name: inputs}
    with scratch("inputs") as place:
        paths: dict[str, Path] = {}
        for name, given in inputs.items():
            if isinstance(given, str | os.PathLike):
                paths[name] = Path(given)
            else:
                paths[name] = place / f"{len(paths)}.parquet"
                if beside is not None:
                    files.make(files.real(beside.parent))
                    paths[name] = beside.with_name(f"{beside.name}-{name}.parquet")
                pq.write_table(_table(f"the input of source {name}", given), paths[name])
        if any(source.recorded is not None for source in graph.sources):
            yield dict(prepared_inputs(graph, paths).paths)
            return
        yield paths


def independent_rows(oracle: Callable[..., Any], paths: Mapping[str, Path]) -> dict[str, pa.Table]:
    """What the user's own form of an app returns for these inputs, by sink."""
    from riprap.spark.session import session

    spark = session()
    frames = {}
    for name, path in paths.items():
        if path.suffix == ".parquet":
            frames[name] = spark.read.parquet(str(path))
        else:
            frames[name] = spark.createDataFrame(pa.Table.from_batches(list(read_file(path))))
    found = oracle(frames)
    if not isinstance(found, Mapping):
        raise UsageError(
            f"the oracle returned a {type(found).__name__}: return a mapping from sinks to DataFrames or Arrow tables"
        )
    return {str(name): _table(f"the oracle's result for sink {name}", rows) for name, rows in found.items()}


def _table(what: str, given: Any) -> pa.Table:
    """Arrow tables, and frames that convert themselves: `toArrow` (Spark), `to_arrow` (Polars), or pandas."""
    if isinstance(given, pa.Table):
        return given
    for method in ("toArrow", "to_arrow"):
        if hasattr(given, method):
            return getattr(given, method)()
    if hasattr(given, "columns") and hasattr(given, "dtypes"):
        return pa.Table.from_pandas(given, preserve_index=False)
    raise UsageError(f"{what} cannot be a {type(given).__name__}: give a path, an Arrow table or a DataFrame")


def seconds(given: str | float | timedelta) -> float:
    """A duration in seconds: "2s", a `timedelta`, or a number of seconds."""
    if isinstance(given, timedelta):
        return given.total_seconds()
    return parse_duration(given) / 1e6 if isinstance(given, str) else float(given)


def duration_text(given: str | timedelta) -> str:
    """A duration as text that `parse_duration` reads."""
    return f"{round(given.total_seconds() * 1e6)}us" if isinstance(given, timedelta) else given
