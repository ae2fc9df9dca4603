"""The measurements of a case, from observations outside of the elements. Pure.

An observation is what reached the sinks and when, the time of the kill, and the records of the director's host. Latency
is from when the triggering tuples were due at their source until the output rows were in the sink's log.

Recovery ends when the latency is within 10 % of its mean before the kill, as published, and stays there for a second,
in steps of 0.3 s. Windows may vary the latency by more than that anyway; so the *adaptive* variant allows 10 % more
than the 95th percentile of the steps before the kill.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from riprap.base.shapes import shaped
from riprap_papers.compare.workload_oracle import RowVerdict

STEP = 0.3  # seconds
_WARM = 0.2  # share of the time before the kill, or of the run, that is ignored as warm-up
_STAYS = 4  # steps
_IN_FLIGHT = 1.0  # seconds after a kill in which rows sent before it may still arrive


class SinkOutput(NamedTuple):
    """Rows that reached a sink."""

    at: float  # seconds since the first row was due
    rows: int
    latency: float  # seconds


@dataclass(frozen=True)
class Observation:
    outputs: Sequence[SinkOutput]
    tuples: int  # read by the sources
    seconds: float  # until everything had ended
    killed_at: float | None
    detect: float  # seconds; 0 where nothing was killed
    restart: float
    restore: float
    checkpoints: int
    forced: int
    bytes: int
    take_ms: float  # mean
    rollback: float  # seconds: the longest rollback of an element
    gone_back: int  # elements that rolled back, without the killed one
    verdict: RowVerdict  # on the output, by an oracle that reads only inputs and sinks
    messages: int = 0  # lost between elements, by their numbers


@dataclass(frozen=True)
class Result:
    """The numbers of a case. None: not applicable."""

    throughput: float  # rows/s at the sinks before the kill
    latency_mean: float  # ms
    latency_p50: float
    latency_p99: float
    checkpoints: int
    forced: int
    checkpoint_bytes: float  # mean
    take_ms: float
    detect: float | None
    restart: float | None
    restore: float | None
    first_output: float | None  # seconds from the kill to the first new rows
    recovery: float | None  # seconds from the kill, as published; None: not before the end
    recovery_adaptive: float | None
    rollback: float | None
    gone_back: int
    lost: int
    repeated: int
    series: tuple[tuple[float, float, float], ...]  # seconds, rows/s, mean latency in ms (-1: nothing came), by step
    rate: float = 0.0  # events/s of all sources together
    altered: int = 0  # rows of the output with wrong values, because earlier rows were lost
    messages: int = 0  # lost between elements, by their numbers

    @property
    def exact(self) -> bool:
        """Whether the output is correct."""
        return not (self.lost or self.repeated or self.altered)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any], where: str = "a result") -> "Result":
        return shaped(cls, data, where)


def averaged(results: Sequence[Result]) -> Result:
    """Repetitions combined: means; the maximum of lost and repeated rows; the series of the first."""
    first, *others = results
    if not others:
        return first
    found: dict[str, Any] = {}
    for name, value in vars(first).items():
        values = [v for v in (getattr(result, name) for result in results) if v is not None]
        if name in ("lost", "repeated", "altered", "messages"):
            found[name] = max(values)
        elif name != "series" and values:
            middle = sum(values) / len(values)
            found[name] = round(middle) if isinstance(value, int) else middle
    return replace(first, **found)


def measured(seen: Observation) -> Result:
    until = seen.killed_at if seen.killed_at is not None else seen.seconds
    calm = [o for o in seen.outputs if _WARM * until <= o.at < until]
    latencies, weights = np.array([o.latency for o in calm]), np.array([o.rows for o in calm], float)
    series = _series(seen)
    killed = seen.killed_at
    first = _first_output([o.at for o in seen.outputs], killed) if killed is not None else None
    before = [latency for at, _, latency in series if _WARM * until <= at < until - STEP and latency >= 0]
    return Result(
        throughput=float(weights.sum() / (until * (1 - _WARM))) if until else 0.0,
        latency_mean=_mean(latencies, weights) * 1e3,
        latency_p50=_quantile(latencies, weights, 0.5) * 1e3,
        latency_p99=_quantile(latencies, weights, 0.99) * 1e3,
        checkpoints=seen.checkpoints,
        forced=seen.forced,
        checkpoint_bytes=seen.bytes / seen.checkpoints if seen.checkpoints else 0.0,
        take_ms=seen.take_ms,
        detect=seen.detect if killed is not None else None,
        restart=seen.restart if killed is not None else None,
        restore=seen.restore if killed is not None else None,
        first_output=first,
        recovery=_recovery(series, killed, 1.1 * float(np.mean(before))) if before else None,
        recovery_adaptive=_recovery(series, killed, 1.1 * float(np.quantile(before, 0.95))) if before else None,
        rollback=seen.rollback if killed is not None else None,
        gone_back=seen.gone_back,
        lost=seen.verdict.lost,
        repeated=seen.verdict.repeated,
        series=series,
        altered=seen.verdict.altered,
        messages=seen.messages,
    )


def _first_output(times: Sequence[float], killed: float) -> float | None:
    """Seconds from the kill to the end of the longest pause that starts before it or soon after.

    Messages that the killed element had sent still arrive, so the first rows after the kill need not be new.
    """
    pauses = [(b - a, b - killed) for a, b in pairwise(times) if a < killed + _IN_FLIGHT and b > killed]
    return max(pauses)[1] if pauses else None


def _series(seen: Observation) -> tuple[tuple[float, float, float], ...]:
    steps = int(max((o.at for o in seen.outputs), default=0.0) / STEP) + 1
    rows, waited = np.zeros(steps), np.zeros(steps)
    for at, count, latency in seen.outputs:
        step = max(int(at / STEP), 0)
        rows[step] += count
        waited[step] += count * latency
    return tuple(
        (step * STEP, float(rows[step]) / STEP, float(waited[step] / rows[step]) * 1e3 if rows[step] else -1.0)
        for step in range(steps)
    )


def _recovery(series: Sequence[tuple[float, float, float]], killed: float | None, most: float) -> float | None:
    """Seconds from the kill to the first of several steps with a latency of at most `most` ms.

    Steps after the end of the run count, so that a recovery just before it is one.
    """
    if killed is None:
        return None
    after = [(at, latency) for at, _, latency in series if at + STEP > killed and latency >= 0]
    for index, (at, _) in enumerate(after):
        if at > killed and all(latency <= most for _, latency in after[index : index + _STAYS]):
            return at - killed
    return None


def _mean(values: np.ndarray, weights: np.ndarray) -> float:
    return float((values * weights).sum() / weights.sum()) if weights.sum() else 0.0


def _quantile(values: np.ndarray, weights: np.ndarray, share: float) -> float:
    if not len(values):
        return 0.0
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, share * reached[-1]).clip(max=len(values) - 1)])
