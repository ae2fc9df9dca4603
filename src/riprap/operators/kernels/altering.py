"""Wrong values, one at a time: how divergence and corruption change a number. Pure functions of a random number."""

import numpy as np

from riprap.operators.kernels import kernel
from riprap.operators.kernels.hashing import combine, mix

OFF, FLIPPED = 1, 2  # how a value is wrong
_FRACTION_BITS, _WHOLE_BITS = np.uint64(52), np.uint64(32)
_ONE = np.uint64(1)
_PARTS = 1_000_000.0


@kernel
def chance_at(seed, src, seq, n):
    """A random number derived from a seed and an order key."""
    return combine(combine(combine(seed, mix(src)), mix(seq)), mix(n))


@kernel
def chances_at(seed, src, seq, n):
    out = np.empty(len(seq), np.uint64)
    for i in range(len(seq)):
        out[i] = chance_at(seed, src[i], seq[i], n[i])
    return out


@kernel
def wrong_float(value, how, chance, parts, count, number, salt):
    """A double with a relative error of up to `parts` millionths, or with one bit flipped if `chance` selects
    `number` of `count`.
    """
    if how == OFF:
        return value * (1.0 + parts / _PARTS * (np.float64(np.uint64(chance) ^ np.uint64(salt)) / 2.0**63 - 1.0))
    if np.uint64(chance) % np.uint64(count) != np.uint64(number):
        return value
    bit = np.uint64(chance) // np.uint64(count) % _FRACTION_BITS
    return np.uint64(np.float64(value).view(np.uint64) ^ (_ONE << bit)).view(np.float64)


@kernel
def wrong_whole(value, how, chance, parts, count, number, salt):
    """The same for an integer."""
    if how == OFF:
        share = np.float64(np.uint64(chance) ^ np.uint64(salt)) / 2.0**63 - 1.0
        return np.int64(np.rint(np.float64(value) * (1.0 + parts / _PARTS * share)))
    if np.uint64(chance) % np.uint64(count) != np.uint64(number):
        return np.int64(value)
    bit = np.uint64(chance) // np.uint64(count) % _WHOLE_BITS
    return np.int64(np.uint64(value) ^ (_ONE << bit))


@kernel
def alter_floats(values, rows, how, chance, parts, count, number, salt):
    """Alter values in place, in the rows of the mask."""
    for i in range(len(values)):
        if rows[i]:
            values[i] = wrong_float(values[i], how, chance[i], parts, count, number, salt)


@kernel
def alter_whole(values, rows, how, chance, parts, count, number, salt):
    for i in range(len(values)):
        if rows[i]:
            values[i] = wrong_whole(values[i], how, chance[i], parts, count, number, salt)
