"""Input that a test writes while a run follows it: it lasts until the test ends it, however busy the machine is."""

import pyarrow as pa

from riprap.streams import PersistentStream


class Supply:
    """A stream of the rows of a table, over and over, each time later; `rows` were written."""

    def __init__(self, path, table, at_once=1_000):
        self.path, self.rows, self.ended = path, 0, False
        columns = [c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in table.columns]
        self._table, self._at_once = pa.table(columns, table.schema.names).combine_chunks(), at_once
        self._stream = PersistentStream.create(path, self._table.schema)
        self._writer = self._stream.writer()
        times = table["_ts"].cast(pa.int64())
        self._round = times[-1].as_py() - times[0].as_py() + 1

    def more(self, rows=None):
        """Never across the end of the table; the next ones then begin it anew."""
        turn, at = divmod(self.rows, self._table.num_rows)
        [batch] = self._table.slice(at, self._at_once if rows is None else rows).to_batches()
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        times = columns["_ts"].cast(pa.int64()).to_numpy() + turn * self._round
        columns["_ts"] = pa.array(times).cast(batch.schema.field("_ts").type)
        columns["_seq"] = pa.array(columns["_seq"].to_numpy() + turn * self._table.num_rows)
        self._writer.append(pa.record_batch(list(columns.values()), schema=batch.schema))
        self.rows += batch.num_rows

    def end(self):
        if not self.ended:
            self.ended = True
            self._writer.mark(None, kind="end")
            self._writer.close()

    def table(self):
        """All that was written."""
        return pa.Table.from_batches([item.batch for item in self._stream.read()], self._stream.schema)
