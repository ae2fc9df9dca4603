"""Columns that Python functions compute. Semantics: `riprap.graph.specs.MapPython`."""

from typing import Any, cast

import pyarrow as pa

from riprap.base.errors import DataError
from riprap.expressions import Bound
from riprap.graph.order_keys import KEY_COLUMNS
from riprap.graph.spec_python import PythonColumn
from riprap.graph.specs import MapPython
from riprap.operators.columns import batch_of, concatenated
from riprap.operators.contract import Channel, Emission, Operator, Setting
from riprap.operators.python_calls import Checks, called, from_array, from_series, from_values, plain, to_series


class _Column:
    """One column: its function with bound arguments."""

    def __init__(self, spec: MapPython, column: PythonColumn, schema: pa.Schema) -> None:
        self.column = column
        self._arguments: list[Bound] = [spec.bind(argument, schema) for argument in column.arguments]
        self._what = f"operator {spec.name}: {getattr(column.function, '__name__', 'the function')}"
        self._checks = Checks(self._what)

    def computed(self, batch: pa.RecordBatch) -> pa.Array:
        arguments = [plain(bound.evaluate(batch)) for bound in self._arguments]
        whole = self._call(arguments, batch.num_rows)
        if self.column.call != "rows" and self._checks.due(batch.num_rows):
            half = batch.num_rows // 2
            cut = [(0, half), (half, batch.num_rows - half)]
            self._checks.compare(whole, [self._call([a.slice(at, n) for a in arguments], n) for at, n in cut])
        return whole

    def _call(self, arguments: list[pa.Array], rows: int) -> pa.Array:
        column, what = self.column, self._what
        if column.call == "rows":
            values = [called(what, argument.to_pylist) for argument in arguments]  # a time may be beyond Python's
            given = zip(*values, strict=True) if values else iter([()] * rows)
            return from_values(what, [called(what, column.function, *row) for row in given], column.type, column.name)
        pandas = column.call.startswith("pandas")
        given_columns: list[Any] = [to_series(argument) for argument in arguments] if pandas else arguments
        convert = from_series if pandas else from_array
        if column.call.endswith("iterator"):
            one: Any = given_columns[0] if len(given_columns) == 1 else tuple(given_columns)
            parts = called(what, lambda: list(column.function(iter([one]))))
            arrays = [convert(what, part, column.type, column.name) for part in parts]
            result = concatenated(arrays) if arrays else pa.array([], column.type)
        else:
            result = convert(what, called(what, column.function, *given_columns), column.type, column.name)
        if len(result) != rows:
            raise DataError(f"{what} returned {len(result)} values for {rows} rows; it has to return one for each")
        return result


class MapPythonOperator(Operator):
    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        spec = cast(MapPython, setting.spec)
        self._columns = [_Column(spec, c, setting.schemas[0]) for c in spec.added if c.name in setting.wanted[0]]
        self._names = [name for name in setting.output_schemas[0].names if name in setting.wanted[0]]

    def process(self, channel: Channel, batch: pa.RecordBatch) -> list[Emission]:
        self.version += batch.num_rows
        if not batch.num_rows:
            return []
        made = {each.column.name: each.computed(batch) for each in self._columns}
        columns = {name: made[name] if name in made else batch.column(name) for name in self._names}
        columns |= {name: batch.column(name) for name in KEY_COLUMNS if name in batch.schema.names}
        return [Emission(0, batch_of(columns))]
