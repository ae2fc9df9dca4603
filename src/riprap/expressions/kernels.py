"""The loops that neither NumPy nor Arrow runs in one pass. Compiled once, cached on disk, without the GIL."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def true_rows(mask: np.ndarray) -> np.ndarray:
    """Indices where `mask` (uint8, 0 or 1) is 1, ascending. Branch-free: the cost does not depend on how many."""
    rows = np.empty(mask.size, np.intp)
    found = 0
    for row in range(mask.size):
        rows[found] = row
        found += mask[row]
    return rows[:found]


@njit(cache=True, nogil=True)
def true_codes(truth: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Indices of the rows whose code is one that `truth` (uint8, 0 or 1, one entry per code) marks, ascending."""
    rows = np.empty(codes.size, np.intp)
    found = 0
    for row in range(codes.size):
        rows[found] = row
        found += truth[codes[row]]
    return rows[:found]


@njit(cache=True, nogil=True)
def bounds(values: np.ndarray) -> tuple[int, int]:
    """Least and greatest of `values`, which is not empty."""
    low = high = values[0]
    for value in values:
        low = min(low, value)
        high = max(high, value)
    return low, high
