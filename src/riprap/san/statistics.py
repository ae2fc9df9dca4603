"""Estimates with confidence intervals, and when to stop replicating."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.stats import t as student

from riprap.base.errors import UsageError


@dataclass(frozen=True)
class Estimate:
    """The mean of a reward over replications, with its confidence interval."""

    mean: float
    low: float
    high: float
    deviation: float  # of single replications
    replications: int

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Precision:
    """Replicate until every reward's half-width is `relative` of its mean or less; `minimum` to `maximum` times."""

    confidence: float = 0.95
    relative: float = 0.05
    minimum: int = 100
    maximum: int = 10_000

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise UsageError(
                f"a confidence of {self.confidence:g} is impossible: give one between 0 and 1, such as 0.95"
            )
        if not self.relative > 0:
            raise UsageError(f"a relative half-width of {self.relative:g} cannot be reached: give a positive one")
        if not 2 <= self.minimum <= self.maximum:
            raise UsageError(
                f"from {self.minimum} to {self.maximum} replications: "
                "at least 2 are needed, and the maximum cannot be below the minimum"
            )


def estimate(values: np.ndarray, confidence: float = 0.95) -> Estimate:
    """Student's interval; for a single value, the value itself is both bounds."""
    count = len(values)
    mean = float(np.mean(values))
    deviation = float(np.std(values, ddof=1)) if count > 1 else 0.0
    half = float(student.ppf(0.5 + confidence / 2, count - 1)) * deviation / sqrt(count) if count > 1 else 0.0
    return Estimate(mean, mean - half, mean + half, deviation, count)


def enough(rows: np.ndarray, precision: Precision) -> bool:
    """Whether every column of `rows` is precise enough, or the maximum is reached."""
    if len(rows) < precision.minimum:
        return False
    if len(rows) >= precision.maximum:
        return True
    estimates = (estimate(rows[:, column], precision.confidence) for column in range(rows.shape[1]))
    return all(reward.half_width <= precision.relative * abs(reward.mean) for reward in estimates)


def next_wave(done: int, precision: Precision) -> int:
    """Number of replications to add: the minimum first, then half of those done."""
    wave = precision.minimum if done == 0 else max(1, done // 2)
    return min(wave, precision.maximum - done)
