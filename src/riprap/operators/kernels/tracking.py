"""What a batch did to windows, without a loop over windows in the interpreter (see `operators/tracking.py`)."""

import numpy as np

from riprap.operators.kernels import kernel


@kernel
def distinct(groups, marks, stamp, slots):
    """The groups of a batch, each once, in the order they came (negative ones: none of them).

    `marks[g]` becomes `stamp` for each, which no place of it was before, and `slots[g]` its place in the result.
    """
    out = np.empty(len(groups), np.int64)
    count = 0
    for i in range(len(groups)):
        g = groups[i]
        if g >= 0 and marks[g] != stamp:
            marks[g] = stamp
            slots[g] = count
            out[count] = g
            count += 1
    return out[:count]


@kernel
def nth_rows(groups, slots, skips):
    """For each slot the row of the batch behind the first `skips[slot]` rows of its group; -1: there is none."""
    out = np.full(len(skips), -1, np.int64)
    left = skips.copy()
    for i in range(len(groups)):
        g = groups[i]
        if g < 0:
            continue
        s = slots[g]
        if left[s] == 0:
            out[s] = i
        left[s] -= 1
    return out


@kernel
def claim(hashes, table, places, count, add):
    """The place of each hash in an open-addressed `table` of places (-1: free), whose hashes are `places[place]`.

    Unknown ones get the next place if `add`, else -1. The caller sees to it that there is room. Returns the places,
    and how many there are afterwards.
    """
    out = np.empty(len(hashes), np.int64)
    mask = len(table) - 1
    for i in range(len(hashes)):
        slot = np.int64(hashes[i] >> np.uint64(7)) & mask
        while True:
            place = table[slot]
            if place < 0:
                if add:
                    table[slot] = count
                    places[count] = hashes[i]
                    out[i] = count
                    count += 1
                else:
                    out[i] = -1
                break
            if places[place] == hashes[i]:
                out[i] = place
                break
            slot = (slot + 1) & mask
    return out, count
