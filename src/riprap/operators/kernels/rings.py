"""Ring buffers of rows, one per group, in shared arrays.

A group's window is the half-open range [head, tail) of its insertion indices, which only grow. Insertion index a of
group g is at position base[g] + (a mod cap[g]) of every column; cap is a power of two. Before a batch is inserted,
`plan_room` makes every ring hold its window and all its new rows at once, so that no position is written twice within a
batch: every row that was in a window during the batch can still be read at its end.
"""

import numpy as np

from riprap.operators.kernels import kernel

SMALLEST = 4  # rows of a new ring


@kernel
def plan_room(groups, base, cap, head, tail, used, scratch):
    """Plan which rings must move so that one more row per entry of `groups` fits.

    `scratch` (one zero per group) is left unchanged. Updates `base` and `cap`; returns the moves as rows (group, old
    base, old cap, new base, new cap) and how much of the columns is used afterwards. Negative groups are skipped.
    """
    touched = np.empty(len(groups), np.int64)
    count = 0
    for i in range(len(groups)):
        g = groups[i]
        if g < 0:
            continue
        if scratch[g] == 0:
            touched[count] = g
            count += 1
        scratch[g] += 1
    moves = np.empty((count, 5), np.int64)
    moved = 0
    for i in range(count):
        g = touched[i]
        need = tail[g] - head[g] + scratch[g]
        scratch[g] = 0
        if need > cap[g]:
            size = max(np.int64(SMALLEST), cap[g])
            while size < need:
                size *= 2
            moves[moved, 0] = g
            moves[moved, 1] = base[g]
            moves[moved, 2] = cap[g]
            moves[moved, 3] = used
            moves[moved, 4] = size
            moved += 1
            base[g] = used
            cap[g] = size
            used += size
    return moves[:moved], used


@kernel
def move_rings(column, moves, head, tail):
    """Carry out planned moves on one column."""
    for i in range(moves.shape[0]):
        g = moves[i, 0]
        for a in range(head[g], tail[g]):
            column[moves[i, 3] + (a & (moves[i, 4] - 1))] = column[moves[i, 1] + (a & (moves[i, 2] - 1))]


@kernel
def positions_of(groups, lo, hi, base, cap):
    """Positions of the ranges [lo[k], hi[k]) of groups[k], concatenated."""
    total = 0
    for k in range(len(groups)):
        total += hi[k] - lo[k]
    out = np.empty(total, np.int64)
    at = 0
    for k in range(len(groups)):
        g = groups[k]
        for a in range(lo[k], hi[k]):
            out[at] = base[g] + (a & (cap[g] - 1))
            at += 1
    return out


@kernel
def expire(groups, ts, base, cap, head, tail, before):
    """Advance the heads of `groups` past rows whose time is `before` or earlier."""
    for k in range(len(groups)):
        g = groups[k]
        while head[g] < tail[g] and ts[base[g] + (head[g] & (cap[g] - 1))] <= before:
            head[g] += 1


@kernel
def insert_all(groups, base, cap, tail):
    """Append one row per entry of `groups` (negative: none); returns their positions (-1: none)."""
    out = np.empty(len(groups), np.int64)
    for i in range(len(groups)):
        g = groups[i]
        if g < 0:
            out[i] = -1
            continue
        out[i] = base[g] + (tail[g] & (cap[g] - 1))
        tail[g] += 1
    return out


@kernel
def scatter(column, positions, values):
    """column[positions] = values, skipping negative positions."""
    for i in range(len(positions)):
        if positions[i] >= 0:
            column[positions[i]] = values[i]
