"""Rows for comparisons with Spark, and comparisons: the same rows go through our engine and through a batch query."""

import math
from random import Random

import pyarrow as pa

from riprap.engine.engine import Engine
from riprap.operators.contract import Punctuation

TS = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([
    ("k", pa.string()), ("x", pa.float64()), ("y", pa.float64()), ("i", pa.int64()), ("b", pa.bool_()),
    ("s", pa.string()), ("d", pa.date32()), ("small", pa.int8()), ("at", TS),
])  # fmt: skip
SECOND = 1_000_000


def rows(seed: int, size: int, *, keys: str = "aaaaaab", start: int = 0, steps=(0, 0, SECOND // 2, SECOND, 7 * SECOND)):
    """In the order of their times, with ties, NULL in every column but the time, NaN, -0.0, and skewed keys."""
    random = Random(f"relational {seed}")

    def some(values):
        return None if random.random() < 0.15 else random.choice(values)

    odd = [0.0, -0.0, 1.5, 2.25, -7.0, 1e6, 0.1, math.nan]
    now, out = start, []
    for _ in range(size):
        now += random.choice(steps)
        out.append((
            some(keys), some(odd if random.random() < 0.3 else [0.1, 0.3, 2.0]),
            some([0.5, 1.5, -2.5, 4.0]), some([-3, -1, 0, 1, 2, 2, 2, 12]), some([True, False]),
            some(["", "a", "ä", "東京", "aa", "Z"]), some([-400, 0, 1, 20000]), some([-128, 127, 5, 6]), now,
        ))  # fmt: skip
    columns = list(zip(*out, strict=True)) if out else [()] * len(SCHEMA)
    arrays = [
        pa.array(column, pa.int32()).cast(f.type) if f.type == pa.date32() else pa.array(column, f.type)
        for column, f in zip(columns, SCHEMA, strict=True)
    ]
    return pa.table(arrays, schema=SCHEMA)


def with_time(table: pa.Table) -> pa.RecordBatch:
    """The rows with the order key of a source."""
    table = table.append_column("_ts", table["at"]).append_column("_seq", pa.array(range(len(table)), pa.int64()))
    return table.combine_chunks().to_batches()[0] if len(table) else pa.RecordBatch.from_pylist([], table.schema)


def ran(graph, inputs: dict[str, pa.Table], piece: int = 64, sink: str = "Out") -> list[dict]:
    """What an app emits, as rows, whatever the cut."""
    engine, outputs = Engine(graph), []
    pieces = []
    for name, table in inputs.items():
        batch = with_time(table)
        pieces += [(name, batch.slice(at, piece)) for at in range(0, batch.num_rows, piece)]
    for name, batch in sorted(pieces, key=lambda entry: entry[1]["_ts"][-1].value):
        outputs += engine.push(name, batch)
    for name in inputs:
        outputs += engine.end(name)
    found = []
    for output in outputs:
        if output.name == sink and not isinstance(output.event, Punctuation):
            batch = output.event
            found += batch.select([n for n in batch.schema.names if not n.startswith("_")]).to_pylist()
    return found


def frame(spark, table: pa.Table):
    """The rows in one partition, in order."""
    return spark.createDataFrame(table).coalesce(1)


def plain(value):
    """Comparable across Arrow and Spark: floats to 11 digits, sets sorted, times without zone."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.11g}") + 0.0
    if isinstance(value, list):
        return [plain(each) for each in value]
    if hasattr(value, "tzinfo") and value.tzinfo is not None:
        return value.replace(tzinfo=None)
    return value


def same(found: list[dict], expected, unordered=()) -> None:
    """The same rows, each as often, in any order; `unordered`: columns with arrays in any order."""

    def row(values: dict):
        shown = {name: plain(value) for name, value in values.items()}
        return tuple(
            (name, sorted(value, key=repr) if name in unordered else value) for name, value in sorted(shown.items())
        )

    ours = sorted((row(each) for each in found), key=repr)
    spark = sorted((row(each.asDict()) for each in expected.collect()), key=repr)
    for mine, other in zip(ours, spark, strict=False):
        assert mine == other, [pair for pair in zip(mine, other, strict=True) if pair[0] != pair[1]]
    assert len(ours) == len(spark)
