"""Aggregate functions of the order of a window's values: distinct counts and percentiles.

Emissions are processed group by group (`order`); both ends of a group's windows are non-decreasing. The values of all
windows of a group are ranked once; from one window to the next only counts per rank change. NaN is above every number
and equals itself. For distinct counts -0.0 equals 0.0; for percentiles it comes before 0.0, as in Spark, because a
window's result must not depend on the windows that are ranked with it. For the same reason all NaNs become one NaN.

`distinct_in` and `percentile_in` are the same for one short window, for the loops of compiled pieces.
"""

import math

import numpy as np

from riprap.operators.kernels import kernel


@kernel
def distinct_values(column, valid, base, cap, groups, lo, hi, order):
    """The number of distinct values of each window, without nulls."""
    out = np.zeros(len(groups), np.int64)
    start = 0
    while start < len(order):
        stop = start
        while stop < len(order) and groups[order[stop]] == groups[order[start]]:
            stop += 1
        first, last = lo[order[start]], hi[order[stop - 1]]
        group = groups[order[start]]
        ranks, values = ranked(column, valid, base[group], cap[group] - 1, first, last, False)
        counts = np.zeros(len(values), np.int64)
        left = right = first
        different = 0
        for k in range(start, stop):
            e = order[k]
            while right < hi[e]:
                rank = ranks[right - first]
                if rank >= 0:
                    different += counts[rank] == 0
                    counts[rank] += 1
                right += 1
            while left < lo[e]:
                rank = ranks[left - first]
                if rank >= 0:
                    counts[rank] -= 1
                    different -= counts[rank] == 0
                left += 1
            out[e] = different
        start = stop
    return out


@kernel
def percentiles(column, valid, base, cap, groups, lo, hi, order, share):
    """The value below which `share` of each window lies, interpolated; and where it exists."""
    out = np.zeros(len(groups), np.float64)
    valid_out = np.zeros(len(groups), np.uint8)
    start = 0
    while start < len(order):
        stop = start
        while stop < len(order) and groups[order[stop]] == groups[order[start]]:
            stop += 1
        first, last = lo[order[start]], hi[order[stop - 1]]
        group = groups[order[start]]
        ranks, values = ranked(column, valid, base[group], cap[group] - 1, first, last, True)
        tree = np.zeros(len(values) + 1, np.int64)  # counts per rank, in a Fenwick tree
        left = right = first
        held = 0
        for k in range(start, stop):
            e = order[k]
            while right < hi[e]:
                held += counted(tree, ranks[right - first], 1)
                right += 1
            while left < lo[e]:
                held -= counted(tree, ranks[left - first], -1)
                left += 1
            if held > 0:
                at = share * (held - 1)
                below = int(at)
                rest = at - below
                valid_out[e] = 1
                out[e] = number(values[nth(tree, below)])
                if rest > 0.0:
                    above = number(values[nth(tree, below + 1)])
                    if above != out[e]:
                        out[e] = out[e] * (1.0 - rest) + above * rest
        start = stop
    return out, valid_out


@kernel
def ranked(column, valid, at, mask, lo, hi, signed):
    """The rank of each value in a range of insertion indices (-1: null), and the distinct values, ascending.

    `signed`: -0.0 and 0.0 are distinct. The sort is stable, and -0.0 comes first.
    """
    ranks = np.full(hi - lo, -1, np.int64)
    places = np.empty(hi - lo, np.int64)
    held = np.empty(hi - lo, column.dtype)
    count = 0
    for turn in range(2 if signed else 1):
        for a in range(lo, hi):
            p = at + (a & mask)
            below = signed and below_zero(column[p])
            if (len(valid) == 0 or valid[p]) and (not signed or below != (turn == 1)):
                places[count] = a - lo
                held[count] = column[p]
                count += 1
    ascending = np.argsort(held[:count], kind="mergesort")
    values = np.empty(count, column.dtype)
    different = 0
    for k in range(count):
        x = held[ascending[k]]
        last = values[max(different, 1) - 1]
        if k == 0 or differs(x, last) or (signed and below_zero(x) != below_zero(last)):
            values[different] = x
            different += 1
        ranks[places[ascending[k]]] = different - 1
    return ranks, values[:different]


@kernel
def differs(x, y):
    return x != y and not (x != x and y != y)


@kernel
def below_zero(x):
    """Whether it is a number with a minus sign, as -0.0 is."""
    return x == x and math.copysign(1.0, float(x)) < 0.0


@kernel
def number(x):
    """As a float; NaN loses its sign."""
    return float(x) if x == x else np.nan


@kernel
def counted(tree, rank, change):
    """Change the count of a rank; return how many values that concerns: 1, or 0 for a null."""
    if rank < 0:
        return 0
    at = rank + 1
    while at < len(tree):
        tree[at] += change
        at += at & -at
    return 1


@kernel
def nth(tree, below):
    """The least rank with more than `below` values up to it."""
    step = 1
    while 2 * step < len(tree):
        step *= 2
    at = 0
    while step > 0:
        if at + step < len(tree) and tree[at + step] <= below:
            at += step
            below -= tree[at]
        step //= 2
    return at


@kernel
def distinct_in(column, valid, at, mask, lo, hi):
    """The number of distinct values of a window, without nulls."""
    return len(ranked(column, valid, at, mask, lo, hi, False)[1])


@kernel
def percentile_in(column, valid, at, mask, lo, hi, share):
    """The value below which `share` of a window lies; 0 if the window has no values."""
    ranks, values = ranked(column, valid, at, mask, lo, hi, True)
    ascending = np.sort(ranks[ranks >= 0])
    if len(ascending) == 0:
        return 0.0
    place = share * (len(ascending) - 1)
    below = int(place)
    rest = place - below
    result = number(values[ascending[below]])
    if rest > 0.0:
        above = number(values[ascending[below + 1]])
        if above != result:
            result = result * (1.0 - rest) + above * rest
    return result
