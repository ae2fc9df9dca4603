"""Impressions with their clicks, or without one."""

from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

spark = SparkSession.builder.getOrCreate()
impressions = spark.readStream.schema("ad string, shown timestamp, cost double").parquet("data/impressions")
clicks = spark.readStream.schema("user string, ad string, at timestamp, amount double").parquet("data/clicks")
left = impressions.withWatermark("shown", "10 seconds").alias("i")
right = clicks.withWatermark("at", "20 seconds").alias("c")
result = left.join(right, expr("i.ad = c.ad AND c.at BETWEEN i.shown AND i.shown + interval 15 seconds"), "leftOuter")
result.selectExpr("i.ad AS ad", "shown", "user", "at").writeStream.queryName("unclicked").format("console").start()
