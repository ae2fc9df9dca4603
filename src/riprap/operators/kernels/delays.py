"""Delays that follow from a key."""

import numpy as np

from riprap.operators.kernels import kernel
from riprap.operators.kernels.hashing import combine


@kernel
def delays(seed, due, src, seq, n, bound, out):
    """out = due + a uniform whole number in [0, bound] that follows from the seed and the key."""
    for i in range(len(due)):
        h = combine(seed, np.uint64(seq[i]))
        h = combine(h, np.uint64(src[i] if len(src) > 1 else src[0]))
        h = combine(h, np.uint64(n[i] if len(n) > 1 else n[0]))
        out[i] = due[i] + np.int64((h >> np.uint64(1)) % np.uint64(bound + 1))
