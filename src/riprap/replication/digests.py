"""Detection of silent corruption: copies report a digest of their output per interval, and the digests are compared.

Copies emit the same rows in different batches. So the digest of an interval is the sum of the hashes of its rows (order
keys and values), which does not depend on batching; intervals are of event time. A digest is reported when the stream
has passed the end of the interval, and only if the copy was running from its start: a copy that was restored in the
middle of it reports none.

A difference names the stream, and with it the operator, and the interval. If a majority of three or more copies agrees,
the others are wrong; of two copies it is unknown which one is. Corruption that does not reach the output is not
detected: corrupted state shows when a window with it emits.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from riprap.expressions.vectors import address_of
from riprap.graph.order_keys import START_KEY, OrderKey
from riprap.operators.columns import ALL_VALID
from riprap.operators.kernels.hashing import hash_through, hash_words
from riprap.operators.views import ColumnView, Views

SETTING, INTERVAL = "digests", 1_000_000  # a setting of the run: µs of event time
_MAX_PENDING = 4_096  # intervals that some copy has not reported yet
_DICTIONARIES = 64  # whose hashes are remembered


class OutputDigest:
    """The digests of one output stream of a copy. `since`: where its incarnation starts."""

    def __init__(self, since: OrderKey = START_KEY, interval: int = INTERVAL) -> None:
        self._interval = interval
        self._from = None if since == START_KEY else since.ts // interval + 1
        self._sums: dict[int, int] = {}
        self._texts: OrderedDict[tuple[int, ...], tuple[pa.Array, np.ndarray]] = OrderedDict()  # dictionaries live

    def add(self, rows: Views, ts: np.ndarray) -> None:
        """Rows, ascending in time."""
        if not rows.rows:
            return
        hashes = np.zeros(rows.rows, np.uint64)
        for column in rows.columns:
            valid = ALL_VALID if column.valid is None else column.valid
            if column.dictionary is not None:
                hash_through(column.values.astype(np.int64), self._hashes(column), valid, hashes)
            else:
                hash_words(_words(column.values), valid, hashes)
        numbers = ts // self._interval
        starts = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
        for number, total in zip(numbers[starts].tolist(), np.add.reduceat(hashes, starts).tolist(), strict=True):
            self._sums[number] = (self._sums.get(number, 0) + total) & 0xFFFF_FFFF_FFFF_FFFF

    def passed(self, watermark: OrderKey) -> dict[int, int]:
        """The digests of completed intervals, each returned once."""
        number = watermark.ts // self._interval
        over = {at: total for at, total in self._sums.items() if at < number}
        for at in over:
            del self._sums[at]
        return {at: total for at, total in over.items() if self._from is None or at >= self._from}

    def _hashes(self, column: ColumnView) -> np.ndarray:
        """The hashes of a dictionary's texts, which other copies may have in another order."""
        dictionary = column.dictionary
        assert dictionary is not None
        key = address_of(dictionary)
        if key not in self._texts:
            texts = [repr(value).encode() for value in dictionary.to_pylist()] or [b""]
            self._texts[key] = dictionary, np.array([xxhash.xxh3_64_intdigest(text) for text in texts], np.uint64)
            if len(self._texts) > _DICTIONARIES:
                self._texts.popitem(last=False)
        return self._texts[key][1]


def _words(values: np.ndarray) -> np.ndarray:
    if values.dtype == np.float64:
        return np.ascontiguousarray(values).view(np.int64)
    return np.ascontiguousarray(values.astype(np.int64))


@dataclass
class DigestComparison:
    """The digests that the copies of one element reported, at the director."""

    interval: int = INTERVAL
    pending: dict[tuple[str, int], dict[str, int]] = field(default_factory=dict)  # by stream and interval: by copy
    differences: list[dict[str, Any]] = field(default_factory=list)

    def add(self, pe: str, stream: str, digests: Mapping[int, int], living: Iterable[str]) -> list[str]:
        """Returns the copies that are found to be wrong."""
        wrong: list[str] = []
        expected = set(living) | {pe}
        for interval, digest in digests.items():
            by_copy = self.pending.setdefault((stream, interval), {})
            by_copy[pe] = digest
            if set(by_copy) >= expected:
                del self.pending[stream, interval]
                wrong += self._compare(stream, interval, by_copy)
        while len(self.pending) > _MAX_PENDING:
            del self.pending[next(iter(self.pending))]
        return list(dict.fromkeys(wrong))

    def _compare(self, stream: str, interval: int, by_copy: Mapping[str, int]) -> list[str]:
        counts = Counter(by_copy.values())
        if len(counts) < 2:
            return []
        (digest, most), (_, next_most) = counts.most_common(2)
        odd = [pe for pe, pending in by_copy.items() if pending != digest] if most > next_most and most > 1 else []
        self.differences.append(
            {
                "stream": stream,
                "operator": stream.partition("→")[0].partition(".")[0],
                "from": interval * self.interval,
                "to": (interval + 1) * self.interval,
                "copies": sorted(by_copy),
                "odd": odd,
            }
        )
        return odd
