from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


@dp.temporary_view
def raw():
    return spark.readStream.schema("user string, ad string, at timestamp, amount double").parquet("data/clicks")


@dp.table
def clean():
    return spark.readStream.table("raw").filter("amount > 0").withColumn("ad", F.upper("ad"))


@dp.table(name="minutes")
def per_minute():
    return (
        spark.readStream.table("clean")
        .withWatermark("at", "10 seconds")
        .groupBy(F.window("at", "1 minute"), "ad")
        .agg(F.sum("amount").alias("amount"))
        .select("window.start", "ad", "amount")
    )


@dp.materialized_view
def totals():
    return spark.read.table("clean").groupBy("ad").agg(F.count("*").alias("n"))
