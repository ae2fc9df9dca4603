"""Kernels against plain Python. Small enough to run with the compiler switched off as well (`test_interpreted.py`)."""

import math
import os
import random

import numpy as np
import pytest
from tests.operators.reference import evaluate, total

from riprap.operators.kernels.delays import stalled_until
from riprap.operators.kernels.exact_sums import LIMBS, accumulate, rounded
from riprap.operators.kernels.folds import (
    count_values,
    extremes,
    extremes_sliding,
    sum_floats,
    sum_floats_sliding,
    sum_integers,
    sum_integers_sliding,
)
from riprap.operators.kernels.group_tables import groups_by_code, groups_by_words, intern, rehash_strings, rehash_words
from riprap.operators.kernels.hashing import SEED, hash_bytes, hash_words, mix
from riprap.operators.kernels.merging import (
    merge_many,
    merge_two,
    number_runs,
    running_greatest,
    running_maximum,
    source_rows,
)
from riprap.operators.kernels.rings import expire, insert_all, move_rings, plan_room, positions_of
from riprap.operators.kernels.selecting import by_part

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT") == "1"
ROUNDS = 5 if INTERPRETED else 60

pytestmark = pytest.mark.filterwarnings("ignore:.* encountered:RuntimeWarning")  # interpreted, NumPy speaks up

HARD = [
    [1e308, 1e308, -1e308],  # passes the largest double on the way
    [1e308, 1e308],  # and stays beyond it
    [-1.7976931348623157e308, -1e292],
    [1.7976931348623157e308, 9.9e291],  # just not far enough to overflow
    [5e-324] * 7,
    [2.2250738585072014e-308, -5e-324],
    [1e16, 1.0, -1e16],
    [1.0, 1e100, 1.0, -1e100],
    [0.1] * 10,
    [9007199254740992.0, 1.0],  # ties to even
    [9007199254740994.0, 1.0],
    [9007199254740992.0, 1.0, 5e-324],  # a hair above the tie
    [9007199254740992.0, 1.0, -5e-324],
    [-0.0, -0.0],
    [0.0],
    [math.inf, 1.0],
    [math.inf, -math.inf],
    [math.nan, 1.0],
    [-math.inf, 1e308, 1e308],
]


def one_ring(values):
    """Values as the one window of one group."""
    column = np.zeros(max(4, 2 ** math.ceil(math.log2(max(1, len(values))))), np.array(values).dtype)
    column[: len(values)] = values
    return column, np.zeros(1, np.int64), np.array([len(column)], np.int64)


def same(x, y):
    return (math.isnan(x) and math.isnan(y)) or x == y


@pytest.mark.parametrize("values", HARD)
def test_sums_are_exact(values):
    column, base, cap = one_ring(values)
    valid = np.empty(0, np.uint8)
    zero, hi = np.zeros(1, np.int64), np.array([len(values)])
    direct, some = sum_floats(column, valid, base, cap, zero, zero, hi)
    slid, _ = sum_floats_sliding(column, valid, base, cap, zero, zero, hi, zero)
    assert some[0]
    assert same(direct[0], total(values)), direct
    assert same(slid[0], total(values)), slid
    assert math.copysign(1, direct[0]) == math.copysign(1, slid[0]) or math.isnan(direct[0])


def doubles(rng, count):
    """Of all magnitudes, with many that cancel."""
    out = []
    while len(out) < count:
        x = math.ldexp(
            rng.uniform(-1, 1), rng.choice([0, 1, 5, 53, 54, -53, 200, -1070, 900, rng.randint(-1074, 1020)])
        )
        out += [x] if rng.random() < 0.6 else [x, -x * rng.choice([1, 1, 0.5, 1 + 2**-52])]
    rng.shuffle(out)
    return out[:count]


def test_random_sums_are_exact():
    rng = random.Random(1)
    for _ in range(ROUNDS * 20):
        values = doubles(rng, rng.randint(1, 12))
        column, base, cap = one_ring(values)
        zero, hi = np.zeros(1, np.int64), np.array([len(values)])
        out, _ = sum_floats(column, np.empty(0, np.uint8), base, cap, zero, zero, hi)
        assert out[0] == total(values), values


def test_adding_and_taking_away_leaves_nothing():
    rng = random.Random(2)
    limbs = np.zeros(LIMBS, np.int64)
    values = doubles(rng, 50)
    for x in values:
        accumulate(limbs, x, 1)
    assert rounded(limbs) == total(values)
    for x in reversed(values):
        accumulate(limbs, x, -1)
    assert rounded(limbs) == 0.0
    assert not limbs.any()


INTEGERS = [[0, 1, -7, 2**62, -(2**62)], [2**63 - 1, -(2**63), 1, -1], [2**32 - 1, -(2**32), 2**58 - 1, -(2**58)]]


