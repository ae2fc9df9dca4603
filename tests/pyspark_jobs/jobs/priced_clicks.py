"""Prices by Python, pandas and Arrow functions, and the dear ones as batches (mapInPandas, mapInArrow)."""

import pandas as pd
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

DEAR = 1.0


@F.udf("string")
def shouted(ad, user):
    return None if ad is None else f"{ad.upper()}!{user}"


@F.pandas_udf("double")
def doubled(amount: pd.Series) -> pd.Series:
    return amount * 2


@F.udf("boolean", useArrow=True)
def named(text):
    return text is not None and len(text) > 2


def dear(frames):
    for frame in frames:
        kept = frame[frame["price"] > DEAR]
        yield kept.assign(length=[len(ad or "") for ad in kept["ad"]])[["user", "ad", "price", "length"]]


def negative(batches):
    for batch in batches:
        yield batch.filter(pc.less(batch["price"], 1.5)).select(["price", "user"])


spark = SparkSession.builder.getOrCreate()
spark.udf.register("tripled", lambda amount: None if amount is None else amount * 3, "double")
clicks = spark.readStream.schema("user string, ad string, at timestamp, amount double").parquet("data/clicks")
priced = clicks.select(
    "user",
    shouted("ad", F.upper("user")).alias("ad"),
    (doubled(F.col("amount") + 1) / 2).alias("price"),
    F.expr("tripled(amount) - 1").alias("tripled"),
)
priced.where(named(shouted("ad", "user"))).writeStream.queryName("shown").format("console").start()
priced.mapInPandas(dear, "user string, ad string, price double, length long").writeStream.queryName("dear").format(
    "console"
).start()
priced.mapInArrow(negative, "price double, user string").writeStream.queryName("negative").format("console").start()
