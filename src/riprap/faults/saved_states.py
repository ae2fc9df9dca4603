"""The state of a whole engine at a cut, as bytes.

8 bytes  length of the JSON text, little-endian
text     {"operators": {NAME: {"version", "since", "scalars", "blob": AT, "tables": {TABLE: AT}}},
          "mergers": {NAME: AT}, "progress": {NAME: [ts, src, seq, n]}}
after    the data that AT = [offset, length] refers to, offsets from the end of the text: tables as Arrow IPC streams,
         items waiting in mergers as in `checkpoints.waiting`, and the bytes of users' operators
"""

import json
import struct
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from riprap.checkpoints.state_tables import from_ipc, to_ipc
from riprap.checkpoints.waiting import decode_waiting, encode_waiting
from riprap.engine.engine import EngineState
from riprap.graph.order_keys import OrderKey
from riprap.operators.contract import OperatorState

_LENGTH = struct.Struct("<Q")


def encode_state(state: EngineState) -> bytes:
    attached = bytearray()

    def attach(data: bytes) -> list[int]:
        at = [len(attached), len(data)]
        attached.extend(data)
        return at

    text = json.dumps(
        {
            "operators": {
                name: {
                    "version": operator.version,
                    "since": operator.since,
                    "scalars": dict(operator.scalars),
                    "blob": attach(operator.blob),
                    "tables": {table: attach(to_ipc(batch).to_pybytes()) for table, batch in operator.tables.items()},
                }
                for name, operator in state.operators.items()
            },
            "mergers": {name: attach(encode_waiting(waiting)) for name, waiting in state.mergers.items()},
            "progress": dict(state.watermark),
        }
    ).encode()
    return _LENGTH.pack(len(text)) + text + bytes(attached)


def decode_state(data: bytes) -> EngineState:
    (length,) = _LENGTH.unpack_from(data)
    values = json.loads(data[_LENGTH.size : _LENGTH.size + length])
    attached = memoryview(data)[_LENGTH.size + length :]

    def at(place: list[int]) -> bytes:
        return bytes(attached[place[0] : place[0] + place[1]])

    def table(place: list[int]) -> pa.RecordBatch:
        (batch,) = from_ipc(at(place))
        batch.validate(full=True)
        return batch

    def operator(entry: Mapping[str, Any]) -> OperatorState:
        tables = {name: table(place) for name, place in entry["tables"].items()}
        return OperatorState(entry["version"], entry["since"], entry["scalars"], tables, at(entry["blob"]))

    return EngineState(
        {name: operator(own) for name, own in values["operators"].items()},
        {name: decode_waiting(at(place)) for name, place in values["mergers"].items()},
        {name: OrderKey(*key) for name, key in values["progress"].items()},
    )
