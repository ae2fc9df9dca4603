"""Ranks within one short window, the tables of window tracking, and a running maximum, each against plain Python."""

import random
import statistics

import numpy as np
import pytest

from riprap.operators.kernels.ranks import distinct_in, percentile_in
from riprap.operators.kernels.window_tracking import claim, distinct, nth_rows
from riprap_papers.workloads.nexmark_5 import _raise

ROUNDS = 60


def windows(seed):
    """A ring of 16 places at an offset of 8, a range of insertion indices, and what the range holds (None: null)."""
    draw = random.Random(seed)
    column = np.array([draw.choice([0.0, -1.5, 2.25, 7.0, draw.uniform(-9, 9)]) for _ in range(24)])
    valid = np.array([draw.random() < 0.8 for _ in range(24)]) if draw.random() < 0.7 else np.empty(0, np.bool_)
    lo = draw.randrange(100)
    hi = lo + draw.randrange(17)
    places = [8 + (index & 15) for index in range(lo, hi)]
    values = [float(column[p]) for p in places if not len(valid) or valid[p]]
    return column, valid, lo, hi, values


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_distinct_values_and_percentiles(seed):
    column, valid, lo, hi, values = windows(seed)
    assert distinct_in(column, valid, 8, 15, lo, hi) == len(set(values))
    assert percentile_in(column, valid, 8, 15, lo, hi, 0.0) == min(values, default=0.0)
    assert percentile_in(column, valid, 8, 15, lo, hi, 1.0) == max(values, default=0.0)
    expected = statistics.median(values) if values else 0.0
    assert percentile_in(column, valid, 8, 15, lo, hi, 0.5) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_distinct_groups_and_their_rows(seed):
    draw = random.Random(seed)
    groups = np.array([draw.randrange(-1, 6) for _ in range(draw.randrange(30))], np.int64)
    marks, slots = np.zeros(6, np.int64), np.full(6, -1, np.int64)
    found = distinct(groups, marks, 7, slots).tolist()
    assert found == list(dict.fromkeys(g for g in groups.tolist() if g >= 0))
    assert [slots[g] for g in found] == list(range(len(found)))
    assert {g for g in range(6) if marks[g] == 7} == set(found)
    skips = np.array([draw.randrange(4) for _ in found], np.int64)
    expected = []
    for group, skip in zip(found, skips.tolist(), strict=True):
        rows = np.flatnonzero(groups == group).tolist()
        expected.append(rows[skip] if skip < len(rows) else -1)
    assert nth_rows(groups, slots, skips).tolist() == expected


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_places_of_hashes(seed):
    draw = random.Random(seed)
    pool = [draw.getrandbits(64) for _ in range(9)] + [draw.randrange(4) for _ in range(3)]  # the small ones collide
    table, places, count, known = np.full(16, -1, np.int64), np.zeros(12, np.uint64), 0, {}
    for _ in range(3):
        hashes = [draw.choice(pool) for _ in range(draw.randrange(12))]
        add = draw.random() < 0.7
        out, count = claim(np.array(hashes, np.uint64), table, places, count, add)
        expected = [known.setdefault(h, len(known)) if add else known.get(h, -1) for h in hashes]
        assert (out.tolist(), count) == (expected, len(known))


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_rows_that_raise_the_highest(seed):
    draw = random.Random(seed)
    highest, best = np.zeros(4, np.int64), [0] * 4
    rows = [(draw.randrange(4), draw.randrange(6)) for _ in range(20)]
    raised = _raise(highest, np.array([r[0] for r in rows]), np.array([r[1] for r in rows]))
    for (at, value), found in zip(rows, raised.tolist(), strict=True):
        assert found == (value > best[at])
        best[at] = max(best[at], value)
    assert highest.tolist() == best
