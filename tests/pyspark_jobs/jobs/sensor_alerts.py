"""Readings outside of their range, with a text. Nothing is kept between rows."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
readings = spark.readStream.schema("sensor int, at timestamp, speed double, ok boolean").parquet("data/readings")
alerts = (
    readings.withColumn("level", F.when(F.col("speed") > 8, 2).when(F.col("speed") > 4, 1).otherwise(0))
    .filter(F.col("level") > 0)
    .withColumn("text", F.concat_ws(": ", F.format_string("sensor %05d", "sensor"), F.col("speed").cast("string")))
    .withColumn("day", F.to_date("at"))
    .select("sensor", "level", "text", "day", F.hour("at").alias("hour"), F.abs(F.col("speed") % 3).alias("rest"))
)
alerts.writeStream.foreach(print).start()
