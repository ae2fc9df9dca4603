"""Orders that were paid within a minute."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
orders = spark.readStream.schema("id int, ordered timestamp, total double").parquet("data/orders")
payments = spark.readStream.schema("order_id int, paid timestamp, sum double").parquet("data/payments")
paid = orders.withWatermark("ordered", "1 minute").join(
    payments.withWatermark("paid", "1 minute"),
    F.expr("id = order_id AND paid >= ordered AND paid <= ordered + interval 1 minute"),
    "leftSemi",
)
paid.writeStream.queryName("paid").format("console").start()
