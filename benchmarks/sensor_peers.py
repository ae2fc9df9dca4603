"""The sensor fleet as others would do it: what the engine is measured against, and held to row by row. Nothing here is
part of the product.

Each peer takes prepared input, runs both queries, and answers with two tables, in order:

    summaries   minute (its end, int64 µs), site, kind, readings, silent, mean, least, greatest; by minute, site, kind
    alerts      _seq, sensor, answers, mean, value, status; by _seq

    Polars   lazy, both queries at once on the table in memory; POLARS_MAX_THREADS must be 1 before it is imported
    DuckDB   SQL on the table in memory, one thread
"""

import os
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

MINUTE = 60_000_000


class Answer(NamedTuple):
    summaries: pa.Table
    alerts: pa.Table


SUMMARIES = ("minute", "site", "kind", "readings", "silent", "mean", "least", "greatest")
ALERTS = ("_seq", "sensor", "answers", "mean", "value", "status")

_READINGS = """
select sensor, site, kind, value, coalesce(status, 'ok') as status, micros, _seq
from fleet where status is null or status not like 'maintenance%'
"""
# Order matters to nobody here but the comparison; sorting is not part of what is timed.
SUMMARIES_QUERY = f"""
select (micros // {MINUTE} + 1) * {MINUTE} as minute, site, kind, count(*) as readings,
       count(*) - count(value) as silent, avg(value) as mean, min(value) as least, max(value) as greatest
from ({_READINGS}) group by all
"""
# A window has what is younger than a minute: times are whole microseconds, and no two are equal.
ALERTS_QUERY = f"""
with recent as (
    select _seq, sensor, value, status, count(*) over last_minute as answers, avg(value) over last_minute as mean
    from ({_READINGS}) where value is not null
    window last_minute as (partition by sensor order by micros range between {MINUTE - 1} preceding and current row)
)
select _seq, sensor, answers, mean, value, status from recent where answers >= 5 and abs(value - mean) > 8
"""


def duckdb_connection(table: pa.Table) -> Any:
    """A connection of one thread that sees the table as `fleet`, its times as integers. Not part of what is timed."""
    import duckdb

    connection = duckdb.connect(config={"threads": 1})
    connection.register("fleet", table.append_column("micros", table["_ts"].cast(pa.int64())))
    return connection


def duckdb_query(connection: Any) -> Answer:
    return Answer(*(connection.sql(query).to_arrow_table() for query in (SUMMARIES_QUERY, ALERTS_QUERY)))


def polars_frame(table: pa.Table) -> Any:
    """The table as a Polars frame with categorical strings. Not part of what is timed."""
    if os.environ.get("POLARS_MAX_THREADS") != "1":
        raise RuntimeError("set POLARS_MAX_THREADS=1 before anything imports Polars: the comparison is for one core")
    import polars

    frame = polars.from_arrow(table)
    assert polars.thread_pool_size() == 1
    return frame


def polars_query(frame: Any) -> Answer:
    import polars as pl

    value = pl.col("value")
    kept = pl.col("status").is_null() | ~pl.col("status").cat.starts_with("maintenance")
    readings = frame.lazy().filter(kept)
    summaries = readings.group_by(
        (pl.col("_ts").cast(pl.Int64) // MINUTE + 1).mul(MINUTE).alias("minute"), "site", "kind"
    ).agg(
        pl.len().alias("readings"),
        value.null_count().alias("silent"),
        value.mean().alias("mean"),
        value.min().alias("least"),
        value.max().alias("greatest"),
    )
    mean = value.rolling_mean_by("_ts", "1m", closed="right")
    recent = readings.filter(value.is_not_null()).with_columns(
        mean=mean.over("sensor"),
        answers=pl.col("_seq").is_not_null().cast(pl.Int64).rolling_sum_by("_ts", "1m", closed="right").over("sensor"),
    )
    alerts = recent.filter((pl.col("answers") >= 5) & ((value - pl.col("mean")).abs() > 8)).select(
        "_seq", "sensor", "answers", "mean", "value", pl.col("status").cast(pl.String).fill_null("ok")
    )
    made = pl.collect_all([summaries, alerts])
    return Answer(made[0].to_arrow(), made[1].to_arrow())


def in_order(answer: Answer) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Rows of both tables, sorted, as plain values."""
    return (_rows(answer.summaries, SUMMARIES, 3), _rows(answer.alerts, ALERTS, 1))


def _rows(table: pa.Table, names: tuple[str, ...], keys: int) -> list[tuple[Any, ...]]:
    columns = [_plain(table[name]) for name in names]
    rows = list(zip(*columns, strict=True))
    return sorted(rows, key=lambda row: row[:keys])


def _plain(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, pa.string())
    return column.to_pylist()  # type: ignore[no-any-return]
