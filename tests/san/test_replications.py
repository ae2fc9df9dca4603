"""Replications: the same numbers whoever runs them, and as many as the wanted precision needs."""

import numpy as np
import pytest
from tests.san.test_accelerated import GRID

from riprap.base.errors import UsageError
from riprap.san.replicate import ReplicationShare, cut, in_threads, replicate
from riprap.san.statistics import Precision, enough, estimate, next_wave


class Coin:
    """Rewards whose distribution is known: independent of who asks, as every job is."""

    names = ("heads", "constant")
    piece = 7

    def rows(self, first, count):
        return np.array(
            [[float((replication * 2654435761 >> 7) % 2), 3.0] for replication in range(first, first + count)]
        )


def test_interval_covers_the_mean_as_often_as_it_says():
    rng = np.random.Generator(np.random.Philox(key=5))
    hits = 0
    for _ in range(2000):
        found = estimate(rng.exponential(2.0, 60))
        hits += found.low <= 2.0 <= found.high
    assert 0.92 < hits / 2000 < 0.97


def test_stops_when_precise_enough_and_not_before():
    (result,) = replicate([Coin()], Precision(0.95, 0.05, 50, 100_000), in_threads(2))
    heads = result.estimates["heads"]
    assert heads.half_width <= 0.05 * heads.mean
    assert not enough(result.rows[: len(result.rows) * 2 // 3], Precision(0.95, 0.05, 50, 100_000))
    assert result.estimates["constant"].half_width == 0


def test_minimum_and_maximum():
    (result,) = replicate([Coin()], Precision(0.95, 1e-9, 20, 55), in_threads(1))
    assert len(result.rows) == 55
    assert next_wave(0, Precision(minimum=30)) == 30
    assert next_wave(40, Precision(minimum=20, maximum=50)) == 10


@pytest.mark.parametrize(
    "options", [{"confidence": 1.0}, {"relative": 0.0}, {"minimum": 1}, {"minimum": 9, "maximum": 8}]
)
def test_bad_precision(options):
    with pytest.raises(UsageError):
        Precision(**options)


def test_pieces_cover_everything_once():
    assert cut(3, 10, 9, 4) == [ReplicationShare(3, 10, 4), ReplicationShare(3, 14, 4), ReplicationShare(3, 18, 1)]


def test_result_does_not_depend_on_tasks(spark):
    from riprap.spark.replications import on_spark

    told = []
    jobs = [GRID["checkpoint, rare"].job(seed=5), GRID["groups, frequent"].job(seed=6)]
    precision = Precision(0.95, 0.2, 40, 400)
    expected = replicate(jobs, precision, in_threads(2))
    for tasks in (1, 3):
        runner = on_spark(spark, lambda done, total: told.append((done, total)), tasks)
        for found, wanted in zip(replicate(jobs, precision, runner), expected, strict=True):
            np.testing.assert_array_equal(found.rows, wanted.rows)
    assert told
    assert told[-1][0] == told[-1][1]
