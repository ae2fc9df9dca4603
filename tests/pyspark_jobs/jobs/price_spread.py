"""Statistics of amounts."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
clicks = spark.readStream.schema("user string, ad string, at timestamp, amount double").parquet("data/clicks")
spread = (
    clicks.withWatermark("at", "10 seconds")
    .groupBy(F.window("at", "1 minute"))
    .agg(
        F.stddev("amount").alias("deviation"),
        F.percentile_approx("amount", 0.5).alias("median"),
        F.sort_array(F.collect_set("ad")).alias("ads"),
        (F.sum("amount") / F.count("amount")).alias("mean"),
    )
)
spread.drop("window").writeStream.queryName("spread").format("console").start()
