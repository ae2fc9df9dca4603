"""What checkpoints cost a join: the published experiments (table 3.1, figures 3.11 to 3.13) in one process.

S1 has two integers and a text of 70 bytes, S2 an integer and a text of 10; the window is over S1 alone. Keys are
uniform; 1,500 of them is inferred from the published rates, which have 5.4 matches to a tuple of S2 in a window of
8,192 and twice as many in one of twice the size. The per-group join has 50 windows of 1,024 and 600 keys in S2, as
published.

Blocks of one interval with checkpoints and without alternate. A checkpoint comes in the middle of a block; the clock of
checkpoints runs in blocks that have them alone. What one costs is the time by which the batches from its capture until
a while after it was durable took longer than the batches before and behind them, in the same block: speeds of blocks
that lie seconds apart differ by some per cent on any shared machine, those of neighbours do not. The ratio is interval
/ (interval + cost); blocks are added until its 95 % confidence interval excludes 0.99, or is within ± 0.005 of its
mean, or time is up. The plain ratio of whole blocks is told beside it. Published sizes of parts (tuples to a group of a
window) have no counterpart: here a part is what came between two checkpoints.
"""

import math
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from scipy.stats import t as student

from riprap.base.clock import SYSTEM_CLOCK
from riprap.base.randomness import generator
from riprap.base.scratch import scratch
from riprap.checkpoints.checkpointer import Checkpointer
from riprap.checkpoints.storage import LocalStorage
from riprap.engine.engine import Engine
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.windows import count, zero
from riprap.protocols.deadlines import Deadlines

PUBLISHED_RATIO = 0.99
WITHIN = 0.005
KEYS = 1_500
INTERVALS = (1, 10)  # seconds
_ROWS, _BATCHES = 2_048, 16  # batches are made beforehand, and given again with new order keys
_SECOND = 1_000_000
_LEAST = 5  # checkpoints, before their cost is believed
_FEWEST = 20  # batches of a block: with fewer, on a machine that is busy elsewhere, a block may have no match at all
_AFTERMATH = 0.1  # seconds: how long after it was durable a checkpoint may still be felt
_AROUND = 4  # spans of a checkpoint, to either side: what its batches are set against


@dataclass(frozen=True)
class JoinCase:
    name: str
    window: int
    per_group: bool
    keys: tuple[int, int]  # distinct ones of S1 and S2
    published: tuple[float, float]  # tuples/s in and out, without checkpoints

    @property
    def full(self) -> int:
        """Tuples that its windows hold in all."""
        return self.window * (self.keys[0] if self.per_group else 1)


SINGLE = tuple(
    JoinCase(f"window of {window:,}", window, False, (KEYS, KEYS), rates)
    for window, rates in {
        8_192: (9350.94, 25451.04),
        16_384: (5054.39, 27180.69),
        32_768: (2503.25, 25643.36),
        65_536: (970.19, 14099.27),
        131_072: (889.64, 13062.59),
    }.items()
)
PER_GROUP = JoinCase("50 windows of 1,024", 1_024, True, (50, 600), (2026.52, 75856.67))
CASES = (*SINGLE, PER_GROUP)
# What is said of the relative performance, by case and interval in seconds: of input and output.
PUBLISHED_LOSS: Mapping[tuple[str, int], str] = {
    (SINGLE[0].name, 1): "below 0.95",
    (SINGLE[2].name, 1): "above 0.99 (512 tuples to a group)",
    (PER_GROUP.name, 1): "0.9863 in, 0.9817 out",
}
PUBLISHED_ACHIEVED: Mapping[tuple[str, int], str] = {(PER_GROUP.name, 10): "10.09 to 10.5 s"}


