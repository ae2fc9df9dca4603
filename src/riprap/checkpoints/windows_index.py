"""An in-memory index of the window parts of one port, by the hash of the key."""

import numpy as np

_FIELDS = ("head", "tail", "spoke", "number", "at", "rate", "mentions")


class KeyIndex:
    """Sorted arrays, one entry per key."""

    def __init__(self) -> None:
        self._hashes = np.empty(0, np.uint64)
        self.head = np.empty(0, np.int64)  # range of insertion indices in the window
        self.tail = np.empty(0, np.int64)
        self.spoke = np.empty(0, np.int64)
        self.number = np.empty(0, np.int64)  # checkpoint of the newest entry
        self.at = np.empty(0, np.int64)  # when that was taken, microseconds
        self.rate = np.empty(0, np.float64)  # tuples per second at that time
        self.mentions = np.empty(0, np.int64)  # number of entries in parts

    def update(
        self,
        hashes: np.ndarray,
        head: np.ndarray,
        tail: np.ndarray,
        spoke: np.ndarray,
        number: int,
        at: np.ndarray,
        rate: np.ndarray,
    ) -> None:
        """Set newer bounds of some distinct keys."""
        found = self._found(hashes)
        new = hashes[~found]
        if len(new):
            keep = self.mentions > 0  # remove the others
            keep[np.searchsorted(self._hashes, hashes[found])] = True
            together = np.concatenate([self._hashes[keep], new])
            order = np.argsort(together, kind="stable")
            self._hashes = together[order]
            for name in _FIELDS:
                values = getattr(self, name)
                setattr(self, name, np.concatenate([values[keep], np.zeros(len(new), values.dtype)])[order])
        where = np.searchsorted(self._hashes, hashes)
        self.head[where], self.tail[where], self.spoke[where] = head, tail, spoke
        self.number[where], self.at[where], self.rate[where] = number, at, rate

    def before(self, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Which of these keys are known, and their tail, time and rate (0 if unknown)."""
        known = self._found(hashes)
        tail, at, rate = (np.zeros(len(hashes), dtype) for dtype in (np.int64, np.int64, np.float64))
        where = np.searchsorted(self._hashes, hashes[known])
        tail[known], at[known], rate[known] = self.tail[where], self.at[where], self.rate[where]
        return known, tail, at, rate

    def look_up(self, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Head, tail, number of the newest entry, and mentions."""
        where = np.searchsorted(self._hashes, hashes)
        return self.head[where], self.tail[where], self.number[where], self.mentions[where]

    def mention(self, hashes: np.ndarray, change: int) -> None:
        np.add.at(self.mentions, np.searchsorted(self._hashes, hashes), change)

    def only(self) -> tuple[int, int, int] | None:
        """Head, tail and spoke of the only window, if it exists."""
        return (int(self.head[0]), int(self.tail[0]), int(self.spoke[0])) if len(self.head) else None

    def _found(self, hashes: np.ndarray) -> np.ndarray:
        where = np.minimum(np.searchsorted(self._hashes, hashes), max(len(self._hashes) - 1, 0))
        return self._hashes[where] == hashes if len(self._hashes) else np.zeros(len(hashes), bool)
