"""The ranks of operators by the damage of their failures, with confidence intervals, and the four metrics of each, from
the trials of a damage table.

The only random choice of these trials is the offset. So an interval is a bootstrap over offsets, the same for all
operators: 95 % of the draws lie in it. Operators without a difference share a rank.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from riprap.base.randomness import generator
from riprap.faults import quality_metrics as metrics
from riprap.faults.campaign_settings import CampaignSettings

SECTIONS = 20  # of the window of a sink
_DRAWS = 400
_EDGES = (2.5, 97.5)  # percentiles


class RankInterval(NamedTuple):
    """1 is the operator whose failure does most damage. 95 % of the draws rank it from `low` to `high`."""

    rank: int
    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.rank}" if self.low == self.high else f"{self.rank} ({self.low}–{self.high})"


class HarmTrial(NamedTuple):
    """One failure without protection, at one sink: scores of its window."""

    lost: int  # tuples of the sources in the outage
    faulty: float
    golden: float
    section_faulty: np.ndarray  # by section
    section_golden: np.ndarray


@dataclass(frozen=True)
class HarmMetrics:
    """C, D, R and I of an operator at a sink (`quality_metrics`); R and I after the longest outage."""

    operator: str
    sink: str
    C: float
    D: float
    R: int  # microseconds of event time
    I: float  # noqa: E741
    rank: RankInterval  # by I


@dataclass(frozen=True)
class HarmRanks:
    ranks: Mapping[str, RankInterval]  # by operator: by the share of rows that are wrong, at the sink that suffers most
    metrics: Sequence[HarmMetrics]


def ranked(samples: np.ndarray, fold: Callable[[np.ndarray], np.ndarray], seed: str) -> list[RankInterval]:
    """`samples`: [operator, offset]. `fold`: the number to rank by, from the samples of each operator."""
    offsets, draws = samples.shape[1], generator(1, "ranks", seed)
    drawn = np.array([_places(fold(samples[:, draws.integers(0, offsets, offsets)])) for _ in range(_DRAWS)])
    own = _places(fold(samples))
    low = np.percentile(drawn, _EDGES[0], axis=0, method="lower")
    high = np.percentile(drawn, _EDGES[1], axis=0, method="higher")
    return [
        RankInterval(int(at), int(min(least, at)), int(max(most, at)))
        for at, least, most in zip(own, low, high, strict=True)
    ]


def _places(values: np.ndarray) -> np.ndarray:
    """Of each value: one more than the number of greater ones."""
    return 1 + (values[None, :] > values[:, None]).sum(axis=1)


def harm_metrics(
    trials: Mapping[tuple[str, str], Sequence[Sequence[HarmTrial]]], windows: Mapping[str, int]
) -> list[HarmMetrics]:
    """`trials`: by operator and sink, of each offset and outage, the longest last."""
    found: list[HarmMetrics] = []
    for sink in dict.fromkeys(sink for _, sink in trials):
        at_sink = {name: rows for (name, other), rows in trials.items() if other == sink}
        parts = {name: [_recovered(row[-1]) for row in rows] for name, rows in at_sink.items()}
        impacts = np.array([[impact for _, impact in rows] for rows in parts.values()])
        ranks = ranked(impacts, lambda drawn: drawn.max(axis=1), sink)
        for (name, rows), rank in zip(at_sink.items(), ranks, strict=True):
            lost = np.array([[one.lost for one in row] for row in rows])
            faulty, golden = (np.array([[one[at] for one in row] for row in rows]) for at in (1, 2))
            quality = metrics.quality_scores(faulty, golden)
            until = max(section for section, _ in parts[name])
            found.append(HarmMetrics(
                name, sink, metrics.outage_impact(lost, quality), metrics.data_dependency(quality[:, -1:])[0],
                round(until * windows[sink] / SECTIONS), max(impact for _, impact in parts[name]), rank,
            ))  # fmt: skip
    return found


def _recovered(trial: HarmTrial) -> tuple[int, float]:
    """R, in sections, and I of one offset."""
    errors = metrics.section_errors(trial.section_faulty[None, :], trial.section_golden[None, :]).error
    until = metrics.recovery_time(errors, CampaignSettings.threshold, CampaignSettings.percentile)
    return until, metrics.quality_impact(errors, CampaignSettings.threshold, until)
