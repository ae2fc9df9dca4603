"""Find rows that belong to keys."""

import numpy as np

from riprap.operators.kernels import kernel


@kernel
def by_part(part, parts):
    """Rows by part, in order within each part; and the start of each part among them, with the end of the last."""
    first = np.zeros(parts + 1, np.int64)
    for row in range(len(part)):
        first[part[row] + 1] += 1
    for p in range(parts):
        first[p + 1] += first[p]
    at = first.copy()
    order = np.empty(len(part), np.int64)
    for row in range(len(part)):
        order[at[part[row]]] = row
        at[part[row]] += 1
    return order, first


@kernel
def rows_within(parts, order, first, lo, hi):
    """Entries of `order[first[p]:first[p + 1]]` in [lo, hi), part after part. Each part's entries ascend."""
    starts = np.empty(len(parts), np.int64)
    total = 0
    counts = np.empty(len(parts), np.int64)
    for k in range(len(parts)):
        own = order[first[parts[k]] : first[parts[k] + 1]]
        starts[k] = first[parts[k]] + np.searchsorted(own, lo)
        counts[k] = np.searchsorted(own, hi) - (starts[k] - first[parts[k]])
        total += counts[k]
    out = np.empty(total, np.int64)
    at = 0
    for k in range(len(parts)):
        for i in range(counts[k]):
            out[at] = order[starts[k] + i]
            at += 1
    return out


@kernel
def rows_among(part, parts, count, lo, hi):
    """Rows in [lo, hi) that belong to one of `parts` (of `count`), ascending; `part` is that of each row."""
    chosen = np.zeros(count, np.uint8)
    for k in range(len(parts)):
        chosen[parts[k]] = 1
    out = np.empty(hi - lo, np.int64)
    found = 0
    for row in range(lo, hi):  # branch-free: which rows match is unpredictable
        out[found] = row
        found += chosen[part[row]]
    return out[:found]


@kernel
def find_unsettled(position, part, order, other_position, other_part, other_order, bound, window, unsettled, met):
    """Find rows of one port with a row of their part on the other port within `bound`, and what they may meet there.

    `order` lists rows by part, in order within each. Marks triggers in `unsettled`, and in `met` the other port's
    rows within the bound of each and the `window` rows before those.
    """
    other_rows = len(other_order)
    first = 0  # first row of this part on the other port
    low = 0  # first row of the part there that is not too early for the trigger
    current = -1
    for k in range(len(order)):
        row = order[k]
        if part[row] != current:
            current = part[row]
            while first < other_rows and other_part[other_order[first]] < current:
                first += 1
            low = first
        at = position[row]
        while (
            low < other_rows
            and other_part[other_order[low]] == current
            and other_position[other_order[low]] < at - bound
        ):
            low += 1
        if (
            low == other_rows
            or other_part[other_order[low]] != current
            or other_position[other_order[low]] > at + bound
        ):
            continue
        unsettled[row] = True
        high = low
        while (
            high < other_rows
            and other_part[other_order[high]] == current
            and other_position[other_order[high]] <= at + bound
        ):
            met[other_order[high]] = True
            high += 1
        for back in range(low - window, low):
            if back >= first and other_part[other_order[back]] == current:
                met[other_order[back]] = True
