"""Aggregate functions over segments: the values of window k are those before ends[k] and not before ends[k - 1].

`valid` is 1 where a value is not null, or empty where none is null. A picker returns the index of one value per
segment, or -1 where there is none. Every result depends only on the values of its segment, in order.
"""

import math

import numpy as np

from riprap.operators.kernels import kernel
from riprap.operators.kernels.ranks import below_zero, differs


@kernel
def moments(values, valid, ends):
    """Count, mean, and the sums of the second, third and fourth powers of deviations from it: Spark's recurrence."""
    out = np.zeros((len(ends), 5))
    start = 0
    for k in range(len(ends)):
        n = mean = m2 = m3 = m4 = 0.0
        for i in range(start, ends[k]):
            if len(valid) and not valid[i]:
                continue
            n += 1.0
            delta = float(values[i]) - mean
            part = delta / n
            mean += part
            m2 += delta * (delta - part)
            square, part2 = delta * delta, part * part
            m3 += delta * (square - part2) - 3.0 * part * m2
            m4 += delta * (delta * square - part * part2) - 4.0 * part * m3 - 6.0 * part2 * m2
        out[k, 0], out[k, 1], out[k, 2], out[k, 3], out[k, 4] = n, mean, m2, m3, m4
        start = ends[k]
    return out


@kernel
def co_moments(x, x_valid, y, y_valid, ends):
    """Of pairs without nulls: their count, the sum of products of deviations, and both sums of squared deviations."""
    out = np.zeros((len(ends), 4))
    start = 0
    for k in range(len(ends)):
        n = mean_x = mean_y = both = square_x = square_y = 0.0
        for i in range(start, ends[k]):
            if (len(x_valid) and not x_valid[i]) or (len(y_valid) and not y_valid[i]):
                continue
            n += 1.0
            dx, dy = float(x[i]) - mean_x, float(y[i]) - mean_y
            mean_x += dx / n
            mean_y += dy / n
            both += dx * (float(y[i]) - mean_y)
            square_x += dx * (float(x[i]) - mean_x)
            square_y += dy * (float(y[i]) - mean_y)
        out[k, 0], out[k, 1], out[k, 2], out[k, 3] = n, both, square_x, square_y
        start = ends[k]
    return out


@kernel
def pick_extreme(values, valid, ends, largest):
    """The newest of the greatest (or least) values. NaN is the greatest."""
    out = np.full(len(ends), -1, np.int64)
    start = 0
    for k in range(len(ends)):
        best = np.int64(-1)
        for i in range(start, ends[k]):
            if len(valid) and not valid[i]:
                continue
            if best >= 0:
                x, y = values[i], values[best]
                if x == x and y == y:
                    worse = x < y if largest else x > y
                else:
                    worse = (x == x and y != y) if largest else (x != x and y == y)
                if worse:
                    continue
            best = i
        out[k] = best
        start = ends[k]
    return out


@kernel
def pick_end(valid, ends, last):
    """The oldest (or newest) value that counts."""
    out = np.full(len(ends), -1, np.int64)
    start = 0
    for k in range(len(ends)):
        for j in range(start, ends[k]):
            i = start + ends[k] - 1 - j if last else j
            if not (len(valid) and not valid[i]):
                out[k] = i
                break
        start = ends[k]
    return out


@kernel
def ascending(values, valid, start, stop):
    """The indices of the values of one segment in ascending order; -0.0 before 0.0, NaN last, then oldest first."""
    places = np.empty(stop - start, np.int64)
    count = 0
    for turn in range(2):
        for i in range(start, stop):
            if not (len(valid) and not valid[i]) and below_zero(values[i]) == (turn == 0):
                places[count] = i
                count += 1
    held = np.empty(count, values.dtype)
    for j in range(count):
        held[j] = values[places[j]]
    return places[:count][np.argsort(held, kind="mergesort")]


@kernel
def pick_rank(values, valid, ends, share):
    """The least value such that at least `share` of the values are not above it."""
    out = np.full(len(ends), -1, np.int64)
    start = 0
    for k in range(len(ends)):
        order = ascending(values, valid, start, ends[k])
        if len(order):
            out[k] = order[max(0, math.ceil(share * len(order)) - 1)]
        start = ends[k]
    return out


@kernel
def pick_mode(values, valid, ends):
    """The most frequent value, and the least of several."""
    out = np.full(len(ends), -1, np.int64)
    start = 0
    for k in range(len(ends)):
        order = ascending(values, valid, start, ends[k])
        most = 0
        first = 0
        for j in range(len(order)):
            if j and differs(values[order[j]], values[order[first]]):
                first = j
            if j + 1 - first > most:
                most = j + 1 - first
                out[k] = order[first]
        start = ends[k]
    return out


@kernel
def bits(values, valid, ends, operation):
    """All bits of a segment's values combined: 0 and, 1 or, 2 exclusive or; and where there are values."""
    out = np.zeros(len(ends), np.int64)
    some = np.zeros(len(ends), np.uint8)
    start = 0
    for k in range(len(ends)):
        for i in range(start, ends[k]):
            if len(valid) and not valid[i]:
                continue
            if not some[k]:
                out[k] = values[i]
            elif operation == 0:
                out[k] &= values[i]
            elif operation == 1:
                out[k] |= values[i]
            else:
                out[k] ^= values[i]
            some[k] = 1
        start = ends[k]
    return out, some


@kernel
def kept(values, valid, ends, distinct):
    """Whether each value is collected: it is not null and, if only distinct ones are, the oldest of its equals."""
    out = np.zeros(len(values), np.uint8)
    start = 0
    for k in range(len(ends)):
        if distinct:
            order = ascending(values, valid, start, ends[k])
            first = 0
            for j in range(len(order)):
                if j and differs(values[order[j]], values[order[first]]):
                    out[oldest(order, first, j)] = 1
                    first = j
            if len(order):
                out[oldest(order, first, len(order))] = 1
        else:
            for i in range(start, ends[k]):
                out[i] = not (len(valid) and not valid[i])
        start = ends[k]
    return out


@kernel
def oldest(order, first, stop):
    """The least index of a run of equal values: -0.0 and 0.0 are equal, and sorted apart."""
    best = order[first]
    for j in range(first + 1, stop):
        best = min(best, order[j])
    return best
