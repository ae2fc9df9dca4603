"""Parts of times, in one select."""

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
clicks = spark.readStream.schema("user string, ad string, at timestamp, amount double").parquet("data/clicks")
times = clicks.selectExpr(
    "user",
    "date_trunc('HOUR', at) AS hour",
    "date_format(at, 'yyyy-MM-dd HH:mm') AS minute",
    "dayofweek(at) AS weekday",
    "datediff(to_date(at), DATE '2024-01-01') AS days",
    "unix_timestamp(at) AS seconds",
    "lpad(coalesce(ad, '-'), 4, '*') AS ad",
    "sha2(user, 256) AS hashed",
)
times.writeStream.format("parquet").start("out/times")
