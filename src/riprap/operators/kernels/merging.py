"""Merging ports: which port's row is next. Rows of a port are in ascending order of (a, b, c, d)."""

import numpy as np

from riprap.operators.kernels import kernel


@kernel
def merge_two(left, right):
    """Port (0 or 1) of each row of two ports merged by one ascending number; the left first among equals."""
    n, m = len(left), len(right)
    if n and m:
        # Two branches of one stream often contain all of its numbers together: then each number is a position, and no
        # comparison is needed.
        first = min(left[0], right[0])
        if max(left[n - 1], right[m - 1]) - first + 1 == n + m:
            out = np.zeros(n + m, np.int8)
            for j in range(m):
                out[right[j] - first] = 1
            both = 0
            for i in range(n):
                both += out[left[i] - first]
            if both == 0:
                return out
    out = np.empty(n + m, np.int8)
    i = j = 0
    for k in range(n + m):
        if i < n and (j == m or left[i] <= right[j]):
            out[k] = 0
            i += 1
        else:
            out[k] = 1
            j += 1
    return out


@kernel
def merge_many(keys, starts):
    """Port of each row of several ports merged by rows of numbers; lower ports first among equals.

    Port p's rows are keys[starts[p]:starts[p + 1]].
    """
    ports = len(starts) - 1
    at = starts[:-1].copy()
    out = np.empty(keys.shape[0], np.int8)
    for k in range(keys.shape[0]):
        best = -1
        for p in range(ports):
            if at[p] == starts[p + 1]:
                continue
            if best < 0:
                best = p
                continue
            for j in range(keys.shape[1]):
                x, y = keys[at[p], j], keys[at[best], j]
                if x != y:
                    if x < y:
                        best = p
                    break
        out[k] = best
        at[best] += 1
    return out


@kernel
def source_rows(ports, starts):
    """For each merged row its index in the concatenated rows of the ports."""
    at = starts.copy()
    out = np.empty(len(ports), np.int64)
    for k in range(len(ports)):
        out[k] = at[ports[k]]
        at[ports[k]] += 1
    return out


@kernel
def number_runs(ts, src, seq, last_ts, last_src, last_seq, next_n, out):
    """Number rows that share (ts, src, seq), continuing from the last batch; `src` may have one entry for all rows.

    Returns the number that the next row with the last key would get.
    """
    for i in range(len(ts)):
        s = src[i] if len(src) > 1 else src[0]
        if ts[i] != last_ts or s != last_src or seq[i] != last_seq:
            last_ts, last_src, last_seq = ts[i], s, seq[i]
            next_n = 0
        out[i] = next_n
        next_n += 1
    return next_n


@kernel
def running_maximum(values, start, out):
    """out[i] = max(start, values[0..i])."""
    for i in range(len(values)):
        if values[i] > start:
            start = values[i]
        out[i] = start
    return start


@kernel
def running_greatest(rows, last):
    """In place: each row of numbers becomes the greatest so far, including `last`, in lexicographic order."""
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            if rows[i, j] != last[j]:
                if rows[i, j] < last[j]:
                    rows[i] = last
                break
        last = rows[i]
