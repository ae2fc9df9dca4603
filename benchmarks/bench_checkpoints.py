"""What checkpoints cost a join: the dissertation's experiments on the engine, in one process.

One long run per configuration, in seconds with and without checkpoints in turn; each pair gives a ratio of tuples taken.
A window is full before the first pair. Checkpoints come every second, so each second with them has one, which has to
save what came in two. Intervals of 10 s are left out: a checkpoint is then no larger (a window at most) and ten times
rarer. So are sizes of parts: here a part is what came between two checkpoints.
"""

import math
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.harness import Result, at_least, at_most, reported
from riprap.base.randomness import generator
from riprap.checkpoints.checkpointer import Checkpointer
from riprap.checkpoints.storage import LocalStorage
from riprap.engine.engine import Engine
from riprap.graph.builder import App
from riprap.graph.windows import count, zero

PAIRS = 4
SECOND = 1_000_000
ROWS = 4_096  # of a batch
BATCHES = 32  # made beforehand, and given again with new order keys
STUDENT = 3.182  # 97.5 % point of Student's t with PAIRS - 1 degrees of freedom


@dataclass(frozen=True)
class Configuration:
    name: str
    window: int
    per_group: bool
    keys: tuple[int, int]  # distinct ones of S1 and S2
    zipf: float = 0.0  # exponent of S1's keys; 0: uniform


SINGLE = [Configuration(f"window {2**n:,}", 2**n, False, (2**n // 4, 2**n // 4)) for n in range(13, 18)]
PER_GROUP = [
    Configuration("50 groups of 1,024, uniform", 1_024, True, (50, 600)),
    Configuration("50 groups of 1,024, Zipf", 1_024, True, (50, 600), 1.0),
]


def run() -> Iterator[Result]:
    missed, longest, taken = 0, 0.0, 0
    for configuration in SINGLE + PER_GROUP:
        with tempfile.TemporaryDirectory(prefix="riprap-bench-") as scratch:
            trial = Trial(configuration, scratch)
            ratios = [math.log(trial.pair()) for _ in range(PAIRS)]
            trial.writer.close()
        counts = trial.writer.counts["J"]
        missed, taken, longest = missed + counts.missed, taken + counts.taken, max(longest, trial.longest)
        half = STUDENT * statistics.stdev(ratios) / math.sqrt(PAIRS)
        mean = statistics.mean(ratios)
        low, high = math.exp(mean - half), math.exp(mean + half)
        yield at_least(
            f"join with checkpoints every second, {configuration.name}", math.exp(mean), 0.99,
            f"tuples taken with / without, {PAIRS} pairs of seconds in turn, 95 % confidence {low:.3f} … {high:.3f}; "
            f"{counts.bytes / max(1, counts.taken) / 1e6:.2f} MB a checkpoint",
        )  # fmt: skip
    yield at_most("missed deadlines", missed, 0, f"of all {taken} checkpoints above", unit="")
    yield reported("longest pause for a capture", 1_000 * longest, "ms", "over all of the above")


class Trial:
    """One engine, run second by second."""

    def __init__(self, configuration: Configuration, directory: str) -> None:
        app = App("join")
        right = app.source("S2", "g long, y long")
        joined = app.source("S1", "g long, x long").join(
            right, on="g", left_window=count(configuration.window), right_window=zero(),
            per_group=configuration.per_group, name="J",
        )  # fmt: skip
        joined.sink("Out")
        self.engine = Engine(app.build())
        self.writer = Checkpointer(LocalStorage(directory), "J", 1, {"J": (["J"], SECOND)})
        self.longest = 0.0
        chance = generator(7, configuration.name)
        chances = np.arange(1, configuration.keys[0] + 1) ** -configuration.zipf
        self._keys = [
            (
                chance.choice(configuration.keys[0], ROWS, p=chances / chances.sum()),
                chance.integers(0, configuration.keys[1], ROWS),
            )
            for _ in range(BATCHES)
        ]
        self._at = 0
        self._with = SECOND // 2  # microseconds spent with checkpoints: so that one comes in the middle of each second
        self.writer.due(self._with)
        while self.engine.operators["J"].size() < 0.99 * configuration.window * (50 if configuration.per_group else 1):
            self._push()
        self.pair()

    def pair(self) -> float:
        """Tuples in a second with checkpoints over those in a second without."""
        return self._second(checkpoints=True) / self._second(checkpoints=False)

    def _second(self, *, checkpoints: bool) -> float:
        start, taken = time.perf_counter(), 0
        while (elapsed := time.perf_counter() - start) < 1.0:
            taken += self._push()
            now = self._with + int(elapsed * SECOND)
            if checkpoints and self.writer.due(now):
                before = time.perf_counter()
                self.writer.capture("J", self.engine, {"at": self._at}, now)
                self.longest = max(self.longest, time.perf_counter() - before)
        if checkpoints:
            self._with += SECOND
        return taken / elapsed

    def _push(self) -> int:
        left, right = self._keys[self._at % BATCHES]
        numbers = np.arange(self._at * ROWS, (self._at + 1) * ROWS)
        moments = pa.array(numbers, pa.timestamp("us", "UTC"))
        for source, keys, value in (("S1", left, "x"), ("S2", right, "y")):
            columns = {"g": pa.array(keys), value: pa.array(numbers), "_ts": moments, "_seq": pa.array(numbers)}
            self.engine.push(source, pa.record_batch(columns))
        self._at += 1
        return 2 * ROWS
