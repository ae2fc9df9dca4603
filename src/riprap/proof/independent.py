"""An oracle of the user's: the expected output of an app, from something that shares no code with it.

A run is compared with what the engine emits without faults, so a bug of an operator is in both. Here the output of the
engine is compared with the user's: a function from the sources' DataFrames to one result per sink, such as a Spark SQL
form of the app. Rows are compared as bags, by the columns that the user's result has. Floats are equal to ten digits:
Spark's sums depend on the order of their terms.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riprap.base.errors import UsageError, known

_DIGITS = 10  # significant
_COUNT = "_times"


def disagreements(engine: Mapping[str, pa.Table], oracle: Mapping[str, pa.Table]) -> tuple[str, ...]:
    """A sentence for each sink at which the two differ."""
    for name in oracle:
        if name not in engine:
            raise UsageError(f"the oracle returned {name}, which is not a sink; the sinks are {known(engine, name)}")
    return tuple(text for name, rows in oracle.items() if (text := _disagreement(name, engine[name], rows)))


def _disagreement(sink: str, engine: pa.Table, oracle: pa.Table) -> str:
    names = oracle.schema.names
    for name in names:
        if name not in engine.schema.names:
            raise UsageError(
                f"the oracle's rows of {sink} have a column {name}; the sink has {known(engine.schema.names, name)}"
            )
    try:
        theirs = oracle.cast(pa.schema([engine.schema.field(name) for name in names]))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UsageError(f"the oracle's rows of {sink} do not fit the sink's columns: {error}") from None
    first, second = _bag(engine.select(names), "ours"), _bag(theirs, "theirs")
    both = first.join(second, names, join_type="full outer")
    ours, other = (np.asarray(pc.fill_null(both.column(name), 0)) for name in ("ours", "theirs"))
    missing, extra = int(np.maximum(other - ours, 0).sum()), int(np.maximum(ours - other, 0).sum())
    if not missing and not extra:
        return ""
    row = both.select(names).slice(int(np.flatnonzero(ours != other)[0]), 1).to_pylist()[0]
    shown = ", ".join(f"{name}={value}" for name, value in row.items())
    return (
        f"the app itself differs from the oracle at {sink}, without any fault: {missing:,} rows missing, {extra:,} too "
        f"many, for example {shown}"
    )


def _bag(table: pa.Table, count: str) -> pa.Table:
    """Each different row, and how often it occurs. NULL and NaN are values like others."""
    columns = {}
    for name in table.schema.names:
        column = table.column(name)
        if pa.types.is_floating(column.type):
            column = _rounded(column)
        elif pa.types.is_nested(column.type):
            column = pa.array([repr(value) for value in column.to_pylist()], pa.string())
        null = pc.is_null(column)
        columns[name] = pc.if_else(null, "NULL", pc.binary_join_element_wise("=", column.cast(pa.string()), ""))
    bag = pa.table(columns)
    grouped = bag.append_column(_COUNT, pa.array(np.ones(bag.num_rows, np.int64))).group_by(table.schema.names)
    return grouped.aggregate([(_COUNT, "sum")]).rename_columns([*table.schema.names, count])


def _rounded(column: Any) -> pa.Array:
    values = column.to_pylist()
    return pa.array([None if value is None else f"{value + 0.0:.{_DIGITS}g}" for value in values], pa.string())