@dataclass(frozen=True)
class JoinOutcome:
    """One case with one interval. Rates in tuples/s of wall time; ratios are with checkpoints over without."""

    case: str
    interval: int
    input_rate: float  # without checkpoints
    output_rate: float
    ratio: float  # interval / (interval + what a checkpoint costs)
    low: float  # of the ratio, 95 %
    high: float
    block_ratio: float  # of tuples taken in whole blocks
    output_ratio: float  # of tuples given out in whole blocks
    cpu_ratio: float  # tuples per second of CPU, in which the writing thread counts in full
    pairs: int
    achieved: float  # seconds from one checkpoint to the next
    checkpoint_bytes: float
    missed: int

    @property
    def decided(self) -> bool:
        """Whether the interval excludes the published bar, or is narrow enough."""
        return not self.low <= PUBLISHED_RATIO <= self.high or (self.high - self.low) / 2 <= WITHIN


def measure(case: JoinCase, interval: int, seconds: float, *, block: float | None = None) -> JoinOutcome:
    """Run one case for at most so many seconds, at least five pairs of blocks. `block`: seconds, for tests."""
    with scratch("joins") as folder:
        trial = _Trial(case, interval, str(folder), block or float(interval))
        until, pairs = SYSTEM_CLOCK.monotonic() + seconds, list[tuple[_Block, _Block]]()
        while True:
            pairs.append((trial.run(checkpoints=True), trial.run(checkpoints=False)))
            if len(trial.costs) >= _LEAST or len(pairs) > 3 * _LEAST:
                found = _outcome(case, interval, pairs, trial)
                if found.decided or SYSTEM_CLOCK.monotonic() >= until:
                    trial.writer.close()
                    return found


