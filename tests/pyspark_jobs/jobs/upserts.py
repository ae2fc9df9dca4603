"""The newest total of each ad, merged by a function into a table."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def merge(batch, number):
    batch.sparkSession.sql("MERGE INTO totals USING batch ON totals.ad = batch.ad WHEN MATCHED THEN UPDATE SET *")


spark = SparkSession.builder.getOrCreate()
clicks = spark.readStream.schema("user string, ad string, at timestamp, amount double").parquet("data/clicks")
totals = clicks.groupBy("ad").agg(F.count("*").alias("clicks"), F.min("amount").alias("least"))
totals.writeStream.outputMode("update").foreachBatch(merge).option(
    "checkpointLocation", "cp"
).start().awaitTermination()
