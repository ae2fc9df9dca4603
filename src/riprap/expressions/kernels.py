"""Loops that are slower in NumPy and Arrow, or need several passes there. Compiled once, cached on disk, without the
GIL.

Signatures are fixed, so that no batch waits for the compiler, and accept read-only arrays, as Arrow's are. They are
loaded on their first call (`lazy_functions.py`).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from riprap.expressions.lazy_functions import LazyFunction


def _compiled(signatures: Callable[[Any, Any], Any]) -> Callable[[Callable[..., Any]], LazyFunction]:
    """`signatures` is called with Numba and a function from an element type to the type of read-only arrays."""

    def make(function: Callable[..., Any]) -> Any:
        import numba

        def array(element: Any) -> Any:
            return numba.types.Array(element, 1, "C", readonly=True)

        return numba.njit(signatures(numba, array), cache=True, nogil=True)(function)

    return lambda function: LazyFunction(function, make)


@_compiled(lambda n, array: n.intp[::1](array(n.uint8)))
def true_rows(mask: np.ndarray) -> np.ndarray:
    """Indices where `mask` (0 or 1) is 1, ascending. Branch-free: the cost does not depend on how many."""
    rows = np.empty(mask.size, np.intp)
    found = 0
    for row in range(mask.size):
        rows[found] = row
        found += mask[row]
    return rows[:found]


@_compiled(lambda n, array: [n.intp[::1](array(n.uint8), array(code)) for code in (n.int32, n.int64)])
def true_codes(truth: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Indices of the rows with a code for which `truth` is 1, ascending."""
    rows = np.empty(codes.size, np.intp)
    found = 0
    for row in range(codes.size):
        rows[found] = row
        found += truth[codes[row]]
    return rows[:found]


@_compiled(lambda n, array: [one[::1](array(n.boolean), array(one), array(one)) for one in (n.uint8, n.int64)])
def choose(condition: np.ndarray, yes: np.ndarray, no: np.ndarray) -> np.ndarray:
    """`np.where`, which takes ten times as long if the condition is hard to predict."""
    chosen = np.empty_like(yes)
    for row in range(condition.size):
        chosen[row] = yes[row] if condition[row] else no[row]
    return chosen
