"""When sessions end: windows of a group's tuples in which all gaps are shorter than a given time."""

import numpy as np

from riprap.operators.kernels import kernel


@kernel
def end_sessions(groups, ts, until, base, cap, head, tail, stamps, known, gap, latest, earliest, positions):
    """Insert rows; list the sessions that end at or before the time reached, as (row, group, lo, hi, end).

    A session ends `gap` after its last tuple. The time reached is that of the last row, or `until` if that is later;
    the row of an end is the first at or after it. Updated: `latest` (one entry: the greatest time so far, which is
    also the time of a late tuple), `earliest` (one entry: no open session ends before it), the rings' heads and
    tails, and the positions of the rows. `known` is the number of groups.
    """
    n = len(groups)
    out = np.empty((n + known, 5), np.int64)
    clock = np.empty(n, np.int64)
    count = 0
    for i in range(n):
        latest[0] = max(latest[0], ts[i])
        clock[i] = latest[0]
        g = groups[i]
        a = tail[g]
        if a > head[g]:
            end = stamps[base[g] + ((a - 1) & (cap[g] - 1))] + gap
            if end <= latest[0]:
                out[count, 1] = g
                out[count, 2] = head[g]
                out[count, 3] = a
                out[count, 4] = end
                count += 1
                head[g] = a
        at = base[g] + (a & (cap[g] - 1))
        stamps[at] = latest[0]
        positions[i] = at
        tail[g] = a + 1
        earliest[0] = min(earliest[0], latest[0] + gap)
    reached = max(latest[0], until) if n else until
    if earliest[0] <= reached:
        earliest[0] = np.iinfo(np.int64).max
        for g in range(known):
            if tail[g] > head[g]:
                end = stamps[base[g] + ((tail[g] - 1) & (cap[g] - 1))] + gap
                if end <= reached:
                    out[count, 1] = g
                    out[count, 2] = head[g]
                    out[count, 3] = tail[g]
                    out[count, 4] = end
                    count += 1
                    head[g] = tail[g]
                else:
                    earliest[0] = min(earliest[0], end)
    for e in range(count):
        out[e, 0] = np.searchsorted(clock, out[e, 4])
    return out[:count]


@kernel
def chain(groups, base, cap, head, tail, positions, before, turns):
    """Insert rows, each of which replaces the previous row of its group.

    Writes for each row its position, that of the previous row (-1: none), and its index within its group in this
    call. Returns the greatest number of rows of a group.
    """
    seen = np.zeros(len(tail), np.int64)
    most = 0
    for i in range(len(groups)):
        g = groups[i]
        a = tail[g]
        before[i] = base[g] + ((a - 1) & (cap[g] - 1)) if a > head[g] else -1
        positions[i] = base[g] + (a & (cap[g] - 1))
        head[g] = a
        tail[g] = a + 1
        turns[i] = seen[g]
        seen[g] += 1
        most = max(most, seen[g])
    return most
