"""The rows of a campaign's trials: how the scores of the affected part and of sections differ from the golden ones."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from riprap.faults.campaign_settings import Outage, Target
from riprap.faults.models import STRIKES_ONCE, FaultKind
from riprap.faults.scoring import OutputScore, Score, in_sums
from riprap.faults.trial_outputs import Difference, OutputRows, among

TRIALS = pa.schema(
    [
        ("sink", pa.string()),
        ("target", pa.string()),
        ("state", pa.string()),  # of the target afterwards; "fail-over": another replica has it
        ("offset", pa.int64()),
        ("end", pa.int64()),  # position at which the target runs again
        ("outage_us", pa.int64()),
        ("rate", pa.string()),
        ("tuples", pa.int64()),  # lost (or otherwise affected) at the target
        ("rep", pa.int32()),
        ("faulty", pa.float64()),  # score of the affected part
        ("golden", pa.float64()),  # its score in the golden run with the same jitter
        ("missing", pa.int64()),  # golden outputs that are missing or different
        ("extra", pa.int64()),  # outputs that replace them or are additional
        ("sections", pa.list_(pa.int32())),  # sections that differ, and their scores
        ("section_faulty", pa.list_(pa.float64())),
        ("section_golden", pa.list_(pa.float64())),
        ("affected", pa.list_(pa.int64())),  # once per unit and sink: identities of the affected part
    ]
)

Differences = Mapping[tuple[int, int], Mapping[str, Difference]]  # by outage and repetition, then by sink


def scored_unit(
    target: Target,
    fault: FaultKind,
    outages: Sequence[Outage],
    differences: Differences,
    golden: Mapping[str, Sequence[OutputRows]],
    indexed: Mapping[str, Sequence["IndexedOutput"]],
    scores: Mapping[str, Score],
) -> pa.RecordBatch:
    """All trials of one target at one offset, as rows of TRIALS. `golden`, `indexed`: by sink and repetition."""
    rows: list[dict[str, object]] = []
    for sink, score in scores.items():
        outputs = golden[sink]
        longest = len(outages) - 1
        # Faults that affect one tuple have no longest one: each affects a different part.
        touching = range(len(outages)) if fault in STRIKES_ONCE else [longest]
        affected = np.unique(
            np.concatenate(
                [
                    differences[number, rep][sink].identities(outputs[rep])
                    for number in touching
                    for rep in range(len(outputs))
                ]
            )
        )
        for rep in range(len(outputs)):
            part = ScoredPart(indexed[sink][rep], affected, score)
            for number, outage in enumerate(outages):
                row = part.scored(differences[number, rep][sink]) | {
                    "sink": sink,
                    "target": target.name,
                    "state": target.outcome,
                    "offset": outage.offset,
                    "end": outage.end,
                    "outage_us": outage.duration,
                    "rate": outage.rate,
                    "tuples": outage.tuples,
                    "rep": rep,
                }
                if number == longest and rep == 0:
                    row["affected"] = affected.view(np.int64)
                rows.append(row)
    return pa.RecordBatch.from_pylist(rows, schema=TRIALS)


class IndexedOutput:
    """A golden output, indexed by section and by identity."""

    def __init__(self, rows: OutputRows, section: int) -> None:
        self.rows, self.section = rows, section
        self.sections = rows.position // section
        self.by_section = np.argsort(self.sections, kind="stable")
        self.begins = np.searchsorted(self.sections[self.by_section], np.arange(self.sections.max(initial=0) + 2))
        self.by_identity = np.argsort(rows.identity, kind="stable")
        self.identities = rows.identity[self.by_identity]

        self._totals: tuple[np.ndarray, np.ndarray] | None = None

    def totals(self, score: OutputScore, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sums and counts of these sections, under the score that the rows were read with."""
        if self._totals is None:
            self._totals = score.totals(self.rows.value, self.sections, len(self.begins) - 1)
        inside = wanted < len(self.begins) - 1
        at = np.where(inside, wanted, 0)
        sums, counts = self._totals
        return np.where(inside, sums[at], 0.0), np.where(inside, counts[at], 0)

    def with_identities(self, wanted: np.ndarray) -> np.ndarray:
        """Rows with these identities."""
        first = np.searchsorted(self.identities, wanted)
        count = np.searchsorted(self.identities, wanted, side="right") - first
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        return self.by_identity[np.repeat(first, count) + within]

    def in_sections(self, wanted: np.ndarray) -> np.ndarray:
        known = wanted[wanted < len(self.begins) - 1]
        ranges = [self.by_section[self.begins[s] : self.begins[s + 1]] for s in known.tolist()]
        return np.concatenate([np.empty(0, np.int64), *ranges])


class ScoredPart:
    """Scores of differences to one golden output: over the affected part, and in the sections that differ."""

    def __init__(self, indexed: IndexedOutput, affected: np.ndarray, score: Score) -> None:
        self.indexed, self.golden, self.affected, self.score = indexed, indexed.rows, affected, score
        self.section = indexed.section
        self.inside = indexed.with_identities(affected)
        self.golden_score = score.over(self.golden.value[self.inside])

    def scored(self, difference: Difference) -> dict[str, object]:
        removed = np.zeros(self.golden.size, bool)
        removed[difference.removed] = True
        added = difference.added
        unchanged = self.inside[~removed[self.inside]]
        added_values = added.value[among(self.affected, added.identity)]
        removed_sections = self.indexed.sections[difference.removed]
        added_sections = added.position // self.section
        differing = np.unique(np.concatenate([removed_sections, added_sections]))
        faulty, golden_sections = self._sections(difference, differing, removed_sections, added_sections)
        return {
            "faulty": self.score.over(np.concatenate([self.golden.value[unchanged], added_values])),
            "golden": self.golden_score,
            "missing": len(difference.removed),
            "extra": added.size,
            "sections": differing,
            "section_faulty": faulty,
            "section_golden": golden_sections,
        }

    def _sections(
        self, difference: Difference, differing: np.ndarray, removed_sections: np.ndarray, added_sections: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Faulty and golden scores of sections that differ, from the sections of removed and added rows."""
        count, score, golden = len(differing), self.score, self.golden
        at_removed, at_added = np.searchsorted(differing, removed_sections), np.searchsorted(differing, added_sections)
        if in_sums(score):
            less = score.totals(golden.value[difference.removed], at_removed, count)
            more = score.totals(difference.added.value, at_added, count)
            base = self.indexed.totals(score, differing)
            sums, counts = (b - a + c for b, a, c in zip(base, less, more, strict=True))
            return score.of_totals(sums, counts), score.of_totals(*base)
        rows = self.indexed.in_sections(differing)
        unchanged = rows[~np.isin(rows, difference.removed)]
        values = np.concatenate([golden.value[unchanged], difference.added.value])
        places = np.concatenate([np.searchsorted(differing, self.indexed.sections[unchanged]), at_added])
        golden_places = np.searchsorted(differing, self.indexed.sections[rows])
        return score.by_section(values, places, count), score.by_section(golden.value[rows], golden_places, count)
