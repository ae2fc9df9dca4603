"""A Python function over batches. Semantics: `riprap.graph.specs.MapBatches`."""

from typing import Any, cast

import numpy as np
import pyarrow as pa

from riprap.base.errors import DataError
from riprap.graph.specs import MapBatches
from riprap.operators.columns import batch_of, key_columns, keys_of
from riprap.operators.contract import Channel, Emission, Setting
from riprap.operators.groups import GroupTable
from riprap.operators.numbered import NumberedOperator
from riprap.operators.python_calls import Checks, called, from_array, from_series, plain, to_series
from riprap.operators.strings import StringPool


class MapBatchesOperator(NumberedOperator):
    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.spec = spec = cast(MapBatches, setting.spec)
        self._what = f"operator {spec.name}: {getattr(spec.function, '__name__', 'the function')}"
        self._checks = Checks(self._what)
        schema = setting.schemas[0]
        self._input = schema.names
        # Columns that the function may pass on, which then tell the trigger of each row.
        self._carried = [
            field.name
            for field in spec.schema
            if field.name in schema.names and field.type == schema.field(field.name).type
        ]

    def process(self, channel: Channel, batch: pa.RecordBatch) -> list[Emission]:
        self.version += batch.num_rows
        if not batch.num_rows:
            return []
        given = batch_of({name: plain(batch.column(name)) for name in self._input})
        whole = self._call(given)
        if self._checks.due(given.num_rows):
            half = given.num_rows // 2
            self._checks.compare(whole, [self._call(given.slice(0, half)), self._call(given.slice(half))])
        triggers = self._triggers(given, whole)
        if triggers is None:
            parts = [self._call(given.slice(row, 1)) for row in range(given.num_rows)]
            triggers = np.repeat(np.arange(given.num_rows), [part.num_rows for part in parts])
            whole = (
                pa.Table.from_batches(parts).combine_chunks().to_batches()[0] if len(triggers) else whole.slice(0, 0)
            )
        if not len(triggers):
            return []
        keys = self.numbering.number(keys_of(batch, self.setting.shapes[0]).rows(triggers))
        columns = {name: whole.column(name) for name in whole.schema.names if name in self.setting.wanted[0]}
        return [Emission(0, batch_of(columns | key_columns(keys, self.setting.output_shapes[0])), triggers)]

    def _call(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        spec, what = self.spec, self._what
        given: Any = batch
        if spec.pandas:
            import pandas as pd

            given = pd.DataFrame({name: to_series(batch.column(name)) for name in batch.schema.names})
        parts = []
        for part in called(what, lambda: list(spec.function(iter([given])))):
            names = list(part.columns) if spec.pandas else part.schema.names
            missing = [name for name in spec.schema.names if name not in names]
            if missing:
                raise DataError(
                    f"{what} returned a batch without column {missing[0]}; it has {', '.join(map(str, names))}"
                )
            convert = from_series if spec.pandas else from_array
            arrays = [
                convert(what, part[field.name] if spec.pandas else part.column(field.name), field.type, field.name)
                for field in spec.schema
            ]
            parts.append(pa.RecordBatch.from_arrays(arrays, schema=spec.schema))
        table = pa.Table.from_batches(parts, spec.schema).combine_chunks()
        return table.to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], spec.schema)

    def _triggers(self, given: pa.RecordBatch, whole: pa.RecordBatch) -> np.ndarray | None:
        """The input row of each output row, if the columns that were passed on tell."""
        rows = given.num_rows
        if rows == 1 or not whole.num_rows:
            return np.zeros(whole.num_rows, np.int64)
        if not self._carried:
            return None
        table = GroupTable([self.spec.schema.field(name).type for name in self._carried], StringPool())
        own = table.groups([given.column(name) for name in self._carried])
        if table.count < rows:
            return None  # two input rows are equal in these columns
        found = table.groups([plain(whole.column(name)) for name in self._carried])
        if found.max() >= rows:
            return None  # a column was changed
        row_of = np.empty(rows, np.int64)
        row_of[own] = np.arange(rows)
        triggers = row_of[found]
        return triggers if (np.diff(triggers) >= 0).all() else None
