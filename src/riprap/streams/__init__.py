"""Persistent streams: an append-only log of Arrow batches with an index, replay, live follow, retention. No Spark."""

from riprap.graph.keys import OrderKey
from riprap.streams.description import Settings
from riprap.streams.errors import Busy, Damaged, Fenced
from riprap.streams.reader import StoredBatch, StoredMark
from riprap.streams.stream import Stream
from riprap.streams.writer import Appended, Writer

__all__ = [
    "Appended",
    "Busy",
    "Damaged",
    "Fenced",
    "OrderKey",
    "Settings",
    "StoredBatch",
    "StoredMark",
    "Stream",
    "Writer",
]
