"""Estimates with confidence intervals, and when to stop replicating."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.stats import t as student

from riprap.base.errors import UsageError


@dataclass(frozen=True)
class Estimate:
    """The mean of a reward over replications, and the interval that holds its expectation with the asked confidence."""

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
    """Replicate until every reward's half-width is at most `relative` of its mean; at least and at most so many
    times.
    """

    confidence: float = 0.95
    relative: float = 0.05
    minimum: int = 100
    maximum: int = 10_000

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise UsageError(f"a confidence of {self.confidence:g} cannot be: give one between 0 and 1, as in 0.95")
        if not self.relative > 0:
            raise UsageError(f"a relative half-width of {self.relative:g} cannot be reached: give a positive one")
        if not 2 <= self.minimum <= self.maximum:
            raise UsageError(
                f"from {self.minimum} to {self.maximum} replications: "
                "at least 2 are needed, and the maximum cannot be below the minimum"
            )


def estimate(values: np.ndarray, confidence: float = 0.95) -> Estimate:
    """Student's interval; a single value has none and gives itself as bounds."""
    count = len(values)
    mean = float(np.mean(values))
    deviation = float(np.std(values, ddof=1)) if count > 1 else 0.0
    half = float(student.ppf(0.5 + confidence / 2, count - 1)) * deviation / sqrt(count) if count > 1 else 0.0
    return Estimate(mean, mean - half, mean + half, deviation, count)


def enough(rows: np.ndarray, precision: Precision) -> bool:
    """Whether every column of `rows` is known precisely enough, or the maximum is reached."""
    if len(rows) < precision.minimum:
        return False
    if len(rows) >= precision.maximum:
        return True
    estimates = (estimate(rows[:, column], precision.confidence) for column in range(rows.shape[1]))
    return all(each.half_width <= precision.relative * abs(each.mean) for each in estimates)


def next_wave(done: int, precision: Precision) -> int:
    """How many replications to add: the minimum first, then half as many again as are done."""
    wave = precision.minimum if done == 0 else max(1, done // 2)
    return min(wave, precision.maximum - done)
