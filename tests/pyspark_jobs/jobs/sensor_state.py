"""Steps between readings of a sensor (transformWithStateInPandas)."""

from collections.abc import Iterator

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle


class Steps(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.last = handle.getValueState("last", "speed double")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[pd.DataFrame]:
        for frame in rows:
            for speed in frame["speed"]:
                before = self.last.get()[0] if self.last.exists() else 0.0
                self.last.update((float(speed),))
                yield pd.DataFrame({"sensor": [key[0]], "step": [float(speed) - before]})

    def close(self) -> None: ...


spark = SparkSession.builder.getOrCreate()
readings = spark.readStream.schema("sensor int, at timestamp, speed double, ok boolean").parquet("data/readings")
steps = (
    readings.filter("speed IS NOT NULL AND sensor IS NOT NULL")
    .groupBy("sensor")
    .transformWithStateInPandas(
        statefulProcessor=Steps(), outputStructType="sensor int, step double", outputMode="append", timeMode="none"
    )
)
steps.writeStream.queryName("steps").format("console").start()
