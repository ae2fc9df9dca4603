"""One query writes everything by a function, a second one counts."""

import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
readings = spark.readStream.schema("sensor int, at timestamp, speed double, ok boolean").parquet("data/readings")
good = readings.filter("ok AND speed IS NOT NULL").withWatermark("at", "30 seconds")


def archive(batch, number):
    batch.write.mode("append").parquet("archive")


good.writeStream.foreachBatch(archive).start()
query = good.groupBy(F.window("at", "1 minute")).agg(F.count("*").alias("n")).writeStream.queryName("counts")
query.format("console").start()
while True:
    time.sleep(10)
