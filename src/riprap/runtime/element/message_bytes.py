"""A message as bytes, for the checkpoint that contains it.

8 bytes  length of the JSON text, little-endian
text     [kind, epoch, number, punctuation or null, watermark or null, born, header in hex, as `marked_header` has it]
rows     an Arrow IPC stream of one batch, or nothing
"""

import json
import struct

from riprap.checkpoints.state_tables import from_ipc, plain, to_ipc
from riprap.graph.order_keys import OrderKey
from riprap.operators.views import Views
from riprap.runtime.messages import Message, MessageKind, marked_header, unmarked_header

_LENGTH = struct.Struct("<Q")


def encode_message(message: Message) -> bytes:
    values = [
        int(message.kind), message.epoch, message.number, message.punctuation, message.watermark, message.born,
        marked_header(message).hex(),
    ]  # fmt: skip
    text = json.dumps(values).encode()
    rows = b"" if message.batch is None else to_ipc(plain(message.batch.batch())).to_pybytes()
    return _LENGTH.pack(len(text)) + text + rows


def decode_message(data: bytes) -> Message:
    (length,) = _LENGTH.unpack_from(data)
    kind, epoch, number, punctuation, watermark, born, header = json.loads(data[_LENGTH.size : _LENGTH.size + length])
    rows = data[_LENGTH.size + length :]
    return Message(
        MessageKind(kind),
        epoch,
        number,
        Views.of(from_ipc(rows)[0]) if rows else None,
        None if punctuation is None else OrderKey(*punctuation),
        None if watermark is None else OrderKey(*watermark),
        born,
        *unmarked_header(bytes.fromhex(header)),
    )
