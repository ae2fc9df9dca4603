"""Visits of users, each with a timeout (applyInPandasWithState in event time)."""

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.streaming.state import GroupStateTimeout

GAP = 6_000  # milliseconds


def visits(key, frames, state):
    open_ = state.getOption
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"user": [key[0]], "first": [open_[0]], "clicks": [open_[2]]})
        return
    rows = sorted(moment for frame in frames for moment in frame["at"])
    for moment in (int(each.timestamp() * 1000) for each in rows):
        if open_ is not None and moment > open_[1] + GAP:
            yield pd.DataFrame({"user": [key[0]], "first": [open_[0]], "clicks": [open_[2]]})
            open_ = None
        open_ = (moment, moment, 1) if open_ is None else (open_[0], moment, open_[2] + 1)
    state.update(open_)
    state.setTimeoutTimestamp(max(open_[1] + GAP, state.getCurrentWatermarkMs()))


spark = SparkSession.builder.getOrCreate()
clicks = spark.readStream.schema("user string, ad string, at timestamp, amount double").parquet("data/clicks")
found = (
    clicks.filter("at IS NOT NULL")
    .withWatermark("at", "10 seconds")
    .groupBy("user")
    .applyInPandasWithState(
        visits,
        "user string, first long, clicks long",
        "first long, last long, clicks long",
        "append",
        GroupStateTimeout.EventTimeTimeout,
    )
)
found.writeStream.queryName("visits").format("console").start()
