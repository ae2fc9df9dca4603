"""A streaming query from one persistent stream into another, as a process of its own that can be killed.

python stream_query.py SOURCE TARGET CHECKPOINT until-killed|to-the-end
"""

import sys

from riprap.spark.session import session


def main(source: str, target: str, checkpoint: str, how: str) -> None:
    spark = session(master="local[2]")
    frame = spark.readStream.format("riprap").option("maxRowsPerTrigger", "40").load(source).where("_seq % 7 <> 3")
    query = frame.writeStream.format("riprap").option("checkpointLocation", checkpoint)
    query = query.trigger(availableNow=True) if how == "to-the-end" else query.trigger(processingTime="0 seconds")
    query.start(target).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
