"""Arrival jitter: the non-determinism of a distributed run, made repeatable.

At a merge, a tuple arrives later than its order key by a delay between 0 and the bound: its stream stalls from time to
time. The arrival is a pure function of (seed, stream, key). It does not depend on the other tuples, so a run that lacks
some tuples delays the rest exactly as the complete run does. Each stream stays in FIFO order."""

from dataclasses import dataclass

import numpy as np

from riprap.base.errors import UsageError
from riprap.base.quantities import Duration
from riprap.base.randomness import derived_seed
from riprap.operators.columns import Keys
from riprap.operators.kernels.delays import stalled_until

_CELLS = 16  # moments within the bound at which a stream may stall


@dataclass(frozen=True)
class Jitter:
    """Delays are between 0 and the bound. Exactly one bound is set."""

    seed: int
    tuples: int | None = None  # bound in tuples of the source; all ports must come from one source
    time: Duration | None = None  # bound in microseconds of event time

    def __post_init__(self) -> None:
        if (self.tuples is None) == (self.time is None):
            raise UsageError("a jitter is bounded either in tuples or in event time: give one of tuples= and time=")
        if (self.tuples or self.time or 0) < 0:
            raise UsageError("the bound of a jitter cannot be negative")

    def arrivals(self, stream: str, keys: Keys) -> np.ndarray:
        """The arrival of each tuple, in tuples or microseconds; ascending if the keys are."""
        bound = int(self.tuples if self.tuples is not None else self.time or 0)
        due = keys.seq if self.tuples is not None else keys.ts
        out = np.empty(len(due), np.int64)
        seed = np.uint64(derived_seed(self.seed, "jitter", stream))
        stalled_until(seed, due, max(1, bound // _CELLS), bound, out)
        return out
