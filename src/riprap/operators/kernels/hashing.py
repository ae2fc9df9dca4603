"""Stable 64-bit hashes: a value has the same hash in every process, on every machine and in every version.

Shards own ranges of these hashes, files contain them, and replicas compare them, so these functions must never change.
All arithmetic is modulo 2^64, on uint64.
"""

import numpy as np

from riprap.operators.kernels import kernel

SEED = np.uint64(0x9E3779B97F4A7C15)  # the golden ratio, as in SplitMix64
_A = np.uint64(0xBF58476D1CE4E5B9)
_B = np.uint64(0x94D049BB133111EB)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)
_FNV = np.uint64(0x100000001B3)
NULL_HASH = np.uint64(0x6E756C6C6E756C6C)  # of a null of any type


@kernel
def mix(x):
    """SplitMix64's finaliser: every input bit reaches every output bit."""
    x = np.uint64(x)
    x = (x ^ (x >> _30)) * _A
    x = (x ^ (x >> _27)) * _B
    return x ^ (x >> _31)


@kernel
def combine(h, x):
    """The hash of the sequence with hash `h`, extended by `x`."""
    return mix(np.uint64(h) * SEED + np.uint64(x))


@kernel
def place(h, mask):
    """The slot of a hash in a table of mask + 1 slots, a power of two."""
    return np.int64(np.uint64(h) & np.uint64(mask))


@kernel
def comparable(x):
    """A float as a word, so that equal keys have equal words: one zero, one NaN."""
    return np.int64(0x7FF8000000000000) if x != x else np.float64(x + 0.0).view(np.int64)


@kernel
def hash_bytes(data, start, stop):
    """The hash of a string, eight bytes at a time."""
    h = SEED ^ np.uint64(stop - start)
    i = start
    while i + 8 <= stop:
        word = np.uint64(0)
        for b in range(8):
            word |= np.uint64(data[i + b]) << np.uint64(8 * b)
        h = combine(h, word)
        i += 8
    tail = np.uint64(0)
    shift = np.uint64(0)
    while i < stop:
        tail |= np.uint64(data[i]) << shift
        shift += np.uint64(8)
        i += 1
    return combine(h, tail)


@kernel
def hash_words(words, valid, out):
    """Fold one fixed-width column (as 64-bit words) into the hashes of its rows, in place. Empty `valid`: no nulls."""
    for i in range(len(words)):
        if len(valid) and not valid[i]:
            out[i] = combine(out[i], NULL_HASH)
        else:
            out[i] = combine(out[i], mix(np.uint64(words[i])))


@kernel
def hash_through(ids, hashes, valid, out):
    """Fold a column of string ids into the hashes of its rows, in place, by the hash of each string."""
    for i in range(len(ids)):
        if len(valid) and not valid[i]:
            out[i] = combine(out[i], NULL_HASH)
        else:
            out[i] = combine(out[i], hashes[ids[i]])


@kernel
def fold_runs(row_hashes, counts, out):
    """Fold consecutive runs of rows (`counts[k]` rows each) in order into `out[k]`, in place."""
    row = 0
    for k in range(len(counts)):
        h = out[k]
        for _ in range(counts[k]):
            h = combine(h, row_hashes[row])
            row += 1
        out[k] = h
