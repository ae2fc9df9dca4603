"""Marks users with many clicks, with state of one's own (applyInPandasWithState)."""

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.streaming.state import GroupStateTimeout


def count_clicks(key, frames, state):
    seen = state.get[0] if state.exists else 0
    for frame in frames:
        seen += len(frame)
    state.update((seen,))
    yield pd.DataFrame({"user": [key[0]], "clicks": [seen]})


spark = SparkSession.builder.getOrCreate()
clicks = spark.readStream.schema("user string, ad string, at timestamp, amount double").parquet("data/clicks")
marked = (
    clicks.filter("user IS NOT NULL")
    .groupBy("user")
    .applyInPandasWithState(
        count_clicks, "user string, clicks long", "seen long", "update", GroupStateTimeout.NoTimeout
    )
)
marked.writeStream.outputMode("update").queryName("marked").format("console").start()
