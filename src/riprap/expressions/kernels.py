"""The loops that NumPy and Arrow run slower or not in one pass. Compiled once, cached on disk, without the GIL.

Signatures are given, so that no batch ever waits for the compiler, and take read-only arrays, since Arrow's are.
"""

import numpy as np
from numba import boolean, float64, int32, int64, intp, njit, types, uint8


def _array(element: types.Type) -> types.Array:
    return types.Array(element, 1, "C", readonly=True)


@njit(intp[::1](_array(uint8)), cache=True, nogil=True)
def true_rows(mask: np.ndarray) -> np.ndarray:
    """Indices where `mask` (0 or 1) is 1, ascending. Free of branches: the cost does not depend on how many."""
    rows = np.empty(mask.size, np.intp)
    found = 0
    for row in range(mask.size):
        rows[found] = row
        found += mask[row]
    return rows[:found]


@njit([intp[::1](_array(uint8), _array(code)) for code in (int32, int64)], cache=True, nogil=True)
def true_codes(truth: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Indices of the rows whose code is one that `truth` (0 or 1 for each code) marks, ascending."""
    rows = np.empty(codes.size, np.intp)
    found = 0
    for row in range(codes.size):
        rows[found] = row
        found += truth[codes[row]]
    return rows[:found]


@njit(types.UniTuple(int64, 2)(_array(int64)), cache=True, nogil=True)
def bounds(values: np.ndarray) -> tuple[int, int]:
    """Least and greatest of `values`, which is not empty."""
    low = high = values[0]
    for value in values:
        low = min(low, value)
        high = max(high, value)
    return low, high


@njit(
    [element[::1](_array(boolean), _array(element), _array(element)) for element in (uint8, int64)],
    cache=True,
    nogil=True,
)
def choose(condition: np.ndarray, yes: np.ndarray, no: np.ndarray) -> np.ndarray:
    """`np.where`, which takes ten times as long when the condition is hard to foresee."""
    chosen = np.empty_like(yes)
    for row in range(condition.size):
        chosen[row] = yes[row] if condition[row] else no[row]
    return chosen


@njit(float64[::1](_array(float64), float64), cache=True, nogil=True)
def rounded(values: np.ndarray, scale: float) -> np.ndarray:
    """To multiples of 1 / `scale`, halves away from zero."""
    result = np.empty_like(values)
    for row in range(values.size):
        scaled = values[row] * scale
        whole = np.trunc(scaled)
        if abs(scaled) < 2.0**52:
            step = 1.0 if abs(scaled - whole) >= 0.5 else 0.0
            result[row] = (whole + np.copysign(step, scaled)) / scale
        else:  # beyond 2**52 there are no decimals to round, and scaling may have overflowed; NaN stays NaN
            result[row] = values[row]
    return result
