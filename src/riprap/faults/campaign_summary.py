"""Computes the metrics of each target from the tables of trials and golden runs.

Main figures are *paired*: repetition k is compared with golden run k, so that only the fault differs. *Unpaired*
figures compare with the mean of all golden runs, as published.

They are those of one outage, the *decisive* one: the longest. Faults that affect one tuple have equal lengths, and each
flips a different bit: there the outage with the largest effect is decisive.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from riprap.base.quantities import Duration
from riprap.faults import quality_metrics as metrics
from riprap.faults.campaign_settings import CampaignSettings, Target
from riprap.faults.models import STRIKES_ONCE
from riprap.faults.quality_metrics import Interval


@dataclass(frozen=True)
class Metrics:
    """The four metrics of one target."""

    C: float
    D: tuple[float, Literal["A", "R"]]
    R: int
    I: float  # noqa: E741 - its published name


@dataclass(frozen=True)
class OutageSummary:
    """One outage of a target, over all offsets and repetitions."""

    duration: Duration
    rate: str
    tuples: int  # lost; the maximum over offsets, which differ by at most one tuple
    quality: np.ndarray  # [offset], paired
    samples: np.ndarray  # [offset, rep], paired quality scores
    R: int
    I: float  # noqa: E741
    errors: Sequence[np.ndarray] = ()  # by offset: signed error of each section from the fault onwards
    recovery: Sequence[int] = ()  # by offset: R
    impact: Sequence[float] = ()  # by offset: I


@dataclass(frozen=True)
class TargetSummary:
    """The results of one target's trials at one sink."""

    target: str
    outcome: str  # of its state: lost, kept, checkpoint(AGE); or fail-over
    sink: str
    paired: Metrics
    unpaired: Metrics
    outages: Sequence[OutageSummary]  # fewest tuples first
    errors: Sequence[np.ndarray]  # by offset: signed error of each section from the fault onwards, decisive outage
    recovery: Sequence[int]  # by offset: R
    impact: Sequence[float]  # by offset: I
    impact_interval: Interval | None  # of I at the worst offset, over repetitions
    covered: float  # sections that the decisive outage covers
    flagged: int  # sections whose golden score is 0 and whose faulty score is not
    sensitive: bool  # whether the score of any section changes significantly (Kolmogorov–Smirnov)
    sections: Sequence[tuple[np.ndarray, np.ndarray]] = ()  # by offset: faulty and golden scores [rep, section]
    decides: int = -1  # index of the decisive outage

    @property
    def decisive(self) -> OutageSummary:
        return self.outages[self.decides]


def summarise(settings: CampaignSettings, trials: pa.Table, golden: pa.Table, tuples: int) -> list[TargetSummary]:
    """One entry per sink and target, in the order of the settings."""
    return [
        _Cube(settings, trials, golden, sink, target, number, tuples).summary()
        for sink in settings.scores
        for number, target in enumerate(settings.targets)
    ]


