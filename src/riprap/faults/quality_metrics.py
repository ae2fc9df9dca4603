"""The four metrics of an operator and their parts: pure functions over arrays of scores.

Shapes: i = stream offset, j = outage, k = repetition, l = golden run, t = section. Scores are values of the output
score function. A quality score is faulty over golden, each averaged over its runs first.

    C  outage-duration impact: Spearman's rank correlation of tuples lost and quality score, mean over i
    D  data dependency: standard deviation (n − 1) of the quality score over offsets, and one-way ANOVA at α = 0.05
    R  recovery time: index (from 1) of the first section up to which a share P of the erroneous sections lie,
       maximum over i
    I  quality impact: sum of squared errors of the erroneous sections up to R, maximum over i

If only overestimates count, R and I treat a negative error as 0.

Degenerate cases: a constant quality score has no rank correlation: C = 0. All groups equal: D is accepted; groups that
differ without variation inside: rejected; an infinite quality score: D = ∞, rejected. No erroneous section: R = I = 0.
An error is |faulty − golden| / |golden|, with 0/0 = 0 and x/0 = 1 (the section is *flagged*: its error has no size). A
corrupted bit can make a score infinite or NaN: then its quality is ∞, and its error is 1 and flagged.
"""

from dataclasses import dataclass
from math import comb
from typing import Literal, NamedTuple

import numpy as np
from scipy import stats

ALPHA = 0.05
CONFIDENCE = 0.95


class Interval(NamedTuple):
    low: float
    high: float


@dataclass(frozen=True)
class Errors:
    """Errors of the sections from the fault onwards, averaged over repetitions: one array per offset."""

    error: np.ndarray
    flagged: np.ndarray  # bool: golden is 0 and faulty is not


def quality_scores(faulty: np.ndarray, golden: np.ndarray) -> np.ndarray:
    """Faulty over golden, with 0/0 = 1 (no output expected, none found), x/0 = inf and NaN → inf."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(golden == 0, np.where(faulty == 0, 1.0, np.inf), faulty / golden)
    return np.where(np.isfinite(ratio), ratio, np.inf)


def outage_impact(lost: np.ndarray, scores: np.ndarray) -> float:
    """C, from the tuples lost in each outage [i, j] and the quality scores [i, j]."""
    return float(np.mean([_spearman(n, qs) for n, qs in zip(lost, scores, strict=True)]))


def _spearman(x: np.ndarray, y: np.ndarray) -> float:
    if len(x) < 2 or np.ptp(x) == 0 or not np.isfinite(y).all() or np.ptp(y) == 0:
        return 0.0
    return float(stats.spearmanr(x, y).statistic)


def data_dependency(scores: np.ndarray) -> tuple[float, Literal["A", "R"]]:
    """D, from the quality scores [i, k] under one outage."""
    if not np.isfinite(scores).all():
        return np.inf, "R"
    means = scores.mean(axis=1)
    sigma = float(np.std(means, ddof=1)) if len(means) > 1 else 0.0
    return sigma, "R" if _differs(scores) else "A"


def _differs(groups: np.ndarray) -> bool:
    """Whether a one-way analysis of variance rejects that all groups have the same mean."""
    count, size = groups.shape
    if count < 2 or np.ptp(groups) <= 1e-12 * max(1.0, np.abs(groups).max()):
        return False
    means = groups.mean(axis=1)
    between = size * float(((means - groups.mean()) ** 2).sum())
    within = float(((groups - means[:, None]) ** 2).sum())
    if size < 2:
        return False  # one repetition has no variation within a group
    if within <= 1e-24 * max(1.0, between):
        return True
    ratio = (between / (count - 1)) / (within / (count * (size - 1)))
    return bool(stats.f.sf(ratio, count - 1, count * (size - 1)) < ALPHA)


def section_errors(faulty: np.ndarray, golden: np.ndarray, *, signed: bool = False) -> Errors:
    """Errors by section, from scores [run, t] of faulty and of golden runs (averaged over runs first).

    `signed` keeps the sign: positive if the app overestimates.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        faulty_mean, golden_mean = faulty.mean(axis=0), golden.mean(axis=0)
        off = faulty_mean - golden_mean
        error = np.where(golden_mean == 0, np.where(off == 0, 0.0, np.sign(off)), off / np.abs(golden_mean))
    sizeless = ~np.isfinite(error)
    flagged = (golden_mean == 0) & (off != 0) | sizeless
    error = np.where(sizeless, np.where(error < 0, -1.0, 1.0), error)
    return Errors(error if signed else np.abs(error), flagged)


def counted(error: np.ndarray, which: Literal["absolute", "over"]) -> np.ndarray:
    """Signed errors as R and I count them: with "over", underestimates are 0."""
    return np.maximum(error, 0.0) if which == "over" else error


def recovery_time(error: np.ndarray, threshold: float, share: float) -> int:
    """R of one offset."""
    erroneous = np.cumsum(np.abs(error) > threshold)
    if not len(erroneous) or erroneous[-1] == 0:
        return 0
    # Slightly below the share, so that 90 % of 10 sections are 9 despite rounding.
    return int(np.searchsorted(erroneous, share * erroneous[-1] - 1e-9)) + 1


def quality_impact(error: np.ndarray, threshold: float, until: int, *, signed: bool = False) -> float:
    """I of one offset: squared errors beyond the threshold in the first `until` sections.

    With `signed`, underestimates are negative, so the sum shows the direction of the error.
    """
    counted = error[:until][np.abs(error[:until]) > threshold]
    return float((np.sign(counted) * counted**2 if signed else counted**2).sum())


def interval(samples: np.ndarray) -> Interval | None:
    """A confidence interval of the mean (Student); None for fewer than two samples."""
    if len(samples) < 2 or not np.isfinite(samples).all():
        return None
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(samples) - 1)) * float(stats.sem(samples))
    mean = float(np.mean(samples))
    return Interval(mean - half, mean + half)


def can_tell(golden: int, faulty: int) -> bool:
    """Whether these numbers of scores can differ significantly: if all golden ones are below all faulty ones."""
    return 2 / comb(golden + faulty, faulty) < ALPHA


def sensitive(golden: np.ndarray, faulty: np.ndarray) -> bool:
    """Whether faulty local scores have a different distribution from golden ones (Kolmogorov–Smirnov at α = 0.05)."""
    if len(golden) < 2 or len(faulty) < 1 or np.ptp(np.concatenate([golden, faulty])) == 0:
        return False
    golden, faulty = (np.where(np.isnan(scores), np.inf, scores) for scores in (golden, faulty))
    return bool(stats.ks_2samp(golden, faulty).pvalue < ALPHA)


def fitted_line(x: np.ndarray, y: np.ndarray) -> tuple[float, float] | None:
    """Slope and intercept of the least-squares line."""
    if len(x) < 2 or np.ptp(x) == 0 or not np.isfinite(y).all():
        return None
    slope, intercept = np.polyfit(x, y, 1)
    return float(slope), float(intercept)
