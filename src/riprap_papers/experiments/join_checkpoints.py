"""The cost of checkpoints of a join: the published experiments (table 3.1, figures 3.11 to 3.13) in one process.

S1 has two integers and a text of 70 bytes, S2 an integer and a text of 10; the window is over S1 alone. Keys are
uniform; 1,500 of them is inferred from the published rates, which have 5.4 matches to a tuple of S2 in a window of
8,192 and twice as many in one of twice the size. The per-group join has 50 windows of 1,024 and 600 keys in S2, as
published.

Blocks of one interval alternate, with checkpoints and without. A checkpoint is taken in the middle of a block; the
clock of checkpoints advances only in blocks with checkpoints. The cost of a checkpoint is the extra time of the batches
from its capture until shortly after it was durable, compared with the batches before and after them in the same block:
the speeds of blocks seconds apart differ by some per cent on any shared machine, those of neighbours do not. The ratio
is interval / (interval + cost); blocks are added until its 95 % confidence interval excludes 0.99, or is within ± 0.005
of its mean, or time is up. The plain ratio of whole blocks is reported, too. Published sizes of parts (tuples to a
group of a window) have no counterpart: here a part is what arrived between two checkpoints.
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
_ROWS, _BATCHES = 2_048, 16  # batches are generated in advance and reused with new order keys
_SECOND = 1_000_000
_LEAST = 5  # checkpoints needed to estimate their cost
_FEWEST = 20  # batches of a block: on a busy machine a block of fewer may have no match at all
_AFTERMATH = 0.1  # seconds after a checkpoint is durable that count as its cost
_AROUND = 4  # spans of a checkpoint, to either side, with which its batches are compared


@dataclass(frozen=True)
class JoinCase:
    name: str
    window: int
    per_group: bool
    keys: tuple[int, int]  # distinct ones of S1 and S2
    published: tuple[float, float]  # tuples/s in and out, without checkpoints

    @property
    def full(self) -> int:
        """Tuples in all its windows."""
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
# Published relative performance of input and output, by case and interval in seconds.
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
    ratio: float  # interval / (interval + cost of a checkpoint)
    low: float  # of the ratio, 95 %
    high: float
    block_ratio: float  # of input tuples in whole blocks
    output_ratio: float  # of output tuples in whole blocks
    cpu_ratio: float  # tuples per second of CPU, including the writing thread
    pairs: int
    achieved: float  # seconds from one checkpoint to the next
    checkpoint_bytes: float
    missed: int

    @property
    def decided(self) -> bool:
        """Whether the interval excludes the published bar, or is narrow enough."""
        return not self.low <= PUBLISHED_RATIO <= self.high or (self.high - self.low) / 2 <= WITHIN


def measure(case: JoinCase, interval: int, seconds: float, *, block: float | None = None) -> JoinOutcome:
    """Run one case for at most `seconds`, with at least five pairs of blocks. `block`: seconds, for tests."""
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
    """Tuples processed with checkpoints, relative to without. A negative end of a wide interval of costs may leave
    no time at all: it means nothing, and gives some large ratio.
    """
    return interval / max(interval + lost, interval / 1_000)


def cost(ends: np.ndarray, begun: float, over: float, aftermath: float) -> float | None:
    """The cost of a checkpoint in seconds, from the batches around it; None if there is none before it.

    `ends`: when each batch of a block ended; the block starts at 0. The checkpoint was captured at `begun`, after a
    batch, and durable at `over`. Batches that end in that span and its aftermath are compared with the mean of the
    nearest ones, equally many on either side, so that a trend in the machine's speed does not count.
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
    """Input and output tuples per second, and input tuples per second of CPU."""

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
    """One engine, run block by block; its windows are full before the first block."""

    def __init__(self, case: JoinCase, interval: int, directory: str, block: float) -> None:
        self.engine, self.block = Engine(graph_of(case)), block
        # In tests a block is shorter than an interval, and the clock of checkpoints is faster.
        self.pace = interval / block
        self.writer = Checkpointer(LocalStorage(directory), "J", 1, {"J": ["J"]})
        self.deadlines = Deadlines(interval * _SECOND)
        self.with_seconds = 0.0  # on the clock of checkpoints
        self.costs: list[float] = []  # of each checkpoint within its block, in seconds on that clock
        self._clock = interval * _SECOND // 2  # puts a checkpoint in the middle of each block
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
        """Process a batch of each source; returns the number of output tuples."""
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
