"""How a batch changed windows, without a loop over windows in the interpreter (see `operators/tracking.py`)."""

import numpy as np

from riprap.operators.kernels import kernel


@kernel
def distinct(groups, marks, stamp, slots):
    """The distinct groups of a batch, in order of arrival, without negative ones.

    `marks[g]` becomes `stamp` for each, which must be new to it, and `slots[g]` its index in the result.
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
def tumble(
    touched,
    heads,
    head,
    tail,
    number,
    base,
    origin,
    first,
    chain,
    at,
    saved,
    since,
    start,
    frame,
    numbers,
    now,
    rows,
    bases,
    bases_from,
    origins,
    origins_from,
    opened,
    closed,
):
    """How calls changed the tumbling windows of the groups that they touched, whose rings started at `heads` before.

    Updates everything by group, and how many windows have each frame as `bases` and `origins`, except for the current
    frame. `opened` gets groups and numbers, from `numbers` on, `closed` the groups of windows that opened in an
    earlier frame. `start[g]` is known if windows of the group closed meanwhile; otherwise none of its rows is among
    the `rows` that had arrived before. `now`: time of the last row. Returns how many windows opened, how many of
    those that an earlier frame opened closed, how many closed in total, and how many became dirty.
    """
    opening = from_earlier = ended = dirty = 0
    for t in range(len(touched)):
        g = touched[t]
        if number[g] >= 0:
            if head[g] == heads[t]:
                if base[g] < 0:
                    base[g] = frame - 1
                    dirty += 1
                continue
            if base[g] >= 0:
                bases[base[g] - bases_from] -= 1
            origins[origin[g] - origins_from] -= 1
            if first[g] < frame:
                closed[from_earlier] = g
                from_earlier += 1
            ended += 1
            number[g] = -1
            base[g] = -1
        if tail[g] > head[g]:
            number[g] = numbers + opening
            first[g] = frame
            base[g] = frame - 1
            origin[g] = frame
            chain[g] = 0
            at[g] = head[g]
            saved[g] = head[g]
            since[g] = now
            if head[g] == heads[t]:
                start[g] = rows
            opened[0, opening] = g
            opened[1, opening] = number[g]
            opening += 1
    return opening, from_earlier, ended, dirty


@kernel
def claim(hashes, table, places, count, add):
    """The place of each hash in an open-addressed `table` of places (-1: free), whose hashes are `places[place]`.

    Unknown hashes get the next place if `add`, else -1. The caller ensures that there is room. Returns the places and
    their new number.
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
