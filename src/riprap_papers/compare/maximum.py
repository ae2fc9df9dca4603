"""The maximum rate that a case sustains on the simulated host without falling behind.

It follows from the costs of that host, as with one core per element. Every rate is simulated with `_ROWS` rows a
second; the cost of a row is scaled instead.
"""

from dataclasses import replace

from riprap_papers.compare.grid import ComparedCase
from riprap_papers.compare.simulated_host import observed

_ROWS = 1_000.0
_STEPS = 6  # of the bisection


def maximum(case: ComparedCase) -> float:
    """Events/s of all sources."""
    case = replace(case, failure=False)
    low, high = 0.0, 10_000.0
    while _sustained(case, high):
        low, high = high, high * 4
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _sustained(case, middle) else (low, middle)
    return low


def at_rate(case: ComparedCase, rate: float) -> ComparedCase:
    divided = max(rate / _ROWS, 1.0)
    return replace(case, rate=rate / divided, divided=divided)


def _sustained(case: ComparedCase, rate: float) -> bool:
    return observed(at_rate(case, rate)).seconds <= case.seconds * 1.05 + 1.0
