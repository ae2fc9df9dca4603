"""Bargain Discovery as others would do it: what the engine is measured against. Nothing here is part of the product.

Each peer takes prepared input and runs the query alone, and answers `(number of bargains, sum of their gains)`:

    fused loop   one compiled pass over integer-coded arrays: as fast as one core gets, with no operators at all
    Polars       lazy, on the table in memory; POLARS_MAX_THREADS must be 1 before Polars is first imported
    DuckDB       SQL on the table in memory, one thread
    Spark SQL    the same query on Parquet, on the caller's session

The query: the volume-weighted average price of the five most recent trades of a ticker, from its first trade on; each
quote against the latest such average of its ticker; a bargain where the average is above the price asked, and its gain
the difference times the size. `_seq` is the order.
"""

import os
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

WINDOW = 5  # trades


class Answer(NamedTuple):
    bargains: int
    gain: float


@dataclass(frozen=True)
class CodedStream:
    """The columns that Bargain Discovery reads, as arrays in stream order."""

    ticker: np.ndarray  # int32 codes 0 … tickers − 1
    is_quote: np.ndarray  # int8
    price: np.ndarray  # float64
    size: np.ndarray  # int64
    tickers: int


def coded(table: pa.Table) -> CodedStream:
    """The table as the fused loop wants it. Not part of what is timed."""
    table = table.unify_dictionaries().combine_chunks()
    ticker = table["ticker"].chunk(0)
    is_quote = pc.equal(table["type"], "QUOTE").cast(pa.int8()).to_numpy()
    return CodedStream(
        ticker.indices.to_numpy(), is_quote, table["price"].to_numpy(), table["size"].to_numpy(), len(ticker.dictionary)
    )


def fused_loop(stream: CodedStream) -> tuple[Answer, np.ndarray, np.ndarray]:
    """The answer, and the output stream: position and gain of every bargain."""
    positions, gains, total = _fused(stream.ticker, stream.is_quote, stream.price, stream.size, stream.tickers)
    return Answer(len(positions), total), positions, gains


@njit(cache=True, nogil=True)
def _fused(
    ticker: np.ndarray, is_quote: np.ndarray, price: np.ndarray, size: np.ndarray, tickers: int
) -> tuple[np.ndarray, np.ndarray, float]:
    worth = np.zeros((tickers, WINDOW))
    volume = np.zeros((tickers, WINDOW))
    slot = np.zeros(tickers, np.int64)
    average = np.zeros(tickers)  # 0 until the first trade: below every price
    positions = np.empty(len(ticker), np.int64)
    gains = np.empty(len(ticker))
    found = 0
    total = 0.0
    for i in range(len(ticker)):
        key = ticker[i]
        if is_quote[i]:
            gain = average[key] - price[i]
            if gain > 0.0:
                gain *= size[i]
                positions[found] = i
                gains[found] = gain
                total += gain
                found += 1
        else:
            worth[key, slot[key]] = price[i] * size[i]
            volume[key, slot[key]] = size[i]
            slot[key] = (slot[key] + 1) % WINDOW
            average[key] = worth[key].sum() / volume[key].sum()
    return positions[:found], gains[:found], total


def polars_frame(table: pa.Table) -> Any:
    """The table as a Polars frame with categorical strings. Not part of what is timed."""
    if os.environ.get("POLARS_MAX_THREADS") != "1":
        raise RuntimeError("set POLARS_MAX_THREADS=1 before anything imports Polars: the comparison is for one core")
    import polars

    frame = polars.from_arrow(table.select(["ticker", "type", "price", "size", "_seq"]))
    assert polars.thread_pool_size() == 1
    return frame


def polars_query(frame: Any) -> Answer:
    """An as-of join on the rolling average: faster than forward-filling the average over all tuples."""
    import polars as pl

    ticks = frame.lazy()
    worth, volume = pl.col("price") * pl.col("size"), pl.col("size")
    average = worth.rolling_sum(WINDOW, min_samples=1) / volume.rolling_sum(WINDOW, min_samples=1)
    trades = ticks.filter(pl.col("type") == "TRADE").select("ticker", "_seq", average=average.over("ticker"))
    quotes = ticks.filter(pl.col("type") == "QUOTE").select("ticker", "_seq", "price", "size")
    found = (
        quotes.join_asof(trades, on="_seq", by="ticker", check_sortedness=False)
        .filter(pl.col("average") > pl.col("price"))
        .select(pl.len(), gain=((pl.col("average") - pl.col("price")) * pl.col("size")).sum())
        .collect()
    )
    return Answer(*found.row(0))


# Rolling averages of the trades, carried forward to the quotes by a window over both. In DuckDB as fast as or faster
# than an as-of join on the averages, which Spark does not have. They differ in how they spell "ignore nulls".
_QUERY = f"""
with averages as (
    select ticker, _seq, cast(null as double) as price, cast(null as bigint) as size,
           sum(price * size) over recent / sum(size) over recent as average
    from ticks where type = 'TRADE'
    window recent as (partition by ticker order by _seq rows between {WINDOW - 1} preceding and current row)
), both_kinds as (
    select * from averages
    union all
    select ticker, _seq, price, size, cast(null as double) from ticks where type = 'QUOTE'
), matched as (
    select price, size, {{latest}} over (
        partition by ticker order by _seq rows between unbounded preceding and current row
    ) as average
    from both_kinds
)
select count(*), sum((average - price) * size) from matched where average > price
"""
DUCKDB_QUERY = _QUERY.format(latest="last_value(average ignore nulls)")
SPARK_QUERY = _QUERY.format(latest="last_value(average, true)")


def duckdb_connection(table: pa.Table) -> Any:
    """A connection of one thread that sees the table as `ticks`, without a copy. Not part of what is timed."""
    import duckdb

    connection = duckdb.connect(config={"threads": 1})
    connection.register("ticks", table)
    return connection


def duckdb_query(connection: Any) -> Answer:
    return Answer(*connection.execute(DUCKDB_QUERY).fetchone())


def spark_view(spark: Any, path: str) -> Any:
    """The session with the Parquet file at `path` as `ticks`. Not part of what is timed."""
    spark.read.parquet(path).createOrReplaceTempView("ticks")
    return spark


def spark_query(spark: Any) -> Answer:
    return Answer(*spark.sql(SPARK_QUERY).first())
