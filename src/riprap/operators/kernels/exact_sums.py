"""Exact sums of floats, rounded once, so that a sum depends only on what was added.

A double is an integer times 2^-1074, so any sum of doubles is an integer of at most 2^11 + 64 bits: an accumulator of
LIMBS 32-bit digits, stored in int64 so that carries can wait. Adding and subtracting are exact, in any order; `rounded`
returns the nearest double, ties to even, like Python's `math.fsum`.
"""

import numpy as np

from riprap.operators.kernels import kernel

LIMBS = (
    68  # 2046 exponents + 53 bits of mantissa + 31 bits for 2^31 additions, in digits of 32 bits, and one for the sign
)
_DIGIT = np.int64(0xFFFFFFFF)


@kernel
def accumulate(limbs, x, sign):
    """limbs += sign · x for a finite x and sign ±1."""
    bits = np.float64(x).view(np.int64)
    exponent = (bits >> 52) & 0x7FF
    mantissa = bits & 0xFFFFFFFFFFFFF
    if exponent:
        mantissa |= np.int64(1) << 52
        exponent -= 1
    if bits < 0:
        sign = -sign
    limb = exponent >> 5
    shift = exponent & 31
    low = (mantissa & _DIGIT) << shift  # at most 63 bits
    high = (mantissa >> 32) << shift  # at most 52 bits
    limbs[limb] += sign * (low & _DIGIT)
    limbs[limb + 1] += sign * ((low >> 32) + (high & _DIGIT))
    limbs[limb + 2] += sign * (high >> 32)


@kernel
def rounded(limbs):
    """The double nearest to the accumulator; propagates its carries."""
    carry = np.int64(0)
    for k in range(LIMBS - 1):
        value = limbs[k] + carry
        limbs[k] = value & _DIGIT
        carry = value >> 32
    limbs[LIMBS - 1] += carry
    negative = limbs[LIMBS - 1] < 0
    digits = limbs.copy()
    if negative:
        carry = np.int64(1)
        for k in range(LIMBS - 1):
            value = (_DIGIT - digits[k]) + carry
            digits[k] = value & _DIGIT
            carry = value >> 32
        digits[LIMBS - 1] = 0
    top = LIMBS - 1
    while top >= 0 and digits[top] == 0:
        top -= 1
    if top < 0:
        return 0.0
    high = np.int64(0)  # bits in the top digit
    while high < 32 and (digits[top] >> high) != 0:
        high += 1
    last = top * 32 + high - 53  # number of the lowest bit that a double keeps
    if last < 0:
        last = np.int64(0)  # subnormal, or small enough to be exact
    mantissa = np.int64(0)
    for bit in range(top * 32 + high - 1, last - 1, -1):
        mantissa = (mantissa << 1) | ((digits[bit >> 5] >> (bit & 31)) & 1)
    if last > 0:
        below = last - 1
        half = (digits[below >> 5] >> (below & 31)) & 1
        if half:
            sticky = (digits[below >> 5] & ((np.int64(1) << (below & 31)) - 1)) != 0
            k = (below >> 5) - 1
            while not sticky and k >= 0:
                sticky = digits[k] != 0
                k -= 1
            if sticky or (mantissa & 1):
                mantissa += 1
    # mantissa · 2^(last − 1074), exactly: assemble the bits; a carry out of the mantissa correctly increments the
    # exponent.
    if mantissa >> 53:
        mantissa >>= 1
        last += 1
    if mantissa >> 52:
        bits = (mantissa & 0xFFFFFFFFFFFFF) | ((last + 1) << 52)
        if last + 1 >= 2047:
            bits = np.int64(0x7FF) << 52
    else:
        bits = mantissa
    result = np.int64(bits).view(np.float64)
    return -result if negative else result
