"""Counts for each quarter of a minute, as they change."""

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count, upper, window

spark = SparkSession.builder.getOrCreate()
clicks = spark.readStream.schema("user string, ad string, at timestamp, amount double").parquet("data/clicks")
counts = (
    clicks.withWatermark("at", "10 seconds")
    .groupBy(window("at", "15 seconds", startTime="5 seconds"), upper(col("ad")).alias("ad"))
    .agg(count("user").alias("named"))
)
counts.writeStream.outputMode("update").queryName("counts").format("console").start()
