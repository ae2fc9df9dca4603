"""The aggregate functions over windows in rings.

Emission e covers the insertion indices [lo[e], hi[e]) of group groups[e]. `column` and `valid` (1 = not null; empty =
no nulls) are indexed by position (see rings.py). Every function returns the values and whether each is not null.

Two algorithms give the same result. `direct` reads a whole window at each emission: faster for short windows.
`sliding` processes emissions group by group (`order`), adds new rows and subtracts evicted ones: faster for long
windows that overlap.
"""

import math

import numpy as np

from riprap.operators.kernels import kernel
from riprap.operators.kernels.exact_sums import LIMBS, accumulate, rounded


@kernel
def sum_floats(column, valid, base, cap, groups, lo, hi):
    """Exactly rounded sums: cascaded additions with a known error; the exact accumulator where that is too large."""
    n = len(groups)
    out = np.empty(n, np.float64)
    valid_out = np.empty(n, np.uint8)
    for e in range(n):
        at = base[groups[e]]
        mask = cap[groups[e]] - 1
        total = 0.0
        error = 0.0
        lost = 0.0  # at least what adding up the errors lost
        count = 0
        for a in range(lo[e], hi[e]):
            p = at + (a & mask)
            if len(valid) and not valid[p]:
                continue
            x = column[p]
            count += 1
            s = total + x
            t = s - total
            d = (total - (s - t)) + (x - t)  # total + x = s + d, exactly
            total = s
            s = error + d
            t = s - error
            lost += abs((error - (s - t)) + (d - t))
            error = s
        valid_out[e] = count > 0
        result = total + error
        out[e] = result + 0.0
        if (lost != 0.0 or not math.isfinite(result)) and not certain(total, error, lost):
            out[e] = exactly(column, valid, at, mask, lo[e], hi[e])
    return out, valid_out


@kernel
def certain(total, error, lost):
    """Whether total + error is the rounded sum, although adding up the errors lost up to `lost`."""
    result = total + error
    t = result - total
    rest = (total - (result - t)) + (error - t)  # total + error = result + rest, exactly
    lost = 2.0 * lost + abs(rest) * 4.5e-16  # scaled so that it shows in a sum with `rest`, however small it is
    return math.isfinite(result) and result + (rest + lost) == result and result + (rest - lost) == result


@kernel
def exactly(column, valid, at, mask, lo, hi):
    limbs = np.zeros(LIMBS, np.int64)
    infinite = 0.0
    for a in range(lo, hi):
        p = at + (a & mask)
        if len(valid) and not valid[p]:
            continue
        if math.isfinite(column[p]):
            accumulate(limbs, column[p], 1)
        else:
            infinite += column[p]  # inf, -inf, or NaN if there are both or a NaN
    if math.isnan(infinite):
        return np.nan  # without the sign that depends on the order of additions
    return infinite if infinite != 0.0 else rounded(limbs)


@kernel
def sum_floats_sliding(column, valid, base, cap, groups, lo, hi, order):
    n = len(groups)
    out = np.empty(n, np.float64)
    valid_out = np.empty(n, np.uint8)
    limbs = np.zeros(LIMBS, np.int64)
    special = np.zeros(3, np.int64)  # how many NaN, +inf, -inf
    group = np.int64(-1)
    at = mask = done_lo = done_hi = count = np.int64(0)
    for k in range(n):
        e = order[k]
        if groups[e] != group or lo[e] >= done_hi:
            group = groups[e]
            at = base[group]
            mask = cap[group] - 1
            limbs[:] = 0
            special[:] = 0
            count = 0
            done_lo = done_hi = lo[e]
        for a in range(done_hi, hi[e]):
            p = at + (a & mask)
            if not (len(valid) and not valid[p]):
                _shift(limbs, special, column[p], 1)
                count += 1
        for a in range(done_lo, lo[e]):
            p = at + (a & mask)
            if not (len(valid) and not valid[p]):
                _shift(limbs, special, column[p], -1)
                count -= 1
        done_lo = lo[e]
        done_hi = hi[e]
        valid_out[e] = count > 0
        if special[0] or (special[1] and special[2]):
            out[e] = np.nan
        elif special[1]:
            out[e] = np.inf
        elif special[2]:
            out[e] = -np.inf
        else:
            out[e] = rounded(limbs)
    return out, valid_out


@kernel
def _shift(limbs, special, x, sign):
    if math.isfinite(x):
        accumulate(limbs, x, sign)
    elif math.isnan(x):
        special[0] += sign
    elif x > 0:
        special[1] += sign
    else:
        special[2] += sign


