"""Sessions of users: a gap of 30 seconds ends one."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("user string, ad string, at timestamp, amount double").json("data/clicks")
sessions = (
    events.filter(F.col("user").isNotNull())
    .withWatermark("at", "1 minute")
    .groupBy("user", F.session_window("at", "30 seconds"))
    .agg(F.count("*").alias("events"), F.min("at").alias("first"), F.max("at").alias("last"))
)
sessions.writeStream.toTable("web.sessions", checkpointLocation="checkpoints/sessions")
