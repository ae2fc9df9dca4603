"""Aggregate functions that read every value of a window at each emission: moments, pickers, bits and arrays.

The windows of an emission are laid out one after the other, and the kernels of `kernels/segments.py` run over them. So
a result follows from the contents of its window alone, and nothing is kept from one window to the next.
"""

from collections.abc import Callable
from functools import cached_property

import numpy as np
import pyarrow as pa

from riprap.graph.aggregates import BITS, COLLECTED, MOMENTS, AggregateCall
from riprap.operators.columns import ALL_VALID, WordColumn, from_words, is_text, picked
from riprap.operators.kernels import segments as kernels
from riprap.operators.kernels.rings import positions_of
from riprap.operators.row_store import RowStore

_MOST = 1 << 22  # rows that are laid out at once, if a single window does not have more


class Segments:
    """The rows of windows in a store, one window after the other; `ends`: the place behind each."""

    def __init__(self, store: RowStore, groups: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> None:
        self.store = store
        self.ends = np.cumsum(hi - lo)
        self._ranges = (groups, lo, hi)

    @cached_property
    def positions(self) -> np.ndarray:
        return positions_of(*self._ranges, self.store.base, self.store.cap)

    def column(self, name: str) -> WordColumn:
        column = self.store.column(name)
        valid = picked(column.valid, self.positions) if len(column.valid) else ALL_VALID
        return WordColumn(picked(column.values, self.positions), valid)

    def ordered(self, name: str) -> WordColumn:
        """A column whose values are in their order: text by its bytes."""
        column = self.column(name)
        if not is_text(self.store.type_of(name)):
            return column
        return WordColumn(picked(self.store.pool.ranks(), column.values), column.valid)

    def at(self, name: str, index: np.ndarray) -> pa.Array:
        """The values at these indices; null where an index is negative or the value is null."""
        column = self.store.column(name)
        if not len(self.positions):
            return pa.nulls(len(index), self.store.type_of(name))
        positions = picked(self.positions, np.maximum(index, 0))
        valid = (index >= 0).view(np.uint8)
        if len(column.valid):
            valid = valid & picked(column.valid, positions)
        return from_words(picked(column.values, positions), valid, self.store.type_of(name), self.store.pool)


def over_segments(
    call: AggregateCall,
    columns: tuple[str, ...],
    store: RowStore,
    groups: np.ndarray,
    lo: np.ndarray,
    hi: np.ndarray,
) -> pa.Array:
    """One call over windows [lo, hi) of groups, with the stored columns of its arguments."""
    total = np.cumsum(hi - lo)
    parts: list[pa.Array] = []
    start = 0
    while start < len(groups) or not parts:
        before = total[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(total, before + _MOST, side="right")))
        chunk = Segments(store, groups[start:stop], lo[start:stop], hi[start:stop])
        parts.append(_FUNCTIONS[call.function](call, columns, chunk))
        start = stop
    if len(parts) == 1:
        return parts[0]
    return pa.concat_arrays([p.dictionary_decode() if isinstance(p, pa.DictionaryArray) else p for p in parts])


def _floats(values: np.ndarray, valid: np.ndarray) -> pa.Array:
    values = np.where(np.isnan(values), np.nan, values)  # one NaN: its sign depends on how it was computed
    return pa.array(np.where(valid, values, 0.0), mask=~valid)


def _moment(call: AggregateCall, columns: tuple[str, ...], segments: Segments) -> pa.Array:
    n, _, m2, m3, m4 = kernels.moments(*segments.column(columns[0]), segments.ends).T
    with np.errstate(all="ignore"):
        match call.function:
            case "var_pop":
                return _floats(m2 / n, n > 0)
            case "var_samp":
                return _floats(m2 / (n - 1), n > 1)
            case "stddev_pop":
                return _floats(np.sqrt(m2 / n), n > 0)
            case "stddev_samp":
                return _floats(np.sqrt(m2 / (n - 1)), n > 1)
            case "skewness":
                return _floats(np.sqrt(n) * m3 / np.sqrt(m2 * m2 * m2), (n > 0) & (m2 != 0))
            case _:
                return _floats(n * m4 / (m2 * m2) - 3.0, (n > 0) & (m2 != 0))


def _together(call: AggregateCall, columns: tuple[str, ...], segments: Segments) -> pa.Array:
    x, y = (segments.column(name) for name in columns)
    n, both, square_x, square_y = kernels.co_moments(*x, *y, segments.ends).T
    with np.errstate(all="ignore"):
        match call.function:
            case "covar_pop":
                return _floats(both / n, n > 0)
            case "covar_samp":
                return _floats(both / (n - 1), n > 1)
            case _:
                spread = np.sqrt(square_x * square_y)
                return _floats(both / spread, (n > 1) & (spread != 0))


def _by(call: AggregateCall, columns: tuple[str, ...], segments: Segments) -> pa.Array:
    best = kernels.pick_extreme(*segments.ordered(columns[1]), segments.ends, call.function == "max_by")
    return segments.at(columns[0], best)


def _extreme(call: AggregateCall, columns: tuple[str, ...], segments: Segments) -> pa.Array:
    best = kernels.pick_extreme(*segments.ordered(columns[0]), segments.ends, call.function == "max")
    return segments.at(columns[0], best)


def _end(call: AggregateCall, columns: tuple[str, ...], segments: Segments) -> pa.Array:
    valid = segments.column(columns[-1]).valid
    return segments.at(columns[0], kernels.pick_end(valid, segments.ends, call.function == "last"))


def _rank(call: AggregateCall, columns: tuple[str, ...], segments: Segments) -> pa.Array:
    place = kernels.pick_rank(*segments.column(columns[0]), segments.ends, call.share)
    return segments.at(columns[0], place)


def _mode(call: AggregateCall, columns: tuple[str, ...], segments: Segments) -> pa.Array:
    return segments.at(columns[0], kernels.pick_mode(*segments.ordered(columns[0]), segments.ends))


def _bits(call: AggregateCall, columns: tuple[str, ...], segments: Segments) -> pa.Array:
    values, some = kernels.bits(*segments.column(columns[0]), segments.ends, BITS.index(call.function))
    return from_words(values, some, segments.store.type_of(columns[0]), segments.store.pool)


def _collected(call: AggregateCall, columns: tuple[str, ...], segments: Segments) -> pa.Array:
    chosen = kernels.kept(*segments.ordered(columns[0]), segments.ends, call.function == "collect_set")
    values = segments.at(columns[0], np.flatnonzero(chosen))
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    counts = np.concatenate([[0], np.cumsum(chosen, dtype=np.int64)])
    offsets = np.concatenate([[0], counts[segments.ends]]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values)


_FUNCTIONS: dict[str, Callable[[AggregateCall, tuple[str, ...], Segments], pa.Array]] = {
    **dict.fromkeys(MOMENTS, _moment),
    **dict.fromkeys(("covar_samp", "covar_pop", "corr"), _together),
    **dict.fromkeys(("max_by", "min_by"), _by),
    **dict.fromkeys(("min", "max"), _extreme),  # of text
    **dict.fromkeys(("first", "last"), _end),  # of those that count
    **dict.fromkeys(BITS, _bits),
    **dict.fromkeys(COLLECTED, _collected),
    "percentile_approx": _rank,
    "mode": _mode,
}
