"""Functions of whole columns: from the vectors of generated code to Arrow arrays, and to one for the result."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from riprap.expressions.typed import Compute, EvaluationError
from riprap.expressions.vectors import Vector, full, to_arrow

_ENCODED = 64  # rows from which text is looked at once per distinct value


@dataclass(frozen=True, eq=False)
class Computation:
    """One call of a function in an expression."""

    compute: Compute
    type: pa.DataType
    takes: tuple[pa.DataType, ...]

    def run(self, mask: Any, values: Sequence[Any]) -> pa.Array | pa.Scalar:
        """The result for the rows of the mask (NULL for others), from pairs of values and their validity. A scalar
        if all arguments are. An `EvaluationError` has its row.
        """
        vectors = [Vector(*values[k : k + 2]) for k in range(0, len(values), 2)]
        rows = next((len(part) for vector in vectors for part in vector if is_long(part)), None)
        if rows is None:
            if np.ndim(mask) == 0 and not mask:
                return pa.scalar(None, self.type)
            return self._computed([_column(v, t, 1) for v, t in zip(vectors, self.takes, strict=True)])[0]
        if np.ndim(mask) == 0 or mask.all():
            if not np.all(mask):
                return pa.nulls(rows, self.type)
            return self._over(vectors, rows)
        chosen = np.flatnonzero(mask)
        columns = [_column(v, t, rows).take(pa.array(chosen)) for v, t in zip(vectors, self.takes, strict=True)]
        places = np.zeros(rows, np.int64)
        places[chosen] = np.arange(len(chosen))
        try:
            return self._computed(columns).take(pa.array(places, mask=~mask))
        except EvaluationError as failure:
            failure.row = int(chosen[failure.row or 0])
            raise

    def _over(self, vectors: Sequence[Vector], rows: int) -> pa.Array:
        long = [k for k, vector in enumerate(vectors) if any(map(is_long, vector))]
        if (
            len(long) == 1
            and rows >= _ENCODED
            and isinstance(vectors[long[0]].values, (pa.StringArray, pa.BinaryArray))
        ):
            encoded = vectors[long[0]].values.dictionary_encode()
            if 2 * len(encoded.dictionary) <= rows:
                return self._per_value(vectors, long[0], encoded)
        return self._computed([_column(v, t, rows) for v, t in zip(vectors, self.takes, strict=True)])

    def _per_value(self, vectors: Sequence[Vector], place: int, encoded: pa.DictionaryArray) -> pa.Array:
        count = len(encoded.dictionary)
        distinct = pa.concat_arrays([encoded.dictionary, pa.nulls(1, encoded.dictionary.type)])
        columns = [
            _column(v, t, count + 1) for v, t in zip(vectors, self.takes, strict=True) if v is not vectors[place]
        ]
        columns.insert(place, distinct)
        codes = encoded.indices.fill_null(count)
        try:
            return self._computed(columns).take(codes)
        except EvaluationError as failure:
            failure.row = int(np.argmax(codes.to_numpy() == (failure.row or 0)))
            raise

    def _computed(self, columns: Sequence[pa.Array]) -> pa.Array:
        result = self.compute(*columns)
        if isinstance(result, pa.ChunkedArray):
            result = result.combine_chunks()
        return result if result.type == self.type else result.cast(self.type)


def is_long(part: Any) -> bool:
    """Whether it has a value for each row."""
    return isinstance(part, pa.Array) or (not isinstance(part, pa.Scalar) and np.ndim(part) > 0)


def _column(vector: Vector, type_: pa.DataType, rows: int) -> pa.Array:
    """The vector as an array of exactly this type."""
    values, valid = vector
    if type_ == pa.null():
        return pa.nulls(rows)
    if isinstance(values, pa.Array):
        if valid is not None and np.ndim(valid) == 0 and not valid:
            return pa.nulls(rows, type_)
        return values
    if isinstance(values, pa.Scalar):
        return to_arrow(Vector(values, None), type_, rows)
    if valid is not None and np.ndim(valid) == 0:
        return pa.nulls(rows, type_) if not valid else to_arrow(Vector(full(values, rows), None), type_, rows)
    return to_arrow(Vector(full(values, rows), valid), type_, rows)
