"""A producer as a process of its own, to be killed or stopped.

    python producer.py STREAM EPOCH LAST

Goes on three appends before the last one that the stream knows, as one does who is not sure what arrived, and prints
the sequence of every append as it is acknowledged. Append number k has 1 + k % 7 rows, with texts that can be torn.
"""

import sys

import pyarrow as pa
from stream_data import SCHEMA, batch

from riprap.streams import PersistentStream


def rows_before(sequence: int) -> int:
    whole, rest = divmod(sequence, 7)
    return whole * 28 + rest * (rest + 1) // 2


def append_number(sequence: int) -> pa.RecordBatch:
    made = batch(rows_before(sequence), 1 + sequence % 7)
    return made.set_column(2, SCHEMA.field(2), pa.array([f"{sequence} " * 2000] * made.num_rows))


def main(path: str, epoch: int, last: int) -> None:
    with PersistentStream.open(path).writer(producer="p", epoch=epoch) as writer:
        print("ready", flush=True)
        for sequence in range(max(writer.last_sequence - 2, 0), last + 1):
            future = writer.append(append_number(sequence), sequence=sequence)
            future.add_done_callback(lambda done, sequence=sequence: done.exception() or print(sequence, flush=True))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
