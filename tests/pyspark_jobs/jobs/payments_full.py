"""Orders and payments, with those that have no partner within a minute."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
orders = spark.readStream.schema("id int, ordered timestamp, total double").parquet("data/orders")
payments = spark.readStream.schema("order_id int, paid timestamp, sum double").parquet("data/payments")
both = orders.withWatermark("ordered", "1 minute").join(
    payments.withWatermark("paid", "1 minute"),
    F.expr("id = order_id AND paid >= ordered - interval 1 minute AND paid <= ordered + interval 1 minute"),
    "fullOuter",
)
both.select("id", "order_id", "total", "sum").writeStream.format("delta").start("out/reconciled")
