"""The spill: a file of frames for messages that a producer holds and memory has no room for.

It has the format of the wire (`transport/wire_frame.py`), with a checksum of every body, so protocol headers,
watermarks and markers are preserved. One process appends to it and reads it from the start. It ends with the process,
so it is never synced. Damage is a `DataError`.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from riprap.base import files
from riprap.base.errors import DataError
from riprap.protocols.channels import ChannelId
from riprap.runtime.messages import Message
from riprap.runtime.transport.codec import Decoder, Encoder
from riprap.runtime.transport.wire_frame import HEADER_SIZE, unpack


class LogSpill:
    """The messages of one channel."""

    def __init__(self, path: Path, channel: ChannelId, schema: pa.Schema) -> None:
        self._path = path
        self._channel = channel
        self._schema = schema
        files.remove_tree(path)
        files.make(path)
        self._file = files.open_file(path / "frames", "w+b")
        self._encoder = Encoder(schema, checked=True)
        self.written = 0  # bytes
        self._rewind()

    def append(self, message: Message) -> None:
        self._file.seek(self.written)
        for buffer in self._encoder.encode(message):
            self.written += self._file.write(buffer)

    def since(self, number: int) -> Iterator[Message]:
        """Continues where the last reading ended, unless that is beyond `number`."""
        if number < self._next_number:
            self._rewind()
        while self._read_to < self.written:
            message = self._next()
            if message is not None and message.number + message.items > number:
                yield message

    def _rewind(self) -> None:
        self._decoder = Decoder(self._schema)
        self._read_to = 0
        self._next_number = 0  # after the last item that was read

    def _next(self) -> Message | None:
        self._file.seek(self._read_to)
        header = unpack(memoryview(self._read_exactly(HEADER_SIZE)))
        body = memoryview(self._read_exactly(header.body)) if header.body else None
        self._read_to += HEADER_SIZE + header.body
        message = self._decoder.decode(header, body)
        if message is not None:
            self._next_number = message.number + message.items
        return message

    def _read_exactly(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) < count:
            raise DataError(f"the spill of channel {self._channel} in {self._path} was cut short: it is lost")
        return data

    def close(self) -> None:
        self._file.close()
        files.remove_tree(self._path)
