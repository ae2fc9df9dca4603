"""The counter-based generator: draw number n of replication r is a pure function of (key of r, n).

So the only generator state of a trajectory is a counter, replications do not depend on each other or on the order
and place in which they run, and all simulators draw the same numbers.

The function is Widynski's "squares" with five rounds (arXiv:2004.06278): 64 random bits per counter. Its keys are odd
with distinct digits among their upper eight and among their lower eight hexadecimal digits; see `key`.
"""

import numpy as np
from numba import njit, uint64

from riprap.base.randomness import derived_seed

_HALF = uint64(32)
_TO_UNIT = 1.0 / 4503599627370496.0  # 2⁻⁵²: with 52 bits, adding a half is exact


def key(seed: int, replication: int) -> np.uint64:
    """The generator key of one replication."""
    entropy = derived_seed(seed, "replication", replication)
    digits = 0
    for _ in range(2):
        left = list(range(16))
        for _ in range(8):
            entropy, choice = divmod(entropy, len(left))
            digits = digits << 4 | left.pop(choice)
        entropy = derived_seed(seed, "replication", replication, digits)
    # The lowest digit must be odd; this may repeat a digit, which has no measurable effect.
    return np.uint64(digits | 1)


def keys(seed: int, first: int, count: int) -> np.ndarray:
    """Keys of replications `first` … `first + count - 1`."""
    return np.array([key(seed, first + index) for index in range(count)], np.uint64)


@njit(cache=True)
def bits(key: np.uint64, counter: np.uint64) -> np.uint64:
    """64 random bits: draw `counter` of the stream `key`."""
    y = counter * key
    z = y + key
    x = y * y + y
    x = (x >> _HALF) | (x << _HALF)
    x = x * x + z
    x = (x >> _HALF) | (x << _HALF)
    x = x * x + y
    x = (x >> _HALF) | (x << _HALF)
    t = x * x + z
    x = (t >> _HALF) | (t << _HALF)
    return t ^ ((x * x + y) >> _HALF)


@njit(cache=True)
def uniform(key: np.uint64, counter: np.uint64) -> float:
    """A number in (0, 1): never 0, so that its logarithm is finite, and never 1."""
    return (float(bits(key, counter) >> uint64(12)) + 0.5) * _TO_UNIT
