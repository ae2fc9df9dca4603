"""The running total of each customer (transformWithState on rows)."""

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle


class Totals(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.bills = handle.getListState("bills", "cents long")

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            self.bills.appendValue((int(row.sum * 100),))
            yield Row(customer=key[0], cents=sum(each[0] for each in self.bills.get()))

    def close(self) -> None: ...


spark = SparkSession.builder.getOrCreate()
bills = spark.readStream.schema("customer string, at timestamp, sum decimal(12,2), tax decimal(5,4)").parquet(
    "data/bills"
)
totals = (
    bills.filter("customer IS NOT NULL AND sum IS NOT NULL")
    .groupBy("customer")
    .transformWithState(
        statefulProcessor=Totals(), outputStructType="customer string, cents long", outputMode="append", timeMode="none"
    )
)
totals.writeStream.queryName("totals").format("console").start()
