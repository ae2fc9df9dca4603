"""Clicks from Kafka as JSON; the volume of each ad in each minute."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

SCHEMA = "user string, ad string, at timestamp, amount double"


def main():
    spark = SparkSession.builder.appName("ad-volumes").getOrCreate()
    raw = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", "broker:9092")
        .option("subscribe", "clicks-json")
        .load()
    )
    clicks = raw.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("click")).select("click.*")
    volumes = (
        clicks.withWatermark("at", "10 seconds")
        .groupBy(F.window("at", "1 minute"), "ad")
        .agg(F.count("*").alias("clicks"), F.sum("amount").alias("amount"))
    )
    query = volumes.writeStream.queryName("volumes").outputMode("append").format("console").start()
    query.awaitTermination()


if __name__ == "__main__":
    main()
