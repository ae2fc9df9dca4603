"""Totals of users, all the time."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
clicks = spark.readStream.schema("user string, ad string, at timestamp, amount double").parquet("data/clicks")
totals = clicks.groupBy("user").agg(
    F.count(F.lit(1)).alias("clicks"), F.round(F.sum("amount"), 3).alias("amount"), F.max("at").alias("last")
)
totals.orderBy("user").writeStream.outputMode("complete").queryName("totals").format("memory").start()
