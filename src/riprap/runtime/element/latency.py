"""A histogram of latencies with buckets that grow by a tenth: small, mergeable, exact to 5 %.

`format_latency` shows no more digits than that.
"""

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
        """In milliseconds, the middle of the bucket; None if the histogram is empty."""
        total = sum(self.counts.values())
        seen = 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen and seen >= q * total:
                return _LEAST * exp(_BASE * (bucket - 0.5)) / 1000
        return None

    def since(self, before: Mapping[int, int]) -> "Latencies":
        """The difference to an earlier state of this histogram."""
        return Latencies({bucket: count - before.get(bucket, 0) for bucket, count in self.counts.items()})


def format_latency(milliseconds: float) -> str:
    """Two significant digits, for display."""
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.2g} s" if milliseconds < 99_500 else f"{milliseconds / 1000:,.0f} s"
    return f"{milliseconds:.2g} ms" if milliseconds < 99.5 else f"{round(milliseconds, -1):.0f} ms"
