"""Arrival times that depend on a key alone."""

import numpy as np

from riprap.operators.kernels import kernel
from riprap.operators.kernels.hashing import combine


@kernel
def stalled_until(seed, due, width, bound, out):
    """When each tuple arrives: at `due`, or later because its stream stalls.

    The stream stalls at the start of each cell of `width` units, for a number of units in [0, bound] that is derived
    from the seed and the number of the cell: no tuple that is due later arrives before the stall ends. So arrivals
    are non-decreasing where `due` is, lie in [due, due + bound], and do not depend on which other tuples exist.
    """
    none = np.iinfo(np.int64).min
    span = bound // width + 1  # cells whose stall can reach beyond this one
    current = none
    stalled = none
    for i in range(len(due)):
        if current != none and current * width <= due[i] < (current + 1) * width:  # same cell as the tuple before
            out[i] = max(due[i], stalled)
            continue
        cell = due[i] // width
        if current == none or cell < current:
            current = cell - span - 1
            stalled = none
        first = max(current, cell - span - 1)
        current = cell
        while cell > first and cell * width + bound > stalled:  # backwards: earlier cells seldom reach as far
            wait = np.int64((combine(seed, np.uint64(cell)) >> np.uint64(1)) % np.uint64(bound + 1))
            stalled = max(stalled, cell * width + wait)
            cell -= 1
        out[i] = max(due[i], stalled)
