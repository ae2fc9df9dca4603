"""The functions of an aggregate over windows in a row store."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit
from numba.core.errors import NumbaError

from riprap.base.errors import DataError
from riprap.graph.aggregates import AggregateCall
from riprap.graph.specs import OperatorSpec
from riprap.operators.columns import ALL_VALID, from_words, is_text
from riprap.operators.kernels.folds import (
    count_values,
    extremes,
    extremes_sliding,
    sum_floats,
    sum_floats_sliding,
    sum_integers,
    sum_integers_sliding,
)
from riprap.operators.kernels.ranks import distinct_values, percentiles
from riprap.operators.kernels.rings import positions_of
from riprap.operators.row_store import RowStore
from riprap.operators.segment_functions import over_segments

_LONG = 32  # tuples per window from which sliding from window to window is faster than reading each window


class Windows:
    """Windows that emit: groups and insertion indices [lo, hi). `overlapping`: a row can be in several."""

    def __init__(
        self, store: RowStore, groups: np.ndarray, lo: np.ndarray, hi: np.ndarray, *, overlapping: bool
    ) -> None:
        self.store, self.groups, self.lo, self.hi, self._overlapping = store, groups, lo, hi, overlapping

    @property
    def ranges(self) -> tuple[np.ndarray, ...]:
        return (self.store.base, self.store.cap, self.groups, self.lo, self.hi)

    @cached_property
    def order(self) -> np.ndarray | None:
        """Windows group by group, where sliding from one to the next is faster; else None."""
        if not self._overlapping or int((self.hi - self.lo).sum()) <= _LONG * len(self.groups):
            return None
        return self.by_group

    @cached_property
    def by_group(self) -> np.ndarray:
        """Windows group by group, in order within each group."""
        return np.argsort(self.groups, kind="stable")

    def positions_at(self, index: np.ndarray) -> np.ndarray:
        return self.store.base[self.groups] + (index & (self.store.cap[self.groups] - 1))


class WindowFunction:
    """One call of an aggregate function, ready to run."""

    def __init__(self, call: AggregateCall, columns: tuple[str, ...], spec: OperatorSpec) -> None:
        """`columns`: the stored columns of its arguments."""
        self.name = call.name
        self._call = call
        self._columns = columns
        self._column = columns[0] if columns else ""
        self._spec = spec
        self._compiled: Callable[..., Any] | None = None

    def over(self, windows: Windows) -> pa.Array:
        """The output column, one value per window."""
        function = getattr(self, f"_{self._call.function}", None)
        if function is None or self._call.second is not None or self._ordered_text(windows):
            return over_segments(self._call, self._columns, windows.store, windows.groups, windows.lo, windows.hi)
        return function(windows)

    def _ordered_text(self, windows: Windows) -> bool:
        return self._call.function in ("min", "max") and is_text(windows.store.type_of(self._column))

    def _count(self, windows: Windows) -> pa.Array:
        return pa.array(self._counts(windows))

    def _counts(self, windows: Windows) -> np.ndarray:
        valid = windows.store.column(self._column).valid if self._column else ALL_VALID
        return count_values(valid, *windows.ranges) if len(valid) else windows.hi - windows.lo

    def _count_distinct(self, windows: Windows) -> pa.Array:
        column = windows.store.column(self._column)
        return pa.array(distinct_values(*column, *windows.ranges, windows.by_group))

    def _percentile(self, windows: Windows) -> pa.Array:
        column = windows.store.column(self._column)
        values, valid = percentiles(*column, *windows.ranges, windows.by_group, self._call.share)
        return from_words(values, valid, pa.float64(), windows.store.pool)

    def _sum(self, windows: Windows) -> pa.Array:
        values, valid = self._sums(windows)
        type_ = pa.float64() if values.dtype == np.float64 else pa.int64()
        return from_words(values, valid, type_, windows.store.pool)

    def _sums(self, windows: Windows) -> tuple[np.ndarray, np.ndarray]:
        column = windows.store.column(self._column)
        floats = column.values.dtype == np.float64
        if floats and windows.order is None:
            return sum_floats(*column, *windows.ranges)
        if floats:
            return sum_floats_sliding(*column, *windows.ranges, windows.order)
        values, valid, overflow = sum_integers(*column, *windows.ranges) if windows.order is None else (
            sum_integers_sliding(*column, *windows.ranges, windows.order)
        )  # fmt: skip
        if overflow:
            raise DataError(
                f"operator {self._spec.name}: {self.name} exceeds 64 bits; "
                "cast its argument to double, or use a smaller window"
            )
        return values, valid

    def _avg(self, windows: Windows) -> pa.Array:
        values, valid = self._sums(windows)
        counts = np.maximum(self._counts(windows), 1)
        return from_words(values.astype(np.float64) / counts, valid, pa.float64(), windows.store.pool)

    def _min(self, windows: Windows) -> pa.Array:
        return self._extreme(windows, False)

    def _max(self, windows: Windows) -> pa.Array:
        return self._extreme(windows, True)

    def _extreme(self, windows: Windows, largest: bool) -> pa.Array:
        column = windows.store.column(self._column)
        if windows.order is None:
            values, valid = extremes(*column, *windows.ranges, largest)
        else:
            values, valid = extremes_sliding(*column, *windows.ranges, largest, windows.order)
        return from_words(values, valid, windows.store.type_of(self._column), windows.store.pool)

    def _first(self, windows: Windows) -> pa.Array:
        return windows.store.gather(self._column, windows.positions_at(windows.lo))

    def _last(self, windows: Windows) -> pa.Array:
        return windows.store.gather(self._column, windows.positions_at(windows.hi - 1))

    def _apply(self, windows: Windows) -> pa.Array:
        column = windows.store.column(self._column)
        positions = positions_of(windows.groups, windows.lo, windows.hi, windows.store.base, windows.store.cap)
        values = column.values[positions]
        if len(column.valid):
            missing = column.valid[positions] == 0
            if missing.any() and values.dtype != np.float64:
                raise DataError(
                    f"operator {self._spec.name}: {self.name} got a null; a user-defined function over integers "
                    "accepts none, so use coalesce in its argument"
                )
            values[missing] = np.nan
        ends = np.cumsum(windows.hi - windows.lo)
        out = np.empty(len(ends), self._call.user_type.to_pandas_dtype())  # type: ignore[union-attr]
        self._looped(values, ends, out)
        return pa.array(out)

    def _looped(self, values: np.ndarray, ends: np.ndarray, out: np.ndarray) -> None:
        """Call the user's function on every window: compiled if Numba can compile it, else interpreted."""
        function = self._call.user_function
        if self._compiled is None:
            self._compiled = _loop(njit(nogil=True)(function), njit(nogil=True))
            try:
                self._compiled(values[:0], ends[:0], out[:0])
            except NumbaError:
                self._compiled = _loop(function, lambda loop: loop)
        self._compiled(values, ends, out)


def _loop(function: Any, compiled: Callable[[Any], Any]) -> Callable[..., None]:
    def loop(values: np.ndarray, ends: np.ndarray, out: np.ndarray) -> None:
        start = 0
        for k in range(len(ends)):
            out[k] = function(values[start : ends[k]])
            start = ends[k]

    return compiled(loop)  # type: ignore[no-any-return]
