"""Rows with our numbers beside published ones; and whether a published statement holds for ours."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from riprap.san.replicate import Replications
from riprap.san.statistics import Estimate, estimate

Bound = Literal["equal", "at most", "at least", "holds", ""]


@dataclass(frozen=True)
class SanRow:
    """Our number beside the published one. `low` and `high`: our 95 % interval, if any. `reading`: of configuration 2,
    if it matters.
    """

    table: str
    case: str
    metric: str
    published: float | None
    ours: float
    low: float | None = None
    high: float | None = None
    bound: Bound = ""
    reading: str = ""


def measured(
    table: str,
    case: str,
    metric: str,
    published: float | None,
    values: np.ndarray,
    bound: Bound = "",
    reading: str = "",
) -> SanRow:
    ours = estimate(values)
    return SanRow(table, case, metric, published, ours.mean, ours.low, ours.high, bound, reading)


def statement(table: str, case: str, true: bool, reading: str = "") -> SanRow:
    return SanRow(table, case, "holds (1 = yes)", 1.0, float(true), None, None, "holds", reading)


def mean(result: Replications, name: str) -> float:
    return result.estimates[name].mean


def gap(first: Replications, second: Replications, name: str) -> Estimate:
    """The difference of a metric between two independent sets of equally many replications."""
    return estimate(first.column(name) - second.column(name))
