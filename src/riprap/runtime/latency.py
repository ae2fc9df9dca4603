"""A histogram of latencies with buckets that grow by a tenth: small, mergeable, exact to 10 %."""

from collections.abc import Iterable, Mapping
from math import exp, log

_BASE = log(1.1)
_LEAST = 10.0  # microseconds; everything below falls into bucket 0


class Latencies:
    """How many tuples took how long."""

    def __init__(self, counts: Mapping[int, int] | None = None) -> None:
        self.counts: dict[int, int] = dict(counts or {})

    def add(self, microseconds: float, tuples: int) -> None:
        bucket = 0 if microseconds <= _LEAST else 1 + int(log(microseconds / _LEAST) / _BASE)
        self.counts[bucket] = self.counts.get(bucket, 0) + tuples

    def merge(self, others: Iterable["Latencies"]) -> "Latencies":
        merged = Latencies(self.counts)
        for other in others:
            for bucket, count in other.counts.items():
                merged.counts[bucket] = merged.counts.get(bucket, 0) + count
        return merged

    def quantile(self, q: float) -> float | None:
        """In milliseconds, the upper end of the bucket; None if nothing was measured."""
        total = sum(self.counts.values())
        seen = 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen >= q * total:
                return _LEAST * exp(_BASE * bucket) / 1000
        return None
