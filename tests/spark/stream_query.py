"""A streaming query from one persistent stream into another; as a process of its own it runs until it is killed.

python stream_query.py SOURCE TARGET CHECKPOINT
"""

import sys

from pyspark.sql.streaming import StreamingQuery

from riprap.spark.queries import Restarted
from riprap.spark.session import session


def run_query(spark, source: str, target: str, checkpoint: str, to_the_end: bool) -> None:
    frame = spark.readStream.format("riprap").option("maxRowsPerTrigger", "40").load(source).where("_seq % 7 <> 3")
    query = frame.writeStream.format("riprap").option("checkpointLocation", checkpoint)
    query = query.trigger(availableNow=True) if to_the_end else query.trigger(processingTime="0 seconds")
    Restarted(lambda: query.start(target)).until(StreamingQuery.awaitTermination)


if __name__ == "__main__":
    run_query(session(master="local[2]"), *sys.argv[1:4], to_the_end=False)
