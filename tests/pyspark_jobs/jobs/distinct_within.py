"""Payments once each; a repetition comes within the watermark."""

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
payments = spark.readStream.schema("order_id int, paid timestamp, sum double").parquet("data/payments")
once = payments.withWatermark("paid", "2 hours").dropDuplicatesWithinWatermark(["order_id"])
once.select("order_id").writeStream.queryName("once").format("console").start().awaitTermination()
