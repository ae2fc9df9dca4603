"""The effect of each fault on the output, with the metrics of an assessment and of the model; predicted and measured.

    quality       QS: the score of the differing part of the output, divided by the score of that part without faults
    recovery      R: sections from the fault until a given share of the erroneous sections is covered
    impact        I: the sum of their squared errors
    tainted       rows with other values, and unexpected rows
    availability  the share of the time in which the targets were running and the output was right

A fault's part of the run lasts until the next fault. Output is divided into sections by event time: each follows from a
fixed number of source tuples. The sources are paced, so a moment of the run maps to a tuple of its input. With several
sinks, the sink with the largest impact counts; tainted rows are summed over all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

import numpy as np
import pyarrow as pa

from riprap.faults.quality_metrics import counted, quality_impact, recovery_time, section_errors
from riprap.faults.scoring import Score
from riprap.graph.order_keys import TS
from riprap.proof.oracle import Differing


@dataclass(frozen=True)
class FaultEffect:
    """The effect of one fault. None: unknown."""

    quality: float | None = None
    recovery: float | None = None  # sections
    impact: float | None = None
    tainted: float | None = None
    availability: float | None = None
    lost: float | None = None  # rows that are missing

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class ErrorSettings:
    """How errors are counted: the settings of the assessment."""

    section: int = 5_000  # tuples of the sources
    threshold: float = 0.03
    percentile: float = 0.9  # share of the wrong sections that R covers
    signed: bool = False
    over: bool = False  # only overestimates count


@dataclass(frozen=True)
class Sections:
    """Parts of the output. Instants are microseconds of event time."""

    begins: np.ndarray  # when each starts
    clock: np.ndarray  # the instants of the tuples of the longest source, which emits `rate` of them per second
    rate: float

    @property
    def seconds(self) -> float:
        """The average duration of a section."""
        return len(self.clock) / self.rate / len(self.begins)

    def of(self, instants: np.ndarray) -> np.ndarray:
        return np.maximum(np.searchsorted(self.begins, instants, side="right") - 1, 0)

    def at(self, ran: float) -> int:
        """The section of the source tuple that is emitted after `ran` seconds."""
        tuple_ = min(int(ran * self.rate), len(self.clock) - 1)
        return int(self.of(self.clock[tuple_ : tuple_ + 1])[0])


def sections(instants: Sequence[np.ndarray], size: int, rate: float) -> Sections:
    """Sections of `size` tuples each, from the instants of the tuples of every source."""
    together = np.sort(np.concatenate(instants))
    return Sections(np.unique(together[::size]), max(instants, key=len), rate)


@dataclass(frozen=True)
class InjectedFault:
    """When a fault was injected, and when its targets were running again, in seconds of the run."""

    began: float
    running: float | None


def measured(
    injected: Sequence[InjectedFault | None],
    cut: Sections,
    judging: ErrorSettings,
    scores: Mapping[str, Score],
    expected: Mapping[str, pa.Table],
    found: Mapping[str, pa.Table],
    differing: Mapping[str, Differing],
) -> list[FaultEffect | None]:
    """The effects of faults in order of time; None: it was not injected, or the next one is in the same section."""
    sinks = [_Sink(cut, scores[name], expected[name], found[name], differing[name]) for name in scores]
    differs = [
        _per_section(cut, differing[name].lost) + _per_section(cut, differing[name].wrong) > 0 for name in expected
    ]
    wrong = np.any(differs, axis=0)
    begins = [None if fault is None else cut.at(fault.began) for fault in injected]
    effects: list[FaultEffect | None] = []
    for number, fault in enumerate(injected):
        first = begins[number]
        later = [begin for begin in begins[number + 1 :] if begin is not None]
        last = later[0] if later else len(cut.begins)
        if fault is None or first is None or first >= last:
            effects.append(None)
            continue
        worst = max((sink.effect(first, last, judging) for sink in sinks), key=lambda effect: effect.impact or 0.0)
        counts = [
            sum(int(_per_section(cut, rows)[first:last].sum()) for rows in which)
            for which in zip(*((rows.wrong, rows.lost) for rows in differing.values()), strict=True)
        ]
        down = wrong[first:last].copy()
        outage = (last - first) if fault.running is None else ceil((fault.running - fault.began) / cut.seconds)
        down[:outage] = True
        effects.append(
            FaultEffect(worst.quality, worst.recovery, worst.impact, counts[0], 1.0 - float(down.mean()), counts[1])
        )
    return effects


def _per_section(cut: Sections, instants: np.ndarray) -> np.ndarray:
    return np.bincount(cut.of(instants), minlength=len(cut.begins))


class _Sink:
    def __init__(self, cut: Sections, score: Score, expected: pa.Table, found: pa.Table, differing: Differing) -> None:
        self._score = score
        self._sides = [(self._values(table), cut.of(_instants(table))) for table in (found, expected)]
        self._differs = _per_section(cut, differing.lost) + _per_section(cut, differing.wrong) > 0
        self._scores = [score.by_section(values, at, len(cut.begins)) for values, at in self._sides]

    def _values(self, table: pa.Table) -> np.ndarray:
        batches = table.combine_chunks().to_batches()
        return self._score.values(batches[0]) if batches and batches[0].num_rows else self._score.nothing

    def effect(self, first: int, last: int, judging: ErrorSettings) -> FaultEffect:
        faulty, golden = (scores[None, first:last] for scores in self._scores)
        error = counted(section_errors(faulty, golden, signed=True).error, "over" if judging.over else "absolute")
        until = recovery_time(error, judging.threshold, judging.percentile)
        impact = quality_impact(error, judging.threshold, until, signed=judging.signed)
        return FaultEffect(self._quality(first, last), float(until), impact)

    def _quality(self, first: int, last: int) -> float | None:
        """The quality over the sections that differ; 1 if none does."""
        part = np.zeros(len(self._differs), bool)
        part[first:last] = self._differs[first:last]
        if not part.any():
            return 1.0
        found, expected = (self._score.over(values[part[at]]) for values, at in self._sides)
        return 1.0 if found == expected else found / expected if expected else None


def _instants(table: pa.Table) -> np.ndarray:
    return np.asarray(table.column(TS).cast(pa.int64()).to_numpy())
