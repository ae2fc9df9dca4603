"""The common ground of the benchmarks: how a time is taken, and what a result is."""

import gc
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scipy import stats


@dataclass(frozen=True)
class Result:
    """One row of the table and of `results.json`."""

    name: str
    value: float
    unit: str
    bar: str  # the bar in words, "≥ 3" or "" when the value is only reported
    ok: bool
    how: str  # what was compared with what, and how


def at_least(name: str, value: float, bar: float, how: str, unit: str = "×") -> Result:
    return Result(name, value, unit, f"≥ {bar:g}", value >= bar, how)


def at_most(name: str, value: float, bar: float, how: str, unit: str = "×") -> Result:
    return Result(name, value, unit, f"≤ {bar:g}", value <= bar, how)


def reported(name: str, value: float, unit: str, how: str) -> Result:
    return Result(name, value, unit, "", True, how)


def seconds(run: Callable[[], object]) -> float:
    """Wall time of one call, with the garbage of earlier ones out of the way."""
    gc.collect()
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def side_by_side(runs: dict[str, Callable[[], object]], rounds: int = 5) -> dict[str, float]:
    """Median seconds of each of `runs`, interleaved round by round so that a noisy neighbour hits all alike.

    One round more than asked for warms caches and compilers and is not counted.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    for round_ in range(rounds + 1):
        for name, run in runs.items():
            elapsed = seconds(run)
            if round_:
                times[name].append(elapsed)
    return {name: statistics.median(taken) for name, taken in times.items()}


def confidence(ratios: Sequence[float]) -> tuple[float, float, float]:
    """The geometric mean between the ends of its 95 % confidence interval; of one ratio that alone, three times."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.mean(logs)
    if len(logs) == 1:
        return ratios[0], ratios[0], ratios[0]
    half = float(stats.t.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean - half), math.exp(mean), math.exp(mean + half)
