"""A report in SQL over views."""

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
clicks = spark.readStream.schema("user string, ad string, at timestamp, amount double").parquet("data/clicks")
clicks.withWatermark("at", "10 seconds").createOrReplaceTempView("clicks")
report = spark.sql("""
    WITH good AS (SELECT *, amount * 1.19D AS gross FROM clicks WHERE amount > 0 AND ad IS NOT NULL)
    SELECT window.start AS since, ad, count(*) AS clicks, round(sum(gross), 4) AS gross,
           count(*) FILTER (WHERE gross > 3) AS large, max(user) AS last_user
    FROM good
    GROUP BY window(at, '30 seconds'), ad
    HAVING count(*) > 1
""")
report.writeStream.queryName("report").format("console").start().awaitTermination()
