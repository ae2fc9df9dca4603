"""The confidence of the order of operators, and whether the score is stable enough.

Order: a bootstrap over the random choices of a campaign, the offsets and the repetitions. Each draw samples as many
offsets and repetitions with replacement, the same for all targets, and recomputes R and I under the decisive outage.
The confidence that one operator ranks above another is the share of draws in which it does; a tie counts half.

Stability: the score of a section varies over golden runs, which differ only in jitter. If it varies by more than the
threshold for erroneous sections, errors of that size cannot be told from jitter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from riprap.base.randomness import generator
from riprap.faults import quality_metrics as metrics
from riprap.faults.campaign_settings import CampaignSettings
from riprap.faults.campaign_summary import TargetSummary

DRAWS = 300
_EDGES = (2.5, 97.5)  # percentiles


@dataclass(frozen=True)
class RankedOperator:
    """One operator in the order by one metric."""

    target: str
    value: float
    low: float  # 95 % of the draws
    high: float
    above_next: float | None  # share of draws in which it is above the next one; None for the last


@dataclass(frozen=True)
class MetricOrder:
    metric: str  # "R" or "I"
    places: tuple[RankedOperator, ...]  # highest first
    whole: float  # share of draws in which the whole order holds

    def sentence(self) -> str:
        parts = [
            place.target if place.above_next is None else f"{place.target} ({place.above_next:.0%}) >"
            for place in self.places
        ]
        return f"{' '.join(parts)}; the whole order in {self.whole:.0%} of {DRAWS} draws"


def orders(settings: CampaignSettings, summaries: Sequence[TargetSummary], sink: str) -> dict[str, MetricOrder]:
    """By metric, for one sink."""
    at_sink = [summary for summary in summaries if summary.sink == sink]
    chance = generator(settings.seed, "order", sink)
    offsets, reps = len(settings.offsets), settings.reps
    drawn = np.empty((2, DRAWS, len(at_sink)))
    for draw in range(DRAWS):
        chosen, repeated = chance.integers(0, offsets, offsets), chance.integers(0, reps, reps)
        for number, summary in enumerate(at_sink):
            drawn[:, draw, number] = _metrics(settings, summary, np.unique(chosen), repeated)
    values = {"R": [float(s.paired.R) for s in at_sink], "I": [s.paired.I for s in at_sink]}
    return {
        metric: _order(metric, [s.target for s in at_sink], values[metric], drawn[number])
        for number, metric in enumerate(("R", "I"))
    }


def _metrics(
    settings: CampaignSettings, summary: TargetSummary, offsets: np.ndarray, reps: np.ndarray
) -> tuple[float, float]:
    recoveries = []
    for offset in offsets.tolist():
        faulty, golden = summary.sections[offset]
        error = metrics.section_errors(faulty[reps], golden[reps], signed=True).error
        error = metrics.counted(error, settings.errors)
        until = metrics.recovery_time(error, settings.threshold, settings.percentile)
        recoveries.append((until, metrics.quality_impact(error, settings.threshold, until, signed=settings.signed)))
    return float(max(until for until, _ in recoveries)), max((impact for _, impact in recoveries), key=abs)


def _order(metric: str, targets: Sequence[str], values: Sequence[float], drawn: np.ndarray) -> MetricOrder:
    ranked = sorted(range(len(targets)), key=lambda number: -values[number])
    places = []
    for at, number in enumerate(ranked):
        low, high = np.percentile(drawn[:, number], _EDGES)
        above = None
        if at + 1 < len(ranked):
            gap = drawn[:, number] - drawn[:, ranked[at + 1]]
            above = float(np.mean((gap > 0) + 0.5 * (gap == 0)))
        places.append(RankedOperator(targets[number], values[number], float(low), float(high), above))
    in_order = np.all(np.diff(drawn[:, ranked], axis=1) <= 0, axis=1)
    return MetricOrder(metric, tuple(places), float(np.mean(in_order)))


def spread(golden: pa.Table) -> dict[str, float]:
    """By sink: relative standard deviation of a section's score over golden runs; median over sections."""
    rows: dict[str, list[list[float]]] = {}
    for row in golden.to_pylist():
        rows.setdefault(row["sink"], []).append(row["sections"])
    spreads = {}
    for sink, runs in rows.items():
        scores = np.array(runs)  # [run, section]
        mean = np.abs(scores.mean(axis=0))
        off = np.std(scores, axis=0, ddof=1) if len(scores) > 1 else np.zeros(scores.shape[1])
        share = off[mean > 0] / mean[mean > 0]
        spreads[sink] = float(np.median(share)) if len(share) else 0.0
    return spreads


def unsteady(settings: CampaignSettings, spreads: Mapping[str, float]) -> list[str]:
    """A warning for each sink whose score is not stable."""
    return [
        f"The score of {sink} is not stable: golden runs, which differ only in jitter, differ by {share:.1%} in a "
        f"typical section, and above {settings.threshold:.1%} a section counts as wrong. Choose another score "
        "function, longer sections or a higher threshold before you rely on these figures."
        for sink, share in spreads.items()
        if share > settings.threshold
    ]
