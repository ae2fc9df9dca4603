"""What checkpoints cost a join: the dissertation's experiments on the engine, in one process.

One long run per configuration, in seconds with and without checkpoints in turn; each pair gives a ratio of tuples
taken per second, and of tuples per second of CPU, in which the writing thread counts in full and other processes do
not. A window is full before the first pair. Checkpoints come every second, so each second with them has one, which has
to save what came in two. Intervals of 10 s are left out: a checkpoint is then no larger (a window at most) and ten
times rarer. So are sizes of parts: here a part is what came between two checkpoints.
"""

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.harness import Result, at_least, at_most, confidence, reported
from riprap.base.randomness import generator
from riprap.checkpoints.checkpointer import Checkpointer
from riprap.checkpoints.storage import LocalStorage
from riprap.engine.engine import Engine
from riprap.graph.builder import App
from riprap.graph.windows import count, zero
from riprap.protocols.deadlines import Deadlines

PAIRS = 4
SECOND = 1_000_000
ROWS = 4_096  # of a batch
BATCHES = 32  # made beforehand, and given again with new order keys


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
            pairs = [trial.pair() for _ in range(PAIRS)]
            trial.writer.close()
        counts = trial.writer.counts["J"]
        missed, taken, longest = missed + trial.deadlines.missed, taken + counts.taken, max(longest, trial.longest)
        low, mean, high = confidence([wall for wall, _ in pairs])
        cpu = confidence([cpu for _, cpu in pairs])
        yield at_least(
            f"join with checkpoints every second, {configuration.name}", mean, 0.99,
            f"tuples taken with / without, {PAIRS} pairs of seconds in turn, 95 % confidence {low:.3f} … {high:.3f}; "
            f"per second of CPU {cpu[1]:.3f} ({cpu[0]:.3f} … {cpu[2]:.3f}); "
            f"{counts.bytes / max(1, counts.taken) / 1e6:.2f} MB a checkpoint",
        )  # fmt: skip
    yield at_most("missed deadlines", missed, 0, f"of all {taken} checkpoints above", unit="")
    yield reported("longest capture", 1_000 * longest, "ms", "CPU of the processing thread, over all of the above")


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
        self.writer = Checkpointer(LocalStorage(directory), "J", 1, {"J": ["J"]})
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
        self.deadlines = Deadlines(SECOND)
        self.deadlines.due(self._with)
        while self.engine.operators["J"].size() < 0.99 * configuration.window * (50 if configuration.per_group else 1):
            self._push()

    def pair(self) -> tuple[float, float]:
        """Tuples per second, and per second of CPU, with checkpoints over those without."""
        first, second = self._second(checkpoints=True), self._second(checkpoints=False)
        return first[0] / second[0], first[1] / second[1]

    def _second(self, *, checkpoints: bool) -> tuple[float, float]:
        start, cpu, taken = time.perf_counter(), time.process_time(), 0
        while (elapsed := time.perf_counter() - start) < 1.0:
            taken += self._push()
            now = self._with + int(elapsed * SECOND)
            self.deadlines.unwritten -= len(self.writer.finished())
            if checkpoints and self.deadlines.due(now) is not None:
                self.deadlines.unwritten += 1
                before = time.thread_time()
                self.writer.capture("J", self.engine, {"at": self._at}, now)
                self.longest = max(self.longest, time.thread_time() - before)
        if checkpoints:
            self._with += SECOND
        return taken / elapsed, taken / (time.process_time() - cpu)

    def _push(self) -> int:
        left, right = self._keys[self._at % BATCHES]
        numbers = np.arange(self._at * ROWS, (self._at + 1) * ROWS)
        moments = pa.array(numbers, pa.timestamp("us", "UTC"))
        for source, keys, value in (("S1", left, "x"), ("S2", right, "y")):
            columns = {"g": pa.array(keys), value: pa.array(numbers), "_ts": moments, "_seq": pa.array(numbers)}
            self.engine.push(source, pa.record_batch(columns))
        self._at += 1
        return 2 * ROWS
