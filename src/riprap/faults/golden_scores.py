"""Scores of golden runs at one sink: by section, and on the affected part of every unit.

The part that all seeds share is summed once. A run then adds its own tuples one by one, in the same order as a sum
over all tuples, so scores are bit-identical. Scores that are not sums are recomputed.
"""

from collections.abc import Sequence

import numpy as np

from riprap.faults.scoring import Score, in_sums
from riprap.faults.trial_outputs import OutputRows


class GoldenScores:
    """`settled`: the output that all seeds share. `affected`: identities, ascending, of each unit's affected part."""

    def __init__(
        self, score: Score, settled: OutputRows, affected: Sequence[np.ndarray], section: int, sections: int
    ) -> None:
        self._score, self._settled, self._affected = score, settled, tuple(affected)
        self._section, self._sections = section, sections
        order = np.argsort(settled.identity, kind="stable")
        identities = settled.identity[order]
        rows_by_part = [np.sort(order[_runs(identities, part)[0]]) for part in affected]  # rows of each part, in order
        parts = np.concatenate([np.empty(0, np.uint64), *affected])
        unit = np.repeat(np.arange(len(affected)), [len(part) for part in affected])
        by_identity = np.argsort(parts, kind="stable")
        self._identities, self._units = parts[by_identity], unit[by_identity]
        if in_sums(score):
            rows = np.concatenate([np.empty(0, np.int64), *rows_by_part])
            of = np.repeat(np.arange(len(rows_by_part)), [len(part) for part in rows_by_part])
            self._by_section = score.totals(settled.value, self._section_of(settled), sections)
            self._by_unit = score.totals(settled.value[rows], of, len(rows_by_part))
        else:
            self._shared = [settled.value[rows] for rows in rows_by_part]

    def fits(self, affected: Sequence[np.ndarray]) -> bool:
        """Whether these are the parts that it was built for."""
        return len(affected) == len(self._affected) and all(
            known is part for known, part in zip(self._affected, affected, strict=True)
        )

    def of(self, rest: OutputRows) -> tuple[np.ndarray, np.ndarray]:
        """The scores of every section and of every unit's part, for a run with this additional output."""
        places, counts = _runs(self._identities, rest.identity)
        rows, unit = np.repeat(np.arange(rest.size), counts), self._units[places]
        score, at = self._score, self._section_of(rest)
        if in_sums(score):
            by_section = _added(self._by_section, rest.value, at)
            by_unit = _added(self._by_unit, rest.value[rows], unit)
            return score.of_totals(*by_section), score.of_totals(*by_unit)
        value = np.concatenate([self._settled.value, rest.value])
        sections = score.by_section(value, np.concatenate([self._section_of(self._settled), at]), self._sections)
        values_by_part = [
            np.concatenate([s, rest.value[rows[unit == number]]]) for number, s in enumerate(self._shared)
        ]
        return sections, np.array([score.over(values) for values in values_by_part])

    def _section_of(self, rows: OutputRows) -> np.ndarray:
        return np.minimum(rows.position // self._section, self._sections - 1)


def _runs(known: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indices in `known` (ascending) of all entries of `wanted`, concatenated; and the count of each."""
    first = np.searchsorted(known, wanted)
    counts = np.searchsorted(known, wanted, side="right") - first
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(first, counts) + within, counts


def _added(totals: tuple[np.ndarray, np.ndarray], values: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    counted = ~np.isnan(values)
    if not counted.all():
        values, at = values[counted], at[counted]
    sums = totals[0].copy()
    np.add.at(sums, at, values)  # one by one
    return sums, totals[1] + np.bincount(at, minlength=len(sums))