def confidence(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean between the ends of its 95 % confidence interval."""
    mean = statistics.mean(values)
    half = float(student.ppf(0.975, len(values) - 1)) * statistics.stdev(values) / math.sqrt(len(values))
    return mean - half, mean, mean + half


def relative(interval: int, lost: float) -> float:
    """Tuples taken with checkpoints over those without. An end of a wide interval of costs may be below that of having
    no time to spend at all: it says nothing, and is some great ratio.
    """
    return interval / max(interval + lost, interval / 1_000)


def cost(ends: np.ndarray, begun: float, over: float, aftermath: float) -> float | None:
    """Seconds that a checkpoint took from the batches around it; None if none came before it.

    `ends`: when each batch of a block ended, the block beginning at 0. The checkpoint was captured at `begun`, behind a
    batch, and durable at `over`. Batches that end in that span and in its aftermath are set against the mean of those
    nearest to it, as many on either side, so that a machine that becomes slower or faster does not count.
    """
    first = int(np.searchsorted(ends, begun, "right"))  # batches before the capture
    last = min(int(np.searchsorted(ends, over + aftermath, "left")) + 1, len(ends))
    around = min(min(first, len(ends) - last) or max(first, len(ends) - last), _AROUND * (last - first))
    before, behind = min(first, around), min(len(ends) - last, around)
    if before + behind == 0 or last <= first:
        return None
    times = np.diff(ends, prepend=0.0)
    usual = (times[first - before : first].sum() + times[last : last + behind].sum()) / (before + behind)
    return float(times[first:last].sum() - (last - first) * usual)


def _outcome(case: JoinCase, interval: int, pairs: "list[tuple[_Block, _Block]]", trial: "_Trial") -> JoinOutcome:
    low, ratio, high = (relative(interval, lost) for lost in confidence(trial.costs)[::-1])
    taken, given, per_cpu = (
        statistics.geometric_mean(getattr(a, kind) / getattr(b, kind) for a, b in pairs)
        for kind in ("taken", "given", "per_cpu")
    )
    counts = trial.writer.counts["J"]
    return JoinOutcome(
        case.name, interval, statistics.mean(b.taken for _, b in pairs), statistics.mean(b.given for _, b in pairs),
        ratio, low, high, taken, given, per_cpu, len(pairs), trial.with_seconds / max(1, counts.taken),
        counts.bytes / max(1, counts.taken), trial.deadlines.missed,
    )  # fmt: skip


@dataclass(frozen=True)
class _Block:
    """Tuples per second taken and given out, and taken per second of CPU."""

    taken: float
    given: float
    per_cpu: float


def graph_of(case: JoinCase) -> Graph:
    app = App("join")
    right = app.source("S2", "g long, short string")
    app.source("S1", "g long, x long, text string").join(
        right, on="g", left_window=count(case.window), right_window=zero(), per_group=case.per_group, name="J",
        select=["g", "x", "text", "short"],
    ).sink("Out")  # fmt: skip
    return app.build()


class _Trial:
    """One engine, run block by block; its windows are full before the first."""

    def __init__(self, case: JoinCase, interval: int, directory: str, block: float) -> None:
        self.engine, self.block = Engine(graph_of(case)), block
        # In tests a block is shorter than an interval: the clock of checkpoints goes the faster.
        self.pace = interval / block
        self.writer = Checkpointer(LocalStorage(directory), "J", 1, {"J": ["J"]})
        self.deadlines = Deadlines(interval * _SECOND)
        self.with_seconds = 0.0  # on the clock of checkpoints
        self.costs: list[float] = []  # of each checkpoint that lay within its block, in seconds on that clock
        self._clock = interval * _SECOND // 2  # so that one comes in the middle of each block
        self._at = 0
        self._batches = list(_made(case))
        self.deadlines.due(self._clock)
        while self.engine.operators["J"].size() < 0.99 * case.full:
            self._push()

    def run(self, *, checkpoints: bool) -> _Block:
        start, cpu, taken, given = SYSTEM_CLOCK.monotonic(), time.process_time(), 0, 0
        ends, begun, over = list[float](), math.inf, math.inf
        while (elapsed := SYSTEM_CLOCK.monotonic() - start) < self.block or len(ends) < _FEWEST:
            if done := self.writer.finished():
                self.deadlines.unwritten -= len(done)
                over = min(over, elapsed)
            now = self._clock + int(elapsed * self.pace * _SECOND)
            if checkpoints and self.deadlines.due(now) is not None:
                self.deadlines.unwritten += 1
                begun, over = elapsed, math.inf
                self.writer.capture("J", self.engine, {"at": self._at}, now)
            more = self._push()
            taken, given = taken + 2 * _ROWS, given + more
            ends.append(SYSTEM_CLOCK.monotonic() - start)
        if checkpoints:
            self._clock += int(self.block * self.pace * _SECOND)
            self.with_seconds += self.block * self.pace
            found = cost(np.array(ends), begun, over, min(_AFTERMATH, self.block / 10))
            if found is not None:
                self.costs.append(found * self.pace)
        return _Block(taken / elapsed, given / elapsed, taken / (time.process_time() - cpu))

    def _push(self) -> int:
        """A batch to each source; returns how many tuples came out."""
        numbers = np.arange(self._at * _ROWS, (self._at + 1) * _ROWS)
        key = {"_ts": pa.array(numbers, pa.timestamp("us", "UTC")), "_seq": pa.array(numbers)}
        given = 0
        for source, columns in self._batches[self._at % _BATCHES].items():
            for output in self.engine.push(source, pa.record_batch({**columns, **key})):
                given += output.event.num_rows if isinstance(output.event, pa.RecordBatch) else 0
        self._at += 1
        return given


def _made(case: JoinCase) -> Iterator[dict[str, dict[str, pa.Array]]]:
    chance = generator(7, case.name)
    for _ in range(_BATCHES):
        left, right = (pa.array(chance.integers(0, keys, _ROWS)) for keys in case.keys)
        words = ["".join(map(chr, row)) for row in chance.integers(97, 123, (_ROWS, 70)).tolist()]
        yield {
            "S1": {"g": left, "x": pa.array(chance.integers(0, 1 << 40, _ROWS)), "text": pa.array(words)},
            "S2": {"g": right, "short": pa.array([word[:10] for word in words])},
        }
