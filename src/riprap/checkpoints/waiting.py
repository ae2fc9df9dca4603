"""The contents of a merger, as bytes.

    8 bytes  length of the JSON text, little-endian
    text     {"progress": [[ts, src, seq, n], …], "latest": […], "last_order": [[…], …],
              "queues": [[item, …], …]}, one entry per port
    rows     Arrow IPC streams

An item is {"rows": [offset, length]}, an IPC stream after the text with one batch: the waiting rows, preceded by their
order as columns `_order0`, `_order1`, …; or {"key": [ts, src, seq, n], "order": […]}, a punctuation. A late item also
has "at": [ts, src, seq, n] and "again"; its rows have no order columns, but the item has "order". Text columns are
plain, not dictionaries.
"""

import json
import struct
from typing import Any

import numpy as np
import pyarrow as pa

from riprap.checkpoints.state_tables import from_ipc, plain, to_ipc
from riprap.engine.merger import MergerState, Order
from riprap.graph.order_keys import OrderKey
from riprap.operators.contract import Late, Punctuation

_ORDER = "_order"


def encode_waiting(state: MergerState) -> bytes:
    attached = bytearray()
    queues: list[list[dict[str, Any]]] = []
    for queue in state.queues:
        items: list[dict[str, Any]] = []
        for event, order in queue:
            late = {"at": event.at, "again": event.again, "order": order} if isinstance(event, Late) else {}
            event = event.event if isinstance(event, Late) else event
            if isinstance(event, Punctuation):
                items.append({"key": event.key, "order": order} | late)
            else:
                rows = to_ipc(plain(event) if late else _with_order(event, np.asarray(order))).to_pybytes()
                items.append({"rows": [len(attached), len(rows)]} | late)
                attached += rows
        queues.append(items)
    text = json.dumps(
        {"progress": state.watermark, "latest": state.latest, "last_order": state.last_order, "queues": queues}
    ).encode()
    return struct.pack("<Q", len(text)) + text + bytes(attached)


def decode_waiting(data: bytes) -> MergerState:
    (length,) = struct.unpack_from("<Q", data)
    values = json.loads(data[8 : 8 + length])
    attached = data[8 + length :]

    def item(entry: dict[str, Any]) -> tuple[pa.RecordBatch, np.ndarray] | tuple[Punctuation | Late, Order]:
        if "at" in entry:
            event = Punctuation(OrderKey(*entry["key"])) if "key" in entry else rows(entry)
            return Late(event, OrderKey(*entry["at"]), entry["again"]), tuple(entry["order"])
        if "key" in entry:
            return Punctuation(OrderKey(*entry["key"])), tuple(entry["order"])
        return _without_order(rows(entry))

    def rows(entry: dict[str, Any]) -> pa.RecordBatch:
        at, size = entry["rows"]
        return from_ipc(attached[at : at + size])[0]

    return MergerState.of(
        ((item(entry) for entry in queue) for queue in values["queues"]),
        (OrderKey(*key) for key in values["progress"]),
        values["latest"],
        (tuple(order) for order in values["last_order"]),
    )


def _with_order(batch: pa.RecordBatch, order: np.ndarray) -> pa.RecordBatch:
    batch = plain(batch)
    numbers = [pa.array(np.ascontiguousarray(order[:, j])) for j in range(order.shape[1])]
    names = [f"{_ORDER}{j}" for j in range(len(numbers))]
    return pa.RecordBatch.from_arrays([*numbers, *batch.columns], names=[*names, *batch.schema.names])


def _without_order(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, np.ndarray]:
    width = sum(name.startswith(_ORDER) for name in batch.schema.names)
    order = np.stack([batch.column(j).to_numpy() for j in range(width)], axis=1)
    return batch.select(batch.schema.names[width:]), order
