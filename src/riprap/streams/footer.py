"""The footer that makes a finished segment an Arrow IPC file: the offset of each record batch.

pyarrow writes the footer of an empty file of the same schema; to that flatbuffer a vector of blocks is appended, and
the footer's `recordBatches` field, the fourth, is pointed at it. Offsets in flatbuffers are relative and forward, so
nothing else moves.
"""

import struct

import numpy as np
import pyarrow as pa

MAGIC = b"ARROW1"
FILE_START = MAGIC + b"\0\0"
_RECORD_BATCHES = 3  # number of the field in the table `Footer` of Arrow's File.fbs
_BLOCK = np.dtype(
    {"names": ["offset", "metadata", "body"], "formats": ["<i8", "<i4", "<i8"], "offsets": [0, 8, 16], "itemsize": 24}
)


def footer(schema: pa.Schema, offsets: np.ndarray, metadata: np.ndarray, bodies: np.ndarray) -> bytes:
    """Footer, its length and the closing magic. Blocks: offset in the file, bytes of metadata and of body."""
    table = bytearray(_empty_footer(schema))
    table += b"\0" * (-len(table) % 8 + 4)  # the count, then blocks on an 8-byte boundary
    blocks = np.zeros(len(offsets), _BLOCK)
    blocks["offset"], blocks["metadata"], blocks["body"] = offsets, metadata, bodies
    field = _field_at(table, _RECORD_BATCHES)
    struct.pack_into("<I", table, field, len(table) - field)
    table += struct.pack("<I", len(blocks)) + blocks.tobytes()
    return bytes(table) + struct.pack("<i", len(table)) + MAGIC


def _empty_footer(schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    pa.ipc.new_file(sink, schema).close()
    file = bytes(sink.getvalue())
    (length,) = struct.unpack_from("<i", file, len(file) - 10)
    return file[-10 - length : -10]


def _field_at(table: bytearray, number: int) -> int:
    """The offset of a field of the root table (flatbuffer layout: root, vtable, entry)."""
    (root,) = struct.unpack_from("<I", table, 0)
    (to_vtable,) = struct.unpack_from("<i", table, root)
    (entry,) = struct.unpack_from("<H", table, root - to_vtable + 4 + 2 * number)
    assert entry, "pyarrow left the field out of an empty footer"
    return root + entry
