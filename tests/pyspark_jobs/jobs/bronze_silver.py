"""Three queries: raw rows to a table, clean rows from it to another one, and totals from that."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
raw = spark.readStream.format("kafka").option("subscribe", "clicks-json").load()
raw.select(F.col("value").cast("string").alias("json"), "timestamp").writeStream.toTable("bronze")

bronze = spark.readStream.table("bronze")
parsed = bronze.select(
    F.from_json("json", "user string, ad string, at timestamp, amount double").alias("c"), "timestamp"
)
silver = parsed.select("c.user", "c.ad", "c.amount", "timestamp").filter("amount >= 0")
silver.writeStream.option("checkpointLocation", "cp/silver").toTable("silver")

gold = spark.readStream.table("silver").groupBy("ad").agg(F.count("*").alias("n"))
gold.writeStream.outputMode("complete").toTable("gold")
spark.streams.awaitAnyTermination()
