"""Runs translated jobs in one engine, and compares rows."""

import math
from pathlib import Path

from riprap.engine.engine import Engine
from riprap.engine.inputs import keyed, read_file
from riprap.graph.graph import Graph
from riprap.operators.contract import Punctuation
from riprap.spark.jobs.recordings import prepared


def engine_rows(spark, graph: Graph, recordings: dict[str, Path], cache: Path) -> dict[str, list[tuple]]:
    """The rows of each sink, in the order in which they were emitted."""
    inputs = {}
    for source in graph.sources:
        path, _ = prepared(spark, source, recordings[source.name], cache)
        inputs[source.name] = keyed(read_file(path), source)
    rows: dict[str, list[tuple]] = {sink.name: [] for sink in graph.sinks}
    for output in Engine(graph).run(inputs):
        if not isinstance(output.event, Punctuation):
            names = [name for name in output.event.schema.names if name not in ("_ts", "_src", "_seq", "_n")]
            columns = [output.event.column(name).to_pylist() for name in names]
            rows[output.name] += zip(*columns, strict=True)
    return rows


def recordings_of(graph: Graph, recordings: dict[str, Path]) -> dict[str, Path]:
    """By the name of the source: recordings have the names of topics and of directories."""
    found = {}
    for source in graph.sources:
        recorded = source.recorded
        found[source.name] = recordings[recorded.options.get("subscribe") or Path(recorded.path or "").name]
    return found


def comparable(rows) -> list[tuple]:
    return sorted((tuple(plain(value) for value in _without_windows(row)) for row in rows), key=repr)


def _without_windows(row) -> list:
    """An app has start and end of a window as two columns, where Spark has a struct."""
    values = []
    for value in row:
        values += list(value) if getattr(value, "__fields__", None) == ["start", "end"] else [value]
    return values


def plain(value):
    """The same for Arrow and Spark: floats to 11 digits, times without zone, structs as dictionaries."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.11g}") + 0.0
    if hasattr(value, "asDict"):
        return tuple((name, plain(each)) for name, each in value.asDict().items())
    if isinstance(value, dict):
        return tuple((name, plain(each)) for name, each in value.items())
    if isinstance(value, list):
        return [plain(each) for each in value]
    if hasattr(value, "tzinfo") and value.tzinfo is not None:
        return value.replace(tzinfo=None)
    return bytes(value) if isinstance(value, bytearray) else value


def newest(rows, keys: int) -> list[tuple]:
    """The last row of each value of the first `keys` columns."""
    return list({repr(row[:keys]): row for row in rows}.values())
