"""Sliding averages of sensors, with an alarm where they are high."""

from pyspark.sql import SparkSession
from pyspark.sql.functions import avg, col, max, window

spark = SparkSession.builder.getOrCreate()
readings = spark.readStream.schema("sensor int, at timestamp, speed double, ok boolean").parquet("data/readings")
speeds = (
    readings.where(col("ok"))
    .withWatermark("at", "30 seconds")
    .groupBy(col("sensor"), window(col("at"), "1 minute", "20 seconds"))
    .agg(avg("speed").alias("speed"), max("speed").alias("top"))
    .select(col("window.start").alias("since"), "sensor", "speed", "top", (col("speed") > 5).alias("alarm"))
)
speeds.writeStream.format("parquet").option("path", "out/speeds").option("checkpointLocation", "cp").start()
spark.streams.awaitAnyTermination()
