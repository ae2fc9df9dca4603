"""Functions of single values that generated code calls: compiled, interpreted and on columns the results are
identical.

Numba compiles each for values and arrays alike, on its first use.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from riprap.expressions.lazy_functions import LazyFunction


def _compiled(signature: str) -> Callable[[Callable[..., Any]], LazyFunction]:
    def make(function: Callable[..., Any]) -> Any:
        import numba

        return numba.vectorize([signature], nopython=True, cache=True)(function)

    return lambda function: LazyFunction(function, make)


# The last bit of these depends on the implementation, so there is only this one.
_real = _compiled("float64(float64)")


@_real
def exponential(x):  # type: ignore[no-untyped-def]
    return np.exp(x)


@_real
def natural(x):  # type: ignore[no-untyped-def]
    """The natural logarithm; NaN below 0."""
    return np.log(x)


@_real
def binary(x):  # type: ignore[no-untyped-def]
    return np.log2(x)


@_real
def decimal(x):  # type: ignore[no-untyped-def]
    return np.log10(x)


@_compiled("float64(float64, float64)")
def power(x, y):  # type: ignore[no-untyped-def]
    return np.power(x, y)


@_compiled("boolean(int64, int64)")
def product_overflows(a, b):  # type: ignore[no-untyped-def]
    """Whether a · b exceeds 64 bits."""
    if -2147483648 <= a <= 2147483647 and -2147483648 <= b <= 2147483647:
        return False
    if a == 0 or b == 0:
        return False
    # By magnitudes: a compiler need not preserve a product that wrapped.
    one = np.uint64(1)
    left = np.uint64(a) if a > 0 else np.uint64(-(a + 1)) + one
    right = np.uint64(b) if b > 0 else np.uint64(-(b + 1)) + one
    most = np.uint64(0x7FFFFFFFFFFFFFFF) if (a > 0) == (b > 0) else np.uint64(0x8000000000000000)
    return left > most // right


@_compiled("int64(int64, int64)")
def remainder(a, b):  # type: ignore[no-untyped-def]
    """With the sign of the dividend; arbitrary for divisor 0, where the result is null."""
    if b == -1 or b == 0:
        return np.int64(0)
    rest = a % b
    if rest != 0 and (rest < 0) != (a < 0):
        rest -= b
    return np.int64(rest)


@_compiled("int64(int64, int64)")
def quotient(a, b):  # type: ignore[no-untyped-def]
    """Rounded towards zero; wraps where it does not fit."""
    if b == -1:
        return np.int64(0) - a
    whole = a // b
    if whole < 0 and whole * b != a:
        whole += 1
    return np.int64(whole)


@_compiled("int64(float64)")
def saturated(x):  # type: ignore[no-untyped-def]
    """A whole float as the nearest integer of 64 bits; 0 for NaN."""
    if x != x:
        return np.int64(0)
    if x >= 9223372036854775808.0:
        return np.int64(9223372036854775807)
    if x <= -9223372036854775808.0:
        return np.int64(-9223372036854775807) - np.int64(1)
    return np.int64(x)


@_compiled("float64(float64, float64)")
def rounded(x, scale):  # type: ignore[no-untyped-def]
    """To multiples of 1 / `scale`, halves away from zero, judging the shortest decimals that read as the number."""
    size = abs(x)
    if not size * scale < 2.0**49:
        return x  # there are no decimals to round, or scaling overflows; NaN stays NaN
    whole = np.floor(size * scale)
    if size >= (whole * 10.0 + 5.0) / (scale * 10.0):
        whole += 1.0
    return np.copysign(whole / scale, x) if whole != 0.0 else 0.0


@_compiled("int64(int64, int64)")
def civil(days, part):  # type: ignore[no-untyped-def]
    """Year (part 0), month (1) or day (2) of a day since 1970, in the Gregorian calendar."""
    z = days + 719468
    era = z // 146097
    day_of_era = z - era * 146097
    year = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * day_of_year + 2) // 153  # months from March
    if part == 2:
        return np.int64(day_of_year - (153 * shifted + 2) // 5 + 1)
    month = shifted + 3 if shifted < 10 else shifted - 9
    if part == 1:
        return np.int64(month)
    return np.int64(year + era * 400 + (1 if month <= 2 else 0))