class _Cube:
    """The trials of one target at one sink, as arrays [offset, outage, rep]."""

    def __init__(
        self,
        settings: CampaignSettings,
        trials: pa.Table,
        golden: pa.Table,
        sink: str,
        target: Target,
        number: int,
        tuples: int,
    ) -> None:
        self.settings, self.sink, self.target = settings, sink, target
        own = (sink, target.name, target.outcome)
        rows = [row for row in trials.to_pylist() if (row["sink"], row["target"], row["state"]) == own]
        rows.sort(key=lambda r: (settings.offsets.index(r["offset"]), r["end"], r["outage_us"], r["rate"], r["rep"]))
        shape = (len(settings.offsets), -1, settings.reps)
        self.rows = np.array(rows, object).reshape(shape)
        self.faulty = np.array([row["faulty"] for row in rows]).reshape(shape)
        self.golden = np.array([row["golden"] for row in rows]).reshape(shape)
        self.lost = np.array([row["tuples"] for row in rows]).reshape(shape)[:, :, 0]
        runs = sorted((row for row in golden.to_pylist() if row["sink"] == sink), key=lambda row: row["run"])
        self.sections = np.array([row["sections"] for row in runs])  # [run, section]
        # [run, offset]: a golden run has scores of all units, offset by offset, target by target.
        self.all_golden = np.array([row["scores"] for row in runs])[:, number :: len(settings.targets)]
        self.tuples = tuples

    def summary(self) -> TargetSummary:
        quality = metrics.quality_scores(self.faulty.mean(axis=2), self.golden.mean(axis=2))
        samples = metrics.quality_scores(self.faulty, self.golden)
        outages = [self._outage(j, quality, samples) for j in range(self.rows.shape[1])]
        decisive = len(outages) - 1
        if self.settings.fault in STRIKES_ONCE:
            decisive = max(range(len(outages)), key=lambda j: (abs(outages[j].I), outages[j].R, j))
        paired = [self._local(i, decisive, paired=True) for i in range(len(self.settings.offsets))]
        recovery, impact = zip(*(self._recovery(error) for error, _ in paired), strict=True)
        worst = int(np.argmax(np.abs(impact)))
        impacts = [
            self._recovery(self._local(worst, decisive, paired=True, rep=k)[0])[1] for k in range(self.settings.reps)
        ]
        figures = metrics.outage_impact(self.lost, quality), metrics.data_dependency(samples[:, decisive])
        return TargetSummary(
            self.target.name,
            self.target.outcome,
            self.sink,
            Metrics(*figures, max(recovery), impact[worst]),
            self._unpaired(decisive),
            outages,
            [error for error, _ in paired],
            recovery,
            impact,
            metrics.interval(np.array(impacts)),
            self._covered(decisive),
            sum(flagged for _, flagged in paired),
            any(self._sensitive(i, decisive) for i in range(len(self.settings.offsets))),
            [
                (self._faulty_sections(i, decisive), self._golden_sections(i, decisive))
                for i in range(len(self.settings.offsets))
            ],
            decisive,
        )

    def _unpaired(self, decisive: int) -> Metrics:
        means = self.all_golden.mean(axis=0)  # [offset]
        quality = metrics.quality_scores(self.faulty.mean(axis=2), means[:, None])
        samples = metrics.quality_scores(self.faulty[:, decisive], means[:, None])
        recoveries = [self._recovery(self._local(i, decisive, paired=False)[0]) for i in range(len(means))]
        return Metrics(
            metrics.outage_impact(self.lost, quality),
            metrics.data_dependency(samples),
            max(r for r, _ in recoveries),
            max((i for _, i in recoveries), key=abs),
        )

    def _outage(self, j: int, quality: np.ndarray, samples: np.ndarray) -> OutageSummary:
        errors = [self._local(i, j, paired=True)[0] for i in range(len(quality))]
        recoveries = [self._recovery(error) for error in errors]
        row = self.rows[0, j, 0]
        return OutageSummary(
            Duration(row["outage_us"]),
            row["rate"],
            int(self.lost[:, j].max()),
            quality[:, j],
            samples[:, j],
            max(r for r, _ in recoveries),
            max((i for _, i in recoveries), key=abs),
            errors,
            [until for until, _ in recoveries],
            [impact for _, impact in recoveries],
        )

    def _faulty_sections(self, i: int, j: int) -> np.ndarray:
        """Scores [rep, section] from the fault onwards."""
        scores = self.sections[: self.settings.reps].copy()
        for k in range(self.settings.reps):
            row = self.rows[i, j, k]
            scores[k, row["sections"]] = row["section_faulty"]
        return scores[:, self._first_section(i) :]

    def _golden_sections(self, i: int, j: int) -> np.ndarray:
        """Scores [rep, section] of the paired golden runs from the fault onwards.

        Where a trial differs, the golden score is that of the trial's comparison, so both have the same rounding.
        """
        scores = self.sections[: self.settings.reps].copy()
        for k in range(self.settings.reps):
            row = self.rows[i, j, k]
            scores[k, row["sections"]] = row["section_golden"]
        return scores[:, self._first_section(i) :]

    def _first_section(self, i: int) -> int:
        return self.settings.offsets[i] // self.settings.section

    def _local(self, i: int, j: int, *, paired: bool, rep: int | None = None) -> tuple[np.ndarray, int]:
        """Signed errors by section, and how many of them are flagged."""
        faulty = self._faulty_sections(i, j)
        golden = self._golden_sections(i, j) if paired else self.sections[:, self._first_section(i) :]
        if rep is not None:
            faulty, golden = faulty[rep : rep + 1], golden[rep : rep + 1]
        errors = metrics.section_errors(faulty, golden, signed=True)
        return errors.error, int(errors.flagged.sum())

    def _recovery(self, error: np.ndarray) -> tuple[int, float]:
        error = metrics.counted(error, self.settings.errors)
        until = metrics.recovery_time(error, self.settings.threshold, self.settings.percentile)
        return until, metrics.quality_impact(error, self.settings.threshold, until, signed=self.settings.signed)

    def _covered(self, j: int) -> float:
        """Sections that an outage covers, counted in source tuples."""
        span = max(row["end"] - row["offset"] for row in self.rows[:, j, 0])
        return float(span / self.settings.section)

    def _sensitive(self, i: int, j: int) -> bool:
        """Whether the scores of the section with the largest error differ from the golden ones."""
        error = np.abs(self._local(i, j, paired=True)[0])
        if not error.any():
            return False
        worst = int(np.argmax(error))
        return metrics.sensitive(
            self.sections[:, self._first_section(i) + worst], self._faulty_sections(i, j)[:, worst]
        )
