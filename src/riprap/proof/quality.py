"""The quality of a run's output under faults: the user's output score function over the actual and expected output.

The functions are those of an assessment (`docs/reference/assess.md`). Rows that were doubled count twice; the order
does not count.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from riprap.faults.scoring import Score


@dataclass(frozen=True)
class Quality:
    """The quality at one sink."""

    function: str
    expected: float  # without faults
    found: float

    @property
    def share(self) -> float | None:
        """Found divided by expected; None if the expected score is 0."""
        if self.found == self.expected:
            return 1.0
        return self.found / self.expected if self.expected else None

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "quality": self.share}


def qualities(
    scores: Mapping[str, Score], expected: Mapping[str, pa.Table], found: Mapping[str, pa.Table]
) -> dict[str, Quality]:
    """By sink with a score."""
    return {
        name: Quality(score.text, _scored(score, expected[name]), _scored(score, found[name]))
        for name, score in scores.items()
    }


def _scored(score: Score, table: pa.Table) -> float:
    rows = table.combine_chunks().to_batches()
    return score.over(score.values(rows[0])) if rows and rows[0].num_rows else 0.0