def sliding_windows(rng):
    """Emissions over windows of several groups that move forward, and the order group by group."""
    groups = rng.randint(1, 3)
    cap = np.full(groups, 256, np.int64)
    base = np.arange(groups, dtype=np.int64) * 256
    at = [[0, 0] for _ in range(groups)]
    who, lo, hi = [], [], []
    for _ in range(rng.randint(1, 40)):
        g = rng.randrange(groups)
        at[g][1] += rng.randint(1, 6)
        at[g][0] = min(at[g][1] - 1, at[g][0] + rng.choice([0, 0, 1, 3, 40]))
        who.append(g), lo.append(at[g][0]), hi.append(at[g][1])
    ranges = [np.array(part, np.int64) for part in (who, lo, hi)]
    return base, cap, *ranges, np.argsort(ranges[0], kind="stable")


@pytest.mark.parametrize("floats", [True, False])
def test_sliding_gives_what_reading_every_window_gives(floats):
    rng = random.Random(3)
    for _ in range(ROUNDS):
        base, cap, who, lo, hi, order = sliding_windows(rng)
        size = len(base) * 256
        pool = [0.0, -0.0, 1.5, 1e300, -1e300, math.nan, math.inf, 1e-300] if floats else rng.choice(INTEGERS)
        column = np.array([rng.choice(pool) for _ in range(size)], np.float64 if floats else np.int64)
        valid = (
            np.array([rng.random() < 0.8 for _ in range(size)], np.uint8) if rng.random() < 0.5 else np.empty(0, "u1")
        )
        ranges = (base, cap, who, lo, hi)
        windows = [
            [
                column[p].item() if not len(valid) or valid[p] else None
                for p in (int(base[g]) + (a & 255) for a in range(a0, a1))
            ]
            for g, a0, a1 in zip(who, lo, hi, strict=True)
        ]
        if floats:
            results = [sum_floats(column, valid, *ranges), sum_floats_sliding(column, valid, *ranges, order)]
        else:
            results = [sum_integers(column, valid, *ranges), sum_integers_sliding(column, valid, *ranges, order)]
            sums = [sum(x for x in window if x is not None) for window in windows]
            beyond = any(not -(2**63) <= s < 2**63 for s in sums)
            assert [r[2] for r in results] == [beyond, beyond]
            if beyond:
                results = []
        for values, some, *_ in results:
            for e, window in enumerate(windows):
                expected = evaluate("sum", window)
                assert bool(some[e]) == (expected is not None)
                assert expected is None or same(values[e], expected)
        for largest in (True, False):
            for values, some in (
                extremes(column, valid, *ranges, largest),
                extremes_sliding(column, valid, *ranges, largest, order),
            ):
                for e, window in enumerate(windows):
                    expected = evaluate("max" if largest else "min", window)
                    assert bool(some[e]) == (expected is not None)
                    # The oldest of equals, so that 0.0 and -0.0 do not depend on the way.
                    assert expected is None or repr(values[e].item()) == repr(expected)
        if len(valid):
            found = count_values(valid, *ranges)
            assert found.tolist() == [sum(x is not None for x in window) for window in windows]


def test_rings_move_without_losing_rows():
    rng = random.Random(4)
    for _ in range(ROUNDS):
        base, cap, head, tail, scratch = (np.zeros(3, np.int64) for _ in range(5))
        column, used = np.full(4096, -1, np.int64), 0
        model: list[list[int]] = [[], [], []]
        number = 0
        for _ in range(12):
            groups = np.array([rng.choice([-1, 0, 1, 2]) for _ in range(rng.randint(0, 9))], np.int64)
            moves, used = plan_room(groups, base, cap, head, tail, used, scratch)
            assert not scratch.any()
            move_rings(column, moves, head, tail)
            positions = insert_all(groups, base, cap, tail)
            for g, p in zip(groups, positions, strict=True):
                if g >= 0:
                    column[p] = number
                    model[g].append(number)
                    number += 1
                else:
                    assert p == -1
            before = rng.randint(0, number)
            expire(np.array([0, 1, 2]), column, base, cap, head, tail, before)
            model = [[n for n in rows if n > before] for rows in model]
            everyone = np.arange(3)
            found = column[positions_of(everyone, head, tail, base, cap)].tolist()
            assert found == [n for rows in model for n in rows]


def test_merging():
    rng = random.Random(5)
    for _ in range(ROUNDS):
        ports = [sorted(rng.randint(0, 9) for _ in range(rng.randint(0, 8))) for _ in range(3)]
        expected = sorted((x, p) for p, xs in enumerate(ports) for x in xs)
        starts = np.cumsum([0, *map(len, ports)])
        keys = np.array([[0, x, -x] for xs in ports for x in xs], np.int64).reshape(-1, 3)
        keys[:, 2] = 0
        merged = merge_many(keys, starts)
        assert merged.tolist() == [p for _, p in expected]
        flat = [x for xs in ports for x in xs]
        assert [flat[r] for r in source_rows(merged, starts[:-1])] == [x for x, _ in expected]
        pair = [sorted(set(xs)) for xs in ports[:2]] if rng.random() < 0.7 else [[1, 4, 5], [2, 3, 6]]
        two = merge_two(np.array(pair[0], np.int64), np.array(pair[1], np.int64))
        assert two.tolist() == [p for _, p in sorted((x, p) for p in (0, 1) for x in pair[p])]


