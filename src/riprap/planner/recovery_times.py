"""How long recoveries take, as distributions.

    recovery = detection + restart + restore + replay + catching up

    restore      bytes of state / measured speed
    replay       the input since the last durable checkpoint, uniform over the interval, at the measured speed
    catching up  behind the input that has come meanwhile, at the same speed

Only an element that reads its input again replays and catches up. Parts that were measured have a log-normal
distribution, fitted to the samples: the interval of a few samples is wider than their range.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from riprap.base.quantities import LONGEST, Duration
from riprap.base.randomness import generator
from riprap.planner.measured import Measured, Quantiles

LEVELS = (0.05, 0.5, 0.95)
_DRAWS = 4_000
_LEAST_SPREAD = 0.12  # of the logarithm: machines are never steadier than this
_SHORTEST = 0.02  # seconds: shorter ones are not told apart by heartbeats
_POOLED = 3.0  # samples of its own that weigh as much as the common median
_FAR = 3.5  # standard deviations
_NORMAL_95 = 1.6449


@dataclass(frozen=True)
class RecoveryTime:
    """Microseconds: the 5th, 50th and 95th percentile; and the worst case: every part takes its 95th percentile at
    once, and the failure comes just before a checkpoint becomes durable."""

    low: int
    middle: int
    high: int
    worst: int

    @property
    def levels(self) -> tuple[int, int, int]:
        return self.low, self.middle, self.high


def fitted(samples: Sequence[float], common: Sequence[float] = ()) -> Quantiles:
    """The 90 % prediction interval of the next value. `common`: samples of all operators, towards whose median few
    samples of one operator are drawn."""
    everything = np.log(np.maximum(common or samples, _SHORTEST))
    own = np.log(np.maximum(samples, _SHORTEST)) if samples else everything
    middle = (own.sum() + _POOLED * everything.mean()) / (len(own) + _POOLED) if len(samples) else everything.mean()
    count = len(everything)
    spread = max(_spread(everything), _LEAST_SPREAD)
    reach = float(student.ppf(LEVELS[2], max(count - 1, 2))) * spread * (1 + 1 / count) ** 0.5
    return Quantiles(*(float(np.exp(middle + side * reach)) for side in (-1, 0, 1)))


def _spread(values: np.ndarray) -> float:
    """The standard deviation, to which a value that is far from all others counts as one that is just outside."""
    if len(values) < 2:
        return 0.0
    middle = float(np.median(values))
    usual = max(1.4826 * float(np.median(np.abs(values - middle))), _LEAST_SPREAD)
    near = np.clip(values, middle - _FAR * usual, middle + _FAR * usual)
    return float(near.std(ddof=1))


def recovery_time(
    measured: Measured, operator: str, interval: Duration | None, *, replayed: bool, speed: float = 1.0
) -> RecoveryTime:
    """`interval`: between checkpoints; None: nothing is restored. `speed`: seconds of data per second."""
    entry = measured.operators[operator]
    draws = generator(1, "recovery", operator)
    time = _drawn(measured.detection, draws) + _drawn(entry.restart, draws) + _drawn(measured.resume, draws)
    worst = measured.detection.high + entry.restart.high + measured.resume.high
    if interval is not None:
        time, worst = time + entry.state / entry.restore, worst + entry.state / entry.restore
    if replayed and interval is not None:
        rate, most = entry.rate * speed, entry.replay
        if rate >= most:
            return RecoveryTime(*[int(LONGEST)] * 4)
        age = draws.uniform(0.0, interval / 1e6, _DRAWS) + _drawn(entry.durable, draws)
        time = time + (age + time) * rate / (most - rate)
        worst = worst + (interval / 1e6 + entry.durable.high + worst) * rate / (most - rate)
    low, middle, high = np.quantile(time, LEVELS) * 1e6
    return RecoveryTime(round(low), round(middle), round(high), round(max(worst * 1e6, high)))


def _drawn(quantiles: Quantiles, draws: np.random.Generator) -> np.ndarray:
    """Log-normal on both sides of the median, each with its own spread."""
    low, middle, high = (max(part, 1e-6) for part in quantiles)
    normal = draws.standard_normal(_DRAWS)
    below, above = np.log(middle / low) / _NORMAL_95, np.log(high / middle) / _NORMAL_95
    found: np.ndarray = middle * np.exp(np.where(normal < 0, below, above) * normal)
    return found
