"""The key range of a batch, and whether it may be appended to a stream."""

import numpy as np
import pyarrow as pa

from riprap.base.errors import DataError
from riprap.streams.description import Description, shown
from riprap.streams.positions import Range, int64_of


class AppendOrder:
    """The order checks for batches of one schema."""

    def __init__(self, description: Description) -> None:
        self._schema = schema = description.schema
        self._ts, self._seq = schema.get_field_index("_ts"), schema.get_field_index("_seq")
        self._never_falls = description.keys_never_fall
        self._rows_share = "_n" in schema.names  # rows of one trigger share its `_seq`
        self._falls = np.less if self._rows_share else np.less_equal

    def range_of(self, batch: pa.RecordBatch) -> Range:
        """The range of its keys; raises if it is not a batch of this stream."""
        if not batch.schema.equals(self._schema):
            raise DataError(
                f"this batch has ({shown(batch.schema)}), the stream has ({shown(self._schema)}): see `evolve`"
            )
        ts_column, seq_column = batch.column(self._ts), batch.column(self._seq)
        if ts_column.null_count or seq_column.null_count:
            name = "_ts" if ts_column.null_count else "_seq"
            raise DataError(f"the column {name} has nulls: every row of a stream has an order key")
        ts, seq = int64_of(ts_column), int64_of(seq_column)
        if not self._never_falls:
            least, greatest = ts.item(ts.argmin()), ts.item(ts.argmax())
            return Range(least, greatest, seq.item(seq.argmin()), seq.item(seq.argmax()))
        if np.count_nonzero(ts[1:] < ts[:-1]) or np.count_nonzero(self._falls(seq[1:], seq[:-1])):
            raise DataError(
                "within this batch `_ts` decreases or `_seq` does not increase: sort it by order key, give the stream "
                "a `_src` column if it has several sources, or create it with ordered=False"
            )
        return Range(ts.item(0), ts.item(-1), seq.item(0), seq.item(-1))

    def check(self, range_: Range, last_ts: int, last_seq: int) -> None:
        """Raise if a batch of this range must not follow these last keys of the stream."""
        if self._never_falls and (range_.min_ts < last_ts or range_.min_seq < last_seq + (not self._rows_share)):
            raise DataError(
                f"this batch starts at _ts {range_.min_ts}, _seq {range_.min_seq}, and the stream is already at "
                f"_ts {last_ts}, _seq {last_seq}: append in the order of the keys, or create the stream with "
                "ordered=False"
            )
