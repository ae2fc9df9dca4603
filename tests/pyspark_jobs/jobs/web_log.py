"""Lines of a web server: status and path of errors."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
lines = spark.readStream.text("data/lines")
parsed = lines.select(
    F.regexp_extract("value", r"^(\S+) ", 1).alias("host"),
    F.try_to_timestamp(F.regexp_extract("value", r"\[([^\]]+)\]", 1), F.lit("yyyy-MM-dd HH:mm:ss")).alias("at"),
    F.regexp_extract("value", r'"\w+ (\S+)', 1).alias("path"),
    F.regexp_extract("value", r" (\d{3})$", 1).try_cast("int").alias("status"),
)
errors = (
    parsed.filter("status >= 500")
    .withWatermark("at", "1 minute")
    .groupBy(F.window("at", "1 minute"), F.split("path", "/").getItem(1).alias("part"))
    .count()
)
errors.writeStream.queryName("errors").format("console").start()
