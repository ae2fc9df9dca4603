"""Persistent streams: an append-only log of Arrow batches with an index, replay, live follow, retention. No Spark."""

from riprap.graph.order_keys import OrderKey
from riprap.streams.description import StreamSettings
from riprap.streams.positions import Appended
from riprap.streams.reader import StoredBatch, StoredMark
from riprap.streams.stream import PersistentStream
from riprap.streams.stream_errors import Busy, Damaged, Fenced
from riprap.streams.writer import StreamWriter

__all__ = [
    "Appended",
    "Busy",
    "Damaged",
    "Fenced",
    "OrderKey",
    "PersistentStream",
    "StoredBatch",
    "StoredMark",
    "StreamSettings",
    "StreamWriter",
]