def test_numbering_and_running_maximum():
    ts, src, seq = np.array([1, 1, 1, 2]), np.zeros(1, np.int64), np.array([4, 4, 5, 5])
    out = np.empty(4, np.int64)
    assert number_runs(ts, src, seq, 1, 0, 4, 7, out) == 1
    assert out.tolist() == [7, 8, 0, 0]
    assert running_maximum(np.array([3, 9, 1, 4, 12]), 5, out := np.empty(5, np.int64)) == 12
    assert out.tolist() == [5, 9, 9, 9, 12]


def test_running_greatest():
    rows = np.array([[1, 5], [1, 4], [2, 0], [1, 9], [2, 1]])
    running_greatest(rows, np.array([1, 4]))
    assert rows.tolist() == [[1, 5], [1, 5], [2, 0], [2, 0], [2, 1]]


def test_groups_of_words_and_strings():
    rng = random.Random(6)
    slots, keys = np.full(128, -1, np.int64), np.empty((64, 2), np.int64)
    number_of: dict[tuple, int] = {}
    count = 0
    for _ in range(3):
        rows = np.array([[rng.randint(-3, 3), rng.randint(0, 1)] for _ in range(10)], np.int64)
        out = np.empty(10, np.int64)
        count = groups_by_words(rows, slots, keys, count, out)
        assert out.tolist() == [number_of.setdefault(tuple(row), len(number_of)) for row in rows.tolist()]
    assert count == len(number_of)
    fresh = np.full(256, -1, np.int64)
    rehash_words(fresh, keys, count)
    again = np.empty(count, np.int64)
    assert groups_by_words(keys[:count].copy(), fresh, keys, count, again) == count
    assert again.tolist() == list(range(count))

    words = ["a", "ä", "", "a much longer string", "a"]
    data = np.frombuffer("".join(words).encode(), np.uint8)
    offsets = np.cumsum([0, *(len(word.encode()) for word in words)]).astype(np.int32)
    table, hashes = np.full(16, -1, np.int64), np.zeros(8, np.uint64)
    pool_offsets, pool, ids = np.zeros(9, np.int32), np.zeros(64, np.uint8), np.empty(5, np.int64)
    assert intern(offsets, data, table, hashes, pool_offsets, pool, 0, ids) == 4
    assert ids.tolist() == [0, 1, 2, 3, 0]
    assert pool[pool_offsets[1] : pool_offsets[2]].tobytes().decode() == "ä"
    rehashed = np.full(32, -1, np.int64)
    rehash_strings(rehashed, hashes, 4)
    assert intern(offsets, data, rehashed, hashes, pool_offsets, pool, 4, ids) == 4


def test_groups_of_codes():
    lut, ids, group_of_id = np.full(3, -1, np.int64), np.array([5, 6]), np.full(8, -1, np.int64)
    state, out, new = np.array([2, -1]), np.empty(4, np.int64), np.empty(3, np.int64)
    codes, valid = np.array([1, 0, 0, 1], np.int8), np.array([1, 1, 0, 1], np.uint8)
    groups_by_code(codes, valid, lut, ids, group_of_id, state, out, new)
    assert out.tolist() == [2, 3, 4, 2]
    assert state.tolist() == [5, 4]
    assert new.tolist() == [6, 5, -1]


def test_hashes_never_change():
    """Files keep them: a change here makes old state unreadable."""
    data = np.frombuffer("riprap, Steinschüttung".encode(), np.uint8)
    assert int(mix(np.uint64(1))) == 0x5692161D100B05E5
    assert int(hash_bytes(data, 0, len(data))) == 0xB5D70B43C94CF633
    out = np.full(2, SEED, np.uint64)
    hash_words(np.array([7, -7]), np.array([1, 0], np.uint8), out)
    assert out.tolist() == [0x73C766B0DAB6D907, 0x46D06A767C5D038E]


@pytest.mark.parametrize(("width", "bound"), [(1, 4), (3, 10), (5, 3), (1, 0)])
def test_arrivals_are_within_the_bound_and_do_not_see_other_tuples(width, bound):
    due = np.arange(-200, 300)
    out = np.empty(len(due), np.int64)
    stalled_until(np.uint64(5), due, width, bound, out)
    waits = set((out - due).tolist())
    assert min(waits) == 0
    assert max(waits) == bound
    assert (np.diff(out) >= 0).all()
    some = np.flatnonzero(np.arange(len(due)) % 7 == 3)
    alone = np.empty(len(some), np.int64)
    stalled_until(np.uint64(5), due[some], width, bound, alone)
    assert alone.tolist() == out[some].tolist()


def test_rows_by_part():
    chance = random.Random(5)
    for count, parts in ((0, 0), (0, 3), (1, 1), (200, 7)):
        part = np.array([chance.randrange(parts) for _ in range(count)], np.int32)
        order, first = by_part(part, parts)
        expected = [[row for row in range(count) if part[row] == p] for p in range(parts)]
        assert [order[first[p] : first[p + 1]].tolist() for p in range(parts)] == expected
        assert len(order) == count
