"""The input of a source in a run: a file or a persistent stream, from any position on, keyed and checked.

A *position* counts the rows of the input before a row, so it means the same to every attempt: a source that comes back
begins at the position in its checkpoint and gives its rows the keys that they had before. Row groups, record batches
and segments before it are not read.
"""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from riprap.engine.inputs import Keyer, read_file
from riprap.graph.keys import SEQ, TS
from riprap.graph.specs import Source
from riprap.streams import StoredMark, Stream
from riprap.streams.description import DESCRIPTION


class Feed:
    """Batches of one source. Never waits: where a stream is followed, `next` gives None until there is more."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        source: Source,
        columns: Iterable[str] | None = None,
        position: int = 0,
        *,
        follow: bool = False,
    ) -> None:
        """`columns` of the source are read, by default all. `follow` is for streams that are still being written."""
        self.position = position  # of the row that comes next
        self.ended = False  # nothing will come any more
        self._keyer = Keyer(source, columns, position)
        self._rest: pa.RecordBatch | None = None  # keyed, not yet given out
        wanted = None if columns is None else {*columns, TS, SEQ, *([source.time] if source.time else [])}
        self._stream = Stream.open(path) if (Path(path) / DESCRIPTION).exists() else None
        self._follow = follow and self._stream is not None
        self._wanted = wanted
        self._seen: tuple[int, int, int] | None = None  # how far the stream was stable when it was last read
        self._raw = self._stored() if self._stream else _ahead(read_file(path, wanted, skip=position))

    def next(self, max_rows: int) -> pa.RecordBatch | None:
        """At most `max_rows` rows. None: there are none now, and if `ended`, there never will be."""
        if self._rest is None:
            raw = self._next_raw()
            if raw is None:
                return None
            self._rest = self._keyer.keyed(raw)
        batch = self._rest.slice(0, max_rows)
        self._rest = self._rest.slice(max_rows) if self._rest.num_rows > max_rows else None
        self.position += batch.num_rows
        return batch

    def _next_raw(self) -> pa.RecordBatch | None:
        while not self.ended:
            raw = next(self._raw, None)
            if raw is None and self._follow and self._moved():
                self._raw = self._stored()
            elif raw is None:
                self.ended = self.ended or not self._follow
                return None
            elif raw.num_rows:
                return raw
        return None

    def _moved(self) -> bool:
        assert self._stream is not None
        return self._stream.stable().place != self._seen

    def _stored(self) -> Iterator[pa.RecordBatch]:
        """What is stable in the stream from the position on; the mark of its end ends the input."""
        assert self._stream is not None
        self._seen = self._stream.stable().place  # before reading: what comes meanwhile is then seen again, not missed
        columns = None
        if self._wanted is not None:
            columns = [name for name in self._stream.schema.names if name in self._wanted]
        for item in self._stream.read(from_position=self.position, columns=columns, marks=True):
            if isinstance(item, StoredMark):
                self.ended = item.kind == "end"
            else:
                # Trimmed streams begin later than asked for.
                self.position = self._keyer.row = item.next_position - item.batch.num_rows
                self.ended = False  # it went on behind an end
                yield item.batch


def _ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same, each one read while the one before it is in use: a row group takes longer than a source may pause."""
    with ThreadPoolExecutor(1, "riprap-feed") as reading:
        coming = reading.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = reading.submit(next, batches, None)
            yield batch
