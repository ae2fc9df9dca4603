"""The busiest ten seconds of each minute: a window over windows."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
clicks = spark.readStream.schema("user string, ad string, at timestamp, amount double").parquet("data/clicks")
short = clicks.withWatermark("at", "5 seconds").groupBy(F.window("at", "10 seconds"), "ad").count()
long = short.groupBy(F.window(F.window_time("window"), "1 minute")).agg(
    F.max("count").alias("most"), F.sum("count").alias("all")
)
long.select(F.col("window.end").alias("until"), "most", "all").writeStream.queryName("busiest").format(
    "console"
).start()
