"""When an aggregate emits: inserts a batch into its rings and lists which windows emit at which row.

Every function appends row i of the batch to the ring of its group and writes its position to `positions`. An emission
is (row, group, lo, hi): at that row the group emits its window of insertion indices [lo, hi).
"""

import numpy as np

from riprap.operators.kernels import kernel


@kernel
def count_by_count(groups, base, cap, head, tail, size, every, tumbling, partial, positions):
    """Windows of `size` tuples that emit at every `every`-th tuple of their group."""
    n = len(groups)
    rows = np.empty(n, np.int64)
    emitting = np.empty(n, np.int64)
    lo = np.empty(n, np.int64)
    hi = np.empty(n, np.int64)
    count = 0
    for i in range(n):
        g = groups[i]
        a = tail[g]
        positions[i] = base[g] + (a & (cap[g] - 1))
        a += 1
        tail[g] = a
        if a - head[g] > size:
            head[g] = a - size
        if (every == 1 or a % every == 0) and (partial or a - head[g] == size):
            rows[count] = i
            emitting[count] = g
            lo[count] = head[g]
            hi[count] = a
            count += 1
            if tumbling:
                head[g] = a
    return rows[:count], emitting[:count], lo[:count], hi[:count]


@kernel
def time_by_count(groups, ts, base, cap, head, tail, stamps, size, every, now, positions):
    """Windows of `size` microseconds that emit at every `every`-th tuple of their group.

    `now` (one entry, updated) is the greatest time so far, which is also the time of a late tuple.
    """
    n = len(groups)
    rows = np.empty(n, np.int64)
    emitting = np.empty(n, np.int64)
    lo = np.empty(n, np.int64)
    hi = np.empty(n, np.int64)
    count = 0
    for i in range(n):
        g = groups[i]
        a = tail[g]
        at = base[g] + (a & (cap[g] - 1))
        positions[i] = at
        tail[g] = a + 1
        now[0] = max(now[0], ts[i])
        stamps[at] = now[0]
        while head[g] < a and stamps[base[g] + (head[g] & (cap[g] - 1))] <= now[0] - size:
            head[g] += 1
        if (a + 1) % every == 0:
            rows[count] = i
            emitting[count] = g
            lo[count] = head[g]
            hi[count] = a + 1
            count += 1
    return rows[:count], emitting[:count], lo[:count], hi[:count]


@kernel
def by_boundary(
    groups,
    ts,
    until,
    base,
    cap,
    head,
    tail,
    emitted_tail,
    stamps,
    known,
    window,
    every,
    offset,
    by_time,
    boundary,
    latest,
    positions,
):
    """Windows that emit `offset` after multiples of `every` microseconds.

    With `by_time` the window of a group is its tuples of the last `window` microseconds before the boundary, and it
    emits if there are any. Otherwise it is its `window` latest tuples, and it emits if one arrived since its last
    emission (at insertion index `emitted_tail`). `known` is the number of groups; `boundary` the next one to emit at,
    or the least int64 before the first tuple; `latest` (one entry, updated) the greatest time so far, which is also
    the time of a late tuple. After the rows, boundaries up to `until` emit (the greatest int64: as long as any
    window would). Returns the emissions, the boundary of each, and the next one.
    """
    none = np.iinfo(np.int64).min
    forever = np.iinfo(np.int64).max
    n = len(groups)
    room = n + 16
    out = np.empty((room, 5), np.int64)  # row, group, lo, hi, boundary
    count = 0
    i = 0
    last = latest[0]
    while True:
        while i < n:  # rows before the next boundary
            last = max(last, ts[i])
            if boundary == none:
                boundary = ((last - offset) // every) * every + every + offset
            if boundary <= last:
                break
            g = np.uint64(groups[i])
            a = tail[g]
            at = base[g] + (a & (cap[g] - 1))
            positions[i] = at
            if by_time:
                stamps[np.uint64(at)] = last
            elif a + 1 - head[g] > window:
                head[g] = a + 1 - window
            tail[g] = a + 1
            i += 1
        now = last if i < n else until
        while boundary != none and boundary <= now:
            emissions = 0
            for g in range(known):
                if by_time:
                    while head[g] < tail[g] and stamps[base[g] + (head[g] & (cap[g] - 1))] < boundary - window:
                        head[g] += 1
                    if head[g] == tail[g]:
                        continue
                elif tail[g] == emitted_tail[g]:
                    continue
                if count == room:
                    room *= 2
                    larger = np.empty((room, 5), np.int64)
                    larger[:count] = out[:count]
                    out = larger
                out[count, 0] = i
                out[count, 1] = g
                out[count, 2] = head[g]
                out[count, 3] = tail[g]
                out[count, 4] = boundary
                count += 1
                emissions += 1
                emitted_tail[g] = tail[g]
                if by_time and window == every:
                    head[g] = tail[g]
            if emissions:
                boundary += every
            elif now == forever:
                boundary = none
            else:
                boundary = ((now - offset) // every) * every + every + offset  # nothing to emit until a row arrives
        if i == n:
            break
    latest[0] = last
    return out[:count], boundary
