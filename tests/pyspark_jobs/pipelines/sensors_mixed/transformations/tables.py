from pyspark import pipelines as dp
from pyspark.sql import SparkSession

SCHEMA = "sensor int, at timestamp, speed double, ok boolean"

dp.create_streaming_table("readings")


@dp.append_flow(target="readings")
def north():
    return SparkSession.active().readStream.schema(SCHEMA).parquet("data/readings").filter("sensor < 3")


@dp.append_flow(target="readings")
def south():
    return SparkSession.active().readStream.schema(SCHEMA).parquet("data/readings_south").filter("sensor >= 3")
