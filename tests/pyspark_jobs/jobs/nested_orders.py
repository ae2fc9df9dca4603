"""Orders as nested JSON: lines, address, labels."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

SCHEMA = "id long, at timestamp, address struct<city: string, zip: string>, lines array<struct<sku: string, n: int>>, \
labels map<string, string>"

spark = SparkSession.builder.getOrCreate()
raw = spark.readStream.format("kafka").option("subscribe", "orders-json").load()
orders = raw.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("o")).select("o.*")
flat = orders.select(
    "id",
    F.upper("address.city").alias("city"),
    F.size("lines").alias("lines"),
    F.get("lines", F.lit(0))["sku"].alias("first"),
    F.col("labels")["kind"].alias("kind"),
)
flat.writeStream.queryName("flat").format("console").start()
