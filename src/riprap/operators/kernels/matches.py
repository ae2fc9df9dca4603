"""The core of a join: each arriving row meets the other port's window, then enters the window of its own port.

Rows of both ports arrive in merged order: `ports[k]` is the port of row k, and the rows of a port are in order. A row
with a negative group (a null key) meets nothing and is not stored.

A window evicts by `stamps`, a column of its rings: `_ts` for TIME; the number of the tuple on its port for a COUNT
window over the whole port. A COUNT window per group needs none.
"""

import numpy as np

from riprap.operators.kernels import kernel

# Kinds of windows.
ZERO, COUNT, TIME = 0, 1, 2


@kernel
def meet(
    ports, groups0, groups1, ts0, ts1, base0, cap0, head0, tail0, base1, cap1, head1, tail1,
    stamps0, stamps1, kind0, kind1, size0, size1, per_group, arrived, now, positions0, positions1, lo, hi,
):  # fmt: skip
    """Write, for each merged row, the insertion indices [lo, hi) of its group that it meets on the other port.

    Also updated: `arrived` (tuples so far on each port), `now` (one entry: the greatest `_ts` so far), the rings'
    heads and tails, and the positions of inserted rows (-1: not stored).

    The two halves are the same with the ports exchanged. They are written out because a compiled call with array
    arguments counts references to each of them, which costs ten times the work for a row.
    """
    row0 = row1 = 0
    arrived0, arrived1 = arrived[0], arrived[1]
    latest = now[0]
    for k in range(len(ports)):
        lo[k] = 0
        hi[k] = 0
        if ports[k] == 0:
            g = groups0[row0]
            latest = max(latest, ts0[row0])
            positions0[row0] = -1
            if g >= 0 and kind1 != ZERO:
                first = head1[g]
                if kind1 == TIME or not per_group:
                    bound = latest - size1 if kind1 == TIME else arrived1 - size1
                    while first < tail1[g] and stamps1[base1[g] + (first & (cap1[g] - 1))] <= bound:
                        first += 1
                    head1[g] = first
                lo[k] = first
                hi[k] = tail1[g]
            if kind0 != ZERO:
                arrived0 += 1
                if g >= 0:
                    a = tail0[g]
                    at = base0[g] + (a & (cap0[g] - 1))
                    tail0[g] = a + 1
                    positions0[row0] = at
                    if kind0 == TIME or not per_group:
                        # Evict here too: the group may never be met, and its ring must not grow forever.
                        stamps0[at] = ts0[row0] if kind0 == TIME else arrived0
                        bound = latest - size0 if kind0 == TIME else arrived0 - size0
                        first = head0[g]
                        while first < a and stamps0[base0[g] + (first & (cap0[g] - 1))] <= bound:
                            first += 1
                        head0[g] = first
                    elif a + 1 - head0[g] > size0:
                        head0[g] = a + 1 - size0
            row0 += 1
        else:
            g = groups1[row1]
            latest = max(latest, ts1[row1])
            positions1[row1] = -1
            if g >= 0 and kind0 != ZERO:
                first = head0[g]
                if kind0 == TIME or not per_group:
                    bound = latest - size0 if kind0 == TIME else arrived0 - size0
                    while first < tail0[g] and stamps0[base0[g] + (first & (cap0[g] - 1))] <= bound:
                        first += 1
                    head0[g] = first
                lo[k] = first
                hi[k] = tail0[g]
            if kind1 != ZERO:
                arrived1 += 1
                if g >= 0:
                    a = tail1[g]
                    at = base1[g] + (a & (cap1[g] - 1))
                    tail1[g] = a + 1
                    positions1[row1] = at
                    if kind1 == TIME or not per_group:
                        # Evict here too: the group may never be met, and its ring must not grow forever.
                        stamps1[at] = ts1[row1] if kind1 == TIME else arrived1
                        bound = latest - size1 if kind1 == TIME else arrived1 - size1
                        first = head1[g]
                        while first < a and stamps1[base1[g] + (first & (cap1[g] - 1))] <= bound:
                            first += 1
                        head1[g] = first
                    elif a + 1 - head1[g] > size1:
                        head1[g] = a + 1 - size1
            row1 += 1
    arrived[0] = arrived0
    arrived[1] = arrived1
    now[0] = latest


@kernel
def list_matches(ports, groups0, groups1, lo, hi, base0, cap0, base1, cap1, total):
    """One entry per match: the arriving row in its port, its port, and the position that it met on the other port."""
    rows = np.empty(total, np.int64)
    sides = np.empty(total, np.int8)
    met = np.empty(total, np.int64)
    triggers = np.empty(total, np.int64)
    row0 = row1 = 0
    at = 0
    for k in range(len(ports)):
        if ports[k] == 0:
            for a in range(lo[k], hi[k]):
                g = groups0[row0]
                rows[at] = row0
                sides[at] = 0
                met[at] = base1[g] + (a & (cap1[g] - 1))
                triggers[at] = k
                at += 1
            row0 += 1
        else:
            for a in range(lo[k], hi[k]):
                g = groups1[row1]
                rows[at] = row1
                sides[at] = 1
                met[at] = base0[g] + (a & (cap0[g] - 1))
                triggers[at] = k
                at += 1
            row1 += 1
    return rows, sides, met, triggers
