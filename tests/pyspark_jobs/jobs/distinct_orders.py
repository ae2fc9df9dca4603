"""Orders without those that the shop sent twice."""

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
orders = spark.readStream.schema("id int, ordered timestamp, total double").parquet("data/orders")
once = orders.withWatermark("ordered", "1 minute").dropDuplicates(["id", "ordered"])
once.select("id", "ordered").writeStream.queryName("once").format("console").start().awaitTermination()
