"""Clicks with the campaign of their ad from a small table."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
campaigns = spark.createDataFrame(
    [("a", "spring", 0.1), ("b", "summer", 0.2), ("b", "autumn", 0.3), (None, "none", 0.0)],
    "ad string, campaign string, rate double",
)
clicks = spark.readStream.schema("user string, ad string, at timestamp, amount double").parquet("data/clicks")
enriched = (
    clicks.join(campaigns, "ad", "left")
    .withColumn("fee", F.coalesce(F.col("amount") * F.col("rate"), F.lit(0.0)))
    .withColumn("size", F.when(F.col("amount") > 5, "large").when(F.col("amount") > 1, "medium").otherwise("small"))
    .drop("rate")
)
enriched.writeStream.format("kafka").option("topic", "enriched").start()
