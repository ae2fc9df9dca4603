"""Impressions with the clicks on them within 20 seconds."""

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, expr

spark = SparkSession.builder.getOrCreate()
impressions = spark.readStream.schema("ad string, shown timestamp, cost double").parquet("data/impressions")
clicks = spark.readStream.schema("user string, ad string, at timestamp, amount double").parquet("data/clicks")
joined = (
    impressions.withWatermark("shown", "10 seconds")
    .alias("i")
    .join(
        clicks.withWatermark("at", "20 seconds").alias("c"),
        expr("i.ad = c.ad AND c.at >= i.shown AND c.at <= i.shown + interval 20 seconds"),
    )
    .select("i.ad", "i.shown", "c.user", "c.at", (col("c.amount") - col("i.cost")).alias("gain"))
)
joined.writeStream.queryName("gains").format("memory").start().awaitTermination()
