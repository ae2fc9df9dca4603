"""The heart of a join: each arriving row meets the other port's window, then enters its own.

Rows of both ports come in merged order: `ports[k]` says which port the k-th row is of, and rows of a port are in their own order.
A row whose group is negative (a null key) meets nothing and is not kept.

A window forgets by `stamps`, a column of its rings: `_ts` for TIME; the number of the tuple on its port for a COUNT window
over the whole port. A COUNT window per group needs none.
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
    """Writes, for each merged row, the insertion indices [lo, hi) of its group that it meets on the other port.

    Also updated: `arrived` (tuples so far on each port), `now` (one entry: the greatest `_ts` so far), the rings' heads and
    tails, and the positions of inserted rows (-1: not kept).
    """
    row0 = row1 = 0
    for k in range(len(ports)):
        if ports[k] == 0:
            g = groups0[row0]
            t = ts0[row0]
            now[0] = max(now[0], t)
            lo[k], hi[k] = _window(g, kind1, size1, base1, cap1, head1, tail1, stamps1, per_group, arrived[1], now[0])
            positions0[row0] = _keep(g, t, kind0, size0, base0, cap0, head0, tail0, stamps0, per_group, arrived, 0)
            row0 += 1
        else:
            g = groups1[row1]
            t = ts1[row1]
            now[0] = max(now[0], t)
            lo[k], hi[k] = _window(g, kind0, size0, base0, cap0, head0, tail0, stamps0, per_group, arrived[0], now[0])
            positions1[row1] = _keep(g, t, kind1, size1, base1, cap1, head1, tail1, stamps1, per_group, arrived, 1)
            row1 += 1


@kernel
def _window(g, kind, size, base, cap, head, tail, stamps, per_group, arrived, now):
    """What is in the window of group g right now, as insertion indices; forgets what is too old."""
    if g < 0 or kind == ZERO:
        return np.int64(0), np.int64(0)
    first = head[g]
    if kind == TIME or not per_group:
        bound = now - size if kind == TIME else arrived - size
        while first < tail[g] and stamps[base[g] + (first & (cap[g] - 1))] <= bound:
            first += 1
        head[g] = first
    return first, tail[g]


@kernel
def _keep(g, t, kind, size, base, cap, head, tail, stamps, per_group, arrived, port):
    """Insert a row into its own port's window; its position, or -1."""
    if kind == ZERO:
        return np.int64(-1)
    arrived[port] += 1
    if g < 0:
        return np.int64(-1)
    a = tail[g]
    at = base[g] + (a & (cap[g] - 1))
    tail[g] = a + 1
    if kind == TIME:
        stamps[at] = t
    elif not per_group:
        stamps[at] = arrived[port]
    elif a + 1 - head[g] > size:
        head[g] = a + 1 - size
    return at


@kernel
def list_matches(ports, groups0, groups1, lo, hi, base0, cap0, base1, cap1, total):
    """One entry per match: the arriving row in its port, its port, and the position of what it met on the other port."""
    rows = np.empty(total, np.int64)
    sides = np.empty(total, np.int8)
    met = np.empty(total, np.int64)
    row0 = row1 = 0
    at = 0
    for k in range(len(ports)):
        if ports[k] == 0:
            for a in range(lo[k], hi[k]):
                g = groups0[row0]
                rows[at] = row0
                sides[at] = 0
                met[at] = base1[g] + (a & (cap1[g] - 1))
                at += 1
            row0 += 1
        else:
            for a in range(lo[k], hi[k]):
                g = groups1[row1]
                rows[at] = row1
                sides[at] = 1
                met[at] = base0[g] + (a & (cap0[g] - 1))
                at += 1
            row1 += 1
    return rows, sides, met
