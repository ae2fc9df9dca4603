"""What each fault did to the output, in the words of an assessment and of the model; predicted, and as measured.

    quality       QS: the score of the part of the output that differs, over that of the same part without faults
    recovery      R: sections from the fault on until which a share of the erroneous ones lie
    impact        I: the sum of their squared errors
    tainted       rows that came out with other values, or should not have come out
    availability  the share of the time in which what was hit ran, and the output was right

A fault's part of the run goes from its moment until the next fault. Output is cut into sections by event time: each has
what follows from so many tuples of the sources. The sources are paced, so a moment of the run is a tuple of its input.
Where a run has several sinks the one with the largest impact speaks, and tainted rows are those of all.
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
    """Of one fault. None: not known."""

    quality: float | None = None
    recovery: float | None = None  # sections
    impact: float | None = None
    tainted: float | None = None
    availability: float | None = None
    lost: float | None = None  # rows that did not come out

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Judging:
    """How errors are counted, as an assessment was asked to."""

    section: int = 5_000  # tuples of the sources
    threshold: float = 0.03
    percentile: float = 0.9  # share of the wrong sections that R covers
    signed: bool = False
    over: bool = False  # only overestimates count


@dataclass(frozen=True)
class Sections:
    """Parts of the output. Instants are microseconds of event time."""

    begins: np.ndarray  # when each begins
    clock: np.ndarray  # the instants of the tuples of the longest source: it gives `rate` of them a second
    rate: float

    @property
    def seconds(self) -> float:
        """That one takes on average."""
        return len(self.clock) / self.rate / len(self.begins)

    def of(self, instants: np.ndarray) -> np.ndarray:
        return np.maximum(np.searchsorted(self.begins, instants, side="right") - 1, 0)

    def at(self, ran: float) -> int:
        """The section of what the sources gave after so many seconds."""
        tuple_ = min(int(ran * self.rate), len(self.clock) - 1)
        return int(self.of(self.clock[tuple_ : tuple_ + 1])[0])


def sections(instants: Sequence[np.ndarray], size: int, rate: float) -> Sections:
    """Of so many tuples each, from the instants of the tuples of every source."""
    together = np.sort(np.concatenate(instants))
    return Sections(np.unique(together[::size]), max(instants, key=len), rate)


@dataclass(frozen=True)
class Struck:
    """One fault: when it began, and when what it hit ran again, in seconds of the run."""

    began: float
    running: float | None


def measured(
    struck: Sequence[Struck | None],
    cut: Sections,
    judging: Judging,
    scores: Mapping[str, Score],
    expected: Mapping[str, pa.Table],
    found: Mapping[str, pa.Table],
    differing: Mapping[str, Differing],
) -> list[FaultEffect | None]:
    """Of faults in the order of their moments; None: it never was, or the next one came within its section."""
    sinks = [_Sink(cut, scores[name], expected[name], found[name], differing[name]) for name in scores]
    every = [
        _per_section(cut, differing[name].lost) + _per_section(cut, differing[name].wrong) > 0 for name in expected
    ]
    wrong = np.any(every, axis=0)
    begins = [None if one is None else cut.at(one.began) for one in struck]
    effects: list[FaultEffect | None] = []
    for number, one in enumerate(struck):
        first = begins[number]
        later = [begin for begin in begins[number + 1 :] if begin is not None]
        last = later[0] if later else len(cut.begins)
        if one is None or first is None or first >= last:
            effects.append(None)
            continue
        worst = max((sink.effect(first, last, judging) for sink in sinks), key=lambda effect: effect.impact or 0.0)
        counts = [
            sum(int(_per_section(cut, rows)[first:last].sum()) for rows in which)
            for which in zip(*((each.wrong, each.lost) for each in differing.values()), strict=True)
        ]
        down = wrong[first:last].copy()
        stood = (last - first) if one.running is None else ceil((one.running - one.began) / cut.seconds)
        down[:stood] = True
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

    def effect(self, first: int, last: int, judging: Judging) -> FaultEffect:
        faulty, golden = (scores[None, first:last] for scores in self._scores)
        error = counted(section_errors(faulty, golden, signed=True).error, "over" if judging.over else "absolute")
        until = recovery_time(error, judging.threshold, judging.percentile)
        impact = quality_impact(error, judging.threshold, until, signed=judging.signed)
        return FaultEffect(self._quality(first, last), float(until), impact)

    def _quality(self, first: int, last: int) -> float | None:
        """Over the sections in which anything differs; 1 where nothing does."""
        part = np.zeros(len(self._differs), bool)
        part[first:last] = self._differs[first:last]
        if not part.any():
            return 1.0
        found, expected = (self._score.over(values[part[at]]) for values, at in self._sides)
        return 1.0 if found == expected else found / expected if expected else None


def _instants(table: pa.Table) -> np.ndarray:
    return np.asarray(table.column(TS).cast(pa.int64()).to_numpy())