@kernel
def sum_integers(column, valid, base, cap, groups, lo, hi):
    """Sums in 64 bits; the third result is whether one does not fit. Intermediate overflow is allowed.

    The upper halves are summed separately: the carries from the lower halves are fewer than the values, and a total
    that wrapped differs by 2^32.
    """
    n = len(groups)
    out = np.empty(n, np.int64)
    valid_out = np.empty(n, np.uint8)
    overflow = False
    for e in range(n):
        at = base[groups[e]]
        mask = cap[groups[e]] - 1
        total = upper = np.int64(0)
        count = 0
        for a in range(lo[e], hi[e]):
            p = at + (a & mask)
            if len(valid) and not valid[p]:
                continue
            total += column[p]
            upper += column[p] >> 32
            count += 1
        out[e] = total
        valid_out[e] = count > 0
        overflow |= abs((total >> 32) - upper) > count
    return out, valid_out, overflow


@kernel
def sum_integers_sliding(column, valid, base, cap, groups, lo, hi, order):
    """As `sum_integers`."""
    n = len(groups)
    out = np.empty(n, np.int64)
    valid_out = np.empty(n, np.uint8)
    overflow = False
    group = np.int64(-1)
    at = mask = done_lo = done_hi = count = total = wraps = np.int64(0)
    for k in range(n):
        e = order[k]
        if groups[e] != group or lo[e] >= done_hi:
            group = groups[e]
            at = base[group]
            mask = cap[group] - 1
            total = np.int64(0)
            count = 0
            wraps = 0
            done_lo = done_hi = lo[e]
        for a in range(done_lo, lo[e]):
            p = at + (a & mask)
            if not (len(valid) and not valid[p]):
                s = total - column[p]
                if ((total ^ column[p]) & (total ^ s)) < 0:
                    wraps += 1 if s < 0 else -1
                total = s
                count -= 1
        for a in range(done_hi, hi[e]):
            p = at + (a & mask)
            if not (len(valid) and not valid[p]):
                s = total + column[p]
                if ((total ^ s) & (column[p] ^ s)) < 0:
                    wraps += 1 if s < 0 else -1
                total = s
                count += 1
        done_lo = lo[e]
        done_hi = hi[e]
        out[e] = total
        valid_out[e] = count > 0
        overflow |= wraps != 0
    return out, valid_out, overflow


@kernel
def count_values(valid, base, cap, groups, lo, hi):
    """The number of values of each window that are not null."""
    out = np.empty(len(groups), np.int64)
    for e in range(len(groups)):
        at = base[groups[e]]
        mask = cap[groups[e]] - 1
        count = 0
        for a in range(lo[e], hi[e]):
            count += valid[at + (a & mask)]
        out[e] = count
    return out


@kernel
def _above(x, y):
    """Whether x is above y, NaN above every number."""
    return x > y or (x != x and y == y)


@kernel
def extremes(column, valid, base, cap, groups, lo, hi, largest):
    """The largest or smallest value of each window that is not null; the oldest among equals (0.0 equals -0.0)."""
    n = len(groups)
    out = np.zeros(n, column.dtype)
    valid_out = np.zeros(n, np.uint8)
    for e in range(n):
        at = base[groups[e]]
        mask = cap[groups[e]] - 1
        for a in range(lo[e], hi[e]):
            p = at + (a & mask)
            if len(valid) and not valid[p]:
                continue
            x = column[p]
            if not valid_out[e] or (_above(x, out[e]) if largest else _above(out[e], x)):
                out[e] = x
                valid_out[e] = 1
    return out, valid_out


@kernel
def extremes_sliding(column, valid, base, cap, groups, lo, hi, largest, order):
    """As `extremes`, with a queue of the values that can still become the extreme, best first."""
    n = len(groups)
    out = np.zeros(n, column.dtype)
    valid_out = np.zeros(n, np.uint8)
    longest = np.int64(1)
    for e in range(n):
        longest = max(longest, hi[e] - lo[e])
    # For one group the queue holds at most its longest window and the rows since.
    queue = np.empty(2 * longest + 1, np.int64)
    front = back = np.int64(0)
    group = np.int64(-1)
    at = mask = done_hi = np.int64(0)
    for k in range(n):
        e = order[k]
        if groups[e] != group or lo[e] >= done_hi:
            group = groups[e]
            at = base[group]
            mask = cap[group] - 1
            front = back = np.int64(0)
            done_hi = lo[e]
        while front < back and queue[front] < lo[e]:
            front += 1
        for a in range(max(done_hi, lo[e]), hi[e]):
            p = at + (a & mask)
            if len(valid) and not valid[p]:
                continue
            while front < back:
                y = column[at + (queue[back - 1] & mask)]
                if not (_above(column[p], y) if largest else _above(y, column[p])):
                    break
                back -= 1
            if back == len(queue):
                queue[: back - front] = queue[front:back].copy()
                back -= front
                front = np.int64(0)
            queue[back] = a
            back += 1
        done_hi = hi[e]
        if front < back:
            out[e] = column[at + (queue[front] & mask)]
            valid_out[e] = 1
    return out, valid_out
