"""A set of 64-bit hashes with a dense number for each: maps the key hash of a record or row to its window."""

import numpy as np

from riprap.operators.kernels.window_tracking import claim


class HashNumbers:
    """Numbers from 0, in the order in which hashes were added."""

    def __init__(self) -> None:
        self.count = 0
        self._hashes = np.empty(64, np.uint64)
        self._table = np.full(256, -1, np.int64)

    @property
    def hashes(self) -> np.ndarray:
        return self._hashes[: self.count]

    def add(self, hashes: np.ndarray) -> np.ndarray:
        """The number of each hash; unknown hashes get new numbers."""
        need = self.count + len(hashes)
        if need > len(self._hashes):
            larger = np.empty(max(need, 2 * len(self._hashes)), np.uint64)
            larger[: self.count] = self.hashes
            self._hashes = larger
        if 2 * need > len(self._table):
            size = len(self._table)
            while size < 2 * need:
                size *= 2
            self._table = np.full(size, -1, np.int64)
            known = self.hashes.copy()
            claim(known, self._table, self._hashes, 0, True)
        numbers, count = claim(hashes, self._table, self._hashes, self.count, True)
        self.count = int(count)
        return numbers

    def find(self, hashes: np.ndarray) -> np.ndarray:
        """The number of each hash; -1: unknown."""
        return claim(hashes, self._table, self._hashes, self.count, False)[0]
