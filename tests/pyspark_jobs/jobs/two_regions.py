"""Clicks of two regions counted together."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
SCHEMA = "user string, ad string, at timestamp, amount double"
europe = spark.readStream.schema(SCHEMA).parquet("data/clicks").withColumn("region", F.lit("EU"))
america = spark.readStream.schema(SCHEMA).parquet("data/clicks_us").withColumn("region", F.lit("US"))
counts = (
    europe.unionByName(america)
    .withWatermark("at", "10 seconds")
    .groupBy(F.window("at", "2 minutes"), "region")
    .agg(F.approx_count_distinct("user").alias("users"))
)
counts.select("window.start", "window.end", "region", "users").writeStream.queryName("users").format("console").start()
