"""The first row of each group, forever or within a time."""

import numpy as np

from riprap.operators.kernels import kernel


@kernel
def first_rows(groups, ts, base, cap, head, tail, stamps, within, now, positions):
    """Insert the rows whose group has none, and list them.

    `within`: a row is forgotten that long after its time; 0: never. Updated: `now` (one entry: the greatest time so
    far, which is also the time of a late row), heads, tails, `stamps`, and the positions of inserted rows (-1: not).
    """
    passed = np.empty(len(groups), np.int64)
    count = 0
    for i in range(len(groups)):
        now[0] = max(now[0], ts[i])
        g = groups[i]
        if within and head[g] < tail[g] and stamps[base[g] + (head[g] & (cap[g] - 1))] <= now[0] - within:
            head[g] += 1
        positions[i] = -1
        if head[g] == tail[g]:
            at = base[g] + (tail[g] & (cap[g] - 1))
            positions[i] = at
            if within:
                stamps[at] = now[0]
            tail[g] += 1
            passed[count] = i
            count += 1
    return passed[:count]
