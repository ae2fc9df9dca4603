"""Dense group numbers for keys: a hash table over rows of 64-bit words, and one over strings."""

import numpy as np

from riprap.operators.kernels import kernel
from riprap.operators.kernels.hashing import SEED, combine, hash_bytes


@kernel
def groups_by_code(codes, valid, lut, ids, group_of_id, state, out, new_ids):
    """Group numbers for a dictionary-encoded column.

    `lut[code + 1]` is the group of a code, -1 if unknown; entry 0 stands for null. `ids[code]` is the string's id in
    the pool and `group_of_id` the group of an id. `state` is (number of groups, group of null or -1). All but `codes`,
    `valid` and `ids` are written; `new_ids` gets the ids of new groups, in order (-1: null).
    """
    first = state[0]
    for i in range(len(codes)):
        missing = len(valid) and not valid[i]
        code = np.int64(-1) if missing else np.int64(codes[i])
        group = lut[code + 1]
        if group < 0:
            group = state[1] if missing else group_of_id[ids[code]]
            if group < 0:
                group = state[0]
                state[0] += 1
                if missing:
                    state[1] = group
                    new_ids[group - first] = -1
                else:
                    group_of_id[ids[code]] = group
                    new_ids[group - first] = ids[code]
            lut[code + 1] = group
        out[i] = group


@kernel
def groups_by_words(rows, slots, keys, next_group, out):
    """Group numbers for rows of words (`rows[i]`); adds unknown ones to the open-addressed table `slots` (group or
    -1).

    `keys[group]` are a group's words. The caller ensures that `slots` is at most half full and `keys` long enough
    even if every row is new. Returns the new number of groups.
    """
    mask = len(slots) - 1
    width = rows.shape[1]
    for i in range(rows.shape[0]):
        h = SEED
        for j in range(width):
            h = combine(h, rows[i, j])
        slot = np.int64(h) & mask
        while True:
            group = slots[slot]
            if group < 0:
                slots[slot] = next_group
                for j in range(width):
                    keys[next_group, j] = rows[i, j]
                out[i] = next_group
                next_group += 1
                break
            same = True
            for j in range(width):
                if keys[group, j] != rows[i, j]:
                    same = False
                    break
            if same:
                out[i] = group
                break
            slot = (slot + 1) & mask
    return next_group


@kernel
def rehash_words(slots, keys, groups):
    """Fill an empty table with the first `groups` of `keys`."""
    mask = len(slots) - 1
    for group in range(groups):
        h = SEED
        for j in range(keys.shape[1]):
            h = combine(h, keys[group, j])
        slot = np.int64(h) & mask
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = group


@kernel
def intern(offsets, data, slots, hashes, pool_offsets, pool, count, ids):
    """Ids for strings (`data[offsets[i]:offsets[i+1]]`); appends unknown ones to the pool.

    Pool entry k is `pool[pool_offsets[k]:pool_offsets[k+1]]`, its hash `hashes[k]`. The caller ensures that there is
    room even if every string is new. `ids`, `slots`, `hashes`, `pool_offsets` and `pool` are written. Returns the new
    count.
    """
    mask = len(slots) - 1
    for i in range(len(offsets) - 1):
        start, stop = offsets[i], offsets[i + 1]
        h = hash_bytes(data, start, stop)
        slot = np.int64(h) & mask
        while True:
            k = slots[slot]
            if k < 0:
                slots[slot] = count
                hashes[count] = h
                at = pool_offsets[count]
                for b in range(stop - start):
                    pool[at + b] = data[start + b]
                pool_offsets[count + 1] = at + (stop - start)
                ids[i] = count
                count += 1
                break
            if hashes[k] == h and pool_offsets[k + 1] - pool_offsets[k] == stop - start:
                same = True
                for b in range(stop - start):
                    if pool[pool_offsets[k] + b] != data[start + b]:
                        same = False
                        break
                if same:
                    ids[i] = k
                    break
            slot = (slot + 1) & mask
    return count


@kernel
def rehash_strings(slots, hashes, count):
    mask = len(slots) - 1
    for k in range(count):
        slot = np.int64(hashes[k]) & mask
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = k
