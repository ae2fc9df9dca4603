from pyspark import pipelines as dp
from pyspark.sql import SparkSession


@dp.temporary_view
def raw_orders():
    spark = SparkSession.active()
    return spark.readStream.schema("id int, ordered timestamp, total double").parquet("data/orders")
