"""The input of a source in a run: a file or a persistent stream, from any position on, keyed and checked.

A *position* counts the rows of the input before a row, so it means the same to every incarnation: a restarted source
resumes at the position in its checkpoint and assigns the same keys to its rows. Row groups, record batches and segments
before it are not read.

A source with a lateness sorts its input (`engine/lateness.py`). Its positions count the rows that it has emitted, in
order. After a restart it reads from the start, because it has to buffer the same rows again, and skips what it emitted.

A stream that is still being written is followed. Its producer may log *watermarks* beside the rows, which tell that the
input is idle and not late: nothing before that time will follow. Every incarnation finds them between the same rows.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from riprap.base.errors import DataError
from riprap.engine.inputs import Keyer, Note, read_ahead, read_file, times_of_input
from riprap.engine.lateness import Sorter
from riprap.graph.order_keys import END_KEY, SEQ, TS, OrderKey
from riprap.graph.specs import Source
from riprap.runtime.stripes import own
from riprap.streams import PersistentStream, StoredMark
from riprap.streams.description import DESCRIPTION


class Feed:
    """Batches of one source. Never blocks: of a followed stream `next` returns None until there are more rows."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        source: Source,
        columns: Iterable[str] | None = None,
        position: int = 0,
        *,
        follow: bool = False,
        shard: int = 0,
        shards: int = 1,
        note: Note = lambda file, part, columns: None,
    ) -> None:
        """`columns` of the source are read, by default all. `follow` is for streams that are still being written.

        One of several shards returns the rows of its own stripes; its position skips those of others. `note` is called
        with the parts of a file that were read.
        """
        self.position = position  # of the next row
        self._over = False  # the input was read to its end
        self.watermark: OrderKey | None = None  # logged in the stream after the last row
        self._rank = source.rank
        self._keyer = Keyer(source, columns, position)
        self._rest: deque[tuple[int, pa.RecordBatch]] = deque()  # keyed, not yet returned, with their positions
        self._shard, self._shards = shard, shards
        self._emptied = False  # the sorter has returned its last rows
        wanted = None if columns is None else {*columns, TS, SEQ, *([source.time] if source.time else [])}
        self._stream = PersistentStream.open(path) if (Path(path) / DESCRIPTION).exists() else None
        self._follow = follow and self._stream is not None
        self._wanted = wanted
        self._seen: tuple[int, int, int] | None = None  # end of the stable part of the stream at the last read
        self._source = source
        self._sorter = None if source.lateness is None else Sorter(source.lateness)
        self._read = position if self._sorter is None else 0  # rows read from the input
        self._passed = 0 if self._sorter is None else position  # sorted rows to skip, emitted before the restart
        self._raw = self._stored() if self._stream else read_ahead(read_file(path, wanted, skip=self._read, note=note))

    @property
    def ended(self) -> bool:
        """No row will follow, and a sorter has returned everything."""
        return self._over and not self._rest and (self._sorter is None or self._emptied)

    @property
    def late(self) -> int | None:
        """Rows that arrived later than the source allows, and were dropped; None if it has no lateness."""
        return None if self._sorter is None else self._sorter.late

    def next(self, max_rows: int) -> pa.RecordBatch | None:
        """At most `max_rows` rows. None: no rows now, and if `ended`, never again."""
        while not self._rest:
            raw = self._next_raw() if self._sorter is None else self._next_sorted(self._sorter)
            if raw is None:
                self.position = max(self.position, self._keyer.row)
                return None
            first = self._keyer.row
            keyed = self._keyer.keyed(raw)
            for low, high in own(first, raw.num_rows, self._shard, self._shards):
                self._rest.append((low, keyed.slice(low - first, high - low)))
        at, batch = self._rest.popleft()
        room = max_rows - (at - self.position) if not self._over else max_rows
        if room < batch.num_rows:
            self._rest.appendleft((at + max(room, 0), batch.slice(max(room, 0))))
        if room <= 0:  # the due rows are those of other shards
            self.position += max_rows
            return None
        batch = batch.slice(0, room)
        self.position = at + batch.num_rows
        return batch

    def _next_sorted(self, sorter: Sorter) -> pa.RecordBatch | None:
        """The next rows in order, without those emitted before the restart."""
        while not self._emptied:
            raw = self._next_raw()
            if raw is None and not self._over:
                return None
            if raw is None:
                self._emptied = True
                rows = sorter.rest()
            else:
                rows = sorter.take(raw, times_of_input(raw, self._source))
            if rows is None:
                continue
            repeated = min(self._passed, rows.num_rows)
            self._passed -= repeated
            if repeated < rows.num_rows:
                return rows.slice(repeated)
        return None

    def _next_raw(self) -> pa.RecordBatch | None:
        while not self._over:
            raw = next(self._raw, None)
            if raw is None and self._follow and self._moved():
                self._raw = self._stored()
            elif raw is None:
                self._over = self._over or not self._follow
                return None
            elif raw.num_rows:
                return raw
        return None

    def _moved(self) -> bool:
        assert self._stream is not None
        return self._stream.stable().place != self._seen

    def _stored(self) -> Iterator[pa.RecordBatch]:
        """The stable rows of the stream from the position on; an end mark ends the input."""
        assert self._stream is not None
        self._seen = self._stream.stable().place  # before reading, so that the next read finds rows appended meanwhile
        columns = None
        if self._wanted is not None:
            columns = [name for name in self._stream.schema.names if name in self._wanted]
        for item in self._stream.read(from_position=self._read, columns=columns, marks=True):
            if isinstance(item, StoredMark):
                self._over = item.kind == "end"
                if item.kind == "progress":
                    self._announced(item.key)
            else:
                first = item.next_position - item.batch.num_rows
                if self._passed and first > self._read:
                    raise DataError(
                        f"source {self._source.name} has a lateness and reads its input again from the start, "
                        "which was trimmed meanwhile; do not trim the stream while it is an input"
                    )
                self._read = item.next_position
                if self._sorter is None:
                    if first > self._keyer.row:  # a trimmed stream starts later than requested
                        self.position = max(self.position, first)
                    self._keyer.row = first
                self._over = False  # rows follow an end mark
                self._announced(item.watermark)
                yield item.batch

    def _announced(self, key: OrderKey | None) -> None:
        """Only the time of the key holds here: its source and number are those of the stream's producer."""
        if key is not None and self._sorter is None:  # a sorter may hold rows from before it
            self.watermark = OrderKey(key.ts - 1, self._rank, END_KEY.seq, END_KEY.n)
