"""Bargain Discovery on Spark Structured Streaming: what `riprap run` is measured against. Nothing here is part of the
product.

Two forms of the query of `bargain_peers`, both with Parquet in and Parquet out, a file per micro-batch, exactly once:

    arrow    `foreachBatch`; in each micro-batch one shuffle by ticker and `mapInArrow` with Polars on what every core
             got; the last trades of every ticker are carried to the next micro-batch in Parquet. The fastest form
             that was found: with the same shuffle, SQL window functions, which sort twice, took 2.2 s for a million
             tuples where this took 1.4 s (once; other work was running).
    per key  `transformWithStateInPandas` by ticker, the state of a key being its last trades: the form that Spark
             offers for state that it keeps and recovers itself. Rows of a key come as one pandas frame, so the larger
             a micro-batch, the faster.

Both give the columns that the app's sink has; of the order key `seq`, as Spark's pandas frames lose the names of
columns that begin with an underscore.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StatefulProcessor

from benchmarks.bargain_peers import WINDOW

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not have this directory on their path
_TICKS = pa.schema(
    [("ticker", pa.string()), ("type", pa.string()), ("price", pa.float64()), ("size", pa.int64()), ("seq", pa.int64())]
)
_TICKS_DDL = "ticker string, type string, price double, size bigint, seq bigint"
_BARGAINS_DDL = "ticker string, ask_price double, ask_size bigint, vwap double, gain double, seq bigint"
# Bargains, and the trades that the next micro-batch needs.
_FOUND = pa.schema(
    [
        ("ticker", pa.string()),
        ("price", pa.float64()),
        ("size", pa.int64()),
        ("seq", pa.int64()),
        ("vwap", pa.float64()),
        ("carried", pa.bool_()),
    ]
)
_FOUND_DDL = "ticker string, price double, size bigint, seq bigint, vwap double, carried boolean"

_WARM_UP = 2  # micro-batches, in which Python processes start and code is compiled

Form = Callable[[SparkSession, Path, Path], Any]


def write_ticks(table: pa.Table, directory: Path, rows: int) -> None:
    """One file per micro-batch, in the order in which a file source takes them: by time of change."""
    directory.mkdir(parents=True)
    plain = table.select(["ticker", "type", "price", "size", "_seq"]).rename_columns(_TICKS.names).cast(_TICKS)
    for number, first in enumerate(range(0, plain.num_rows, rows)):
        path = directory / f"{number:05d}.parquet"
        rising = _TICKS.names[-1]  # written as our input is, so that it is read as fast
        pq.write_table(
            plain.slice(first, rows), path, use_dictionary=_TICKS.names[:-1],
            column_encoding={rising: "DELTA_BINARY_PACKED"},
        )  # fmt: skip
        os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))


def _ticks(spark: SparkSession, directory: Path) -> DataFrame:
    return spark.readStream.schema(_TICKS_DDL).option("maxFilesPerTrigger", 1).parquet(str(directory))


def arrow(spark: SparkSession, ticks: Path, out: Path) -> Any:
    """A query over every file in `ticks`, started; `arrow_bargains` reads what it found."""
    cores = spark.sparkContext.defaultParallelism

    def process(batch: DataFrame, number: int) -> None:
        if number:
            carried = batch.sparkSession.read.schema(_FOUND_DDL).parquet(str(out / f"{number - 1}" / "carried=true"))
            batch = batch.unionByName(carried.selectExpr("ticker", "'TRADE' as type", "price", "size", "seq"))
        found = batch.repartition(cores, "ticker").mapInArrow(_found, _FOUND_DDL)
        found.write.partitionBy("carried").mode("overwrite").parquet(str(out / f"{number}"))

    writer = _ticks(spark, ticks).writeStream.foreachBatch(process).option("checkpointLocation", str(out / "progress"))
    return writer.trigger(availableNow=True).start()


def _found(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import polars as pl

    rows = pa.Table.from_batches(batches, _TICKS)
    ticks = pl.from_arrow(rows).lazy().sort("seq")  # a shuffle keeps no order
    worth, volume = pl.col("price") * pl.col("size"), pl.col("size")
    average = worth.rolling_sum(WINDOW, min_samples=1) / volume.rolling_sum(WINDOW, min_samples=1)
    trades = ticks.filter(pl.col("type") == "TRADE").with_columns(vwap=average.over("ticker"))
    quotes = ticks.filter(pl.col("type") == "QUOTE").select("ticker", "price", "size", "seq")
    bargains = quotes.join_asof(
        trades.select("ticker", "seq", "vwap"), on="seq", by="ticker", check_sortedness=False
    ).filter(pl.col("vwap") > pl.col("price"))
    carried = trades.group_by("ticker").tail(WINDOW).select("ticker", "price", "size", "seq", "vwap")
    both = pl.collect_all([bargains.with_columns(carried=False), carried.with_columns(carried=True)])
    for part in both:
        yield from part.select(_FOUND.names).to_arrow().cast(_FOUND).to_batches()


def arrow_bargains(spark: SparkSession, out: Path) -> DataFrame:
    parts = [str(path) for path in out.glob("[0-9]*/carried=false")]
    found = spark.read.parquet(*parts)
    gain = "size * (vwap - price) as gain"
    return found.selectExpr("ticker", "price as ask_price", "size as ask_size", "vwap", gain, "seq")


class _Bargains(StatefulProcessor):
    """Of one ticker: the state is its last trades, oldest first."""

    def init(self, handle: Any) -> None:
        self._recent = handle.getValueState("recent", "prices array<double>, sizes array<bigint>")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timers: Any) -> Iterator[Any]:
        import numpy as np
        import pandas as pd

        frame = pd.concat(list(rows)).sort_values("seq")
        is_trade = (frame["type"] == "TRADE").to_numpy()
        price, size, seq = (frame[name].to_numpy() for name in ("price", "size", "seq"))
        prices, sizes = (np.array(part) for part in self._recent.get() or ([], []))
        prices, sizes = np.concatenate([prices, price[is_trade]]), np.concatenate([sizes, size[is_trade]])
        worth, volume = pd.Series(prices * sizes), pd.Series(sizes)
        averages = (worth.rolling(WINDOW, 1).sum() / volume.rolling(WINDOW, 1).sum()).to_numpy()
        carried = len(prices) - is_trade.sum()
        latest = carried + np.cumsum(is_trade) - 1  # which average each row meets
        vwap = np.where(latest >= 0, averages[latest], -np.inf) if len(averages) else np.full(len(price), -np.inf)
        found = ~is_trade & (vwap > price)
        if is_trade.any():
            self._recent.update(([float(p) for p in prices[-WINDOW:]], [int(s) for s in sizes[-WINDOW:]]))
        price, size, vwap = price[found], size[found], vwap[found]
        yield pd.DataFrame(
            {"ticker": key[0], "ask_price": price, "ask_size": size, "vwap": vwap, "gain": size * (vwap - price)}
            | {"seq": seq[found]}
        )


def per_key(spark: SparkSession, ticks: Path, out: Path) -> Any:
    """A query over every file in `ticks`, started; `per_key_bargains` reads what it found."""
    groups = _ticks(spark, ticks).groupBy("ticker")
    found = groups.transformWithStateInPandas(
        statefulProcessor=_Bargains(), outputStructType=_BARGAINS_DDL, outputMode="Append", timeMode="None"
    )
    writer = found.writeStream.format("parquet").option("path", str(out / "bargains"))
    return writer.option("checkpointLocation", str(out / "progress")).trigger(availableNow=True).start()


def per_key_bargains(spark: SparkSession, out: Path) -> DataFrame:
    return spark.read.parquet(str(out / "bargains"))


def streaming_session(spark: SparkSession) -> SparkSession:
    """A session beside `spark` with the state store that per-key state needs, and one shuffle partition per core."""
    own = spark.newSession()
    settings = {
        "spark.sql.shuffle.partitions": str(spark.sparkContext.defaultParallelism),
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    }
    for name, value in settings.items():
        own.conf.set(name, value)
    return own


def tuples_per_second_per_core(spark: SparkSession, form: Form, table: pa.Table, batch_rows: int) -> float:
    """The tuples of the micro-batches behind the warm-up by the time that these took, from trigger to commit."""
    directory = Path(tempfile.mkdtemp(prefix="riprap-streaming-"))
    try:
        write_ticks(table, directory / "ticks", batch_rows)
        query = form(streaming_session(spark), directory / "ticks", directory / "out")
        query.awaitTermination()
        timed = [progress for progress in query.recentProgress if progress["numInputRows"]][_WARM_UP:]
        tuples = sum(progress["numInputRows"] for progress in timed)
        seconds = sum(progress["durationMs"]["triggerExecution"] for progress in timed) / 1e3
        return float(tuples / seconds / spark.sparkContext.defaultParallelism)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
