"""Where a producer puts what it holds for a consumer and memory has no room for: a persistent stream of its own."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from riprap.protocols.channels import ChannelId
from riprap.runtime.logs import plain, plain_schema, stored_message
from riprap.runtime.messages import Message
from riprap.streams import OrderKey as StreamKey
from riprap.streams import Stream


class LogSpill:
    """The messages of one channel. It dies with its process: what is spilled is held, not promised."""

    def __init__(self, path: Path, channel: ChannelId, schema: pa.Schema) -> None:
        self._path = path
        shutil.rmtree(path, ignore_errors=True)
        self._stream = Stream.create(path, plain_schema(schema), stability="async", ordered=False, memory_bytes=0)
        self._writer = self._stream.writer(producer=str(channel))

    def keep(self, message: Message) -> None:
        if message.batch is not None:
            batch = plain(message.batch, self._stream.schema)
            self._writer.append(batch, sequence=message.number + message.items - 1, born=message.born)
        elif message.punctuation is not None:
            key = StreamKey(*message.punctuation)
            self._writer.mark(key, kind="punctuation", sequence=message.number, born=message.born)

    def since(self, number: int) -> Iterator[Message]:
        self._writer.flush()
        for item in self._stream.read(marks=True):
            message = stored_message(item)
            if message.number + message.items > number:
                yield message

    def close(self) -> None:
        self._writer.close()
        shutil.rmtree(self._path, ignore_errors=True)
