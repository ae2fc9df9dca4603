"""Exact sums of money for each day."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
bills = spark.readStream.schema("customer string, at timestamp, sum decimal(12,2), tax decimal(5,4)").parquet(
    "data/bills"
)
days = (
    bills.withColumn("gross", (F.col("sum") * (1 + F.col("tax"))).cast("decimal(16,2)"))
    .withWatermark("at", "1 hour")
    .groupBy(F.window("at", "1 day"), "customer")
    .agg(F.sum("gross").alias("gross"), F.max("sum").alias("largest"), F.count("*").alias("bills"))
)
days.select(F.to_date("window.start").alias("day"), "customer", "gross", "largest", "bills").writeStream.queryName(
    "days"
).format("console").start()
