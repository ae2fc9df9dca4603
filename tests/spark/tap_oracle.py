"""What became of every tuple, from the books of the taps alone (`tapped.py`). Shares no code with the runtime.

A tap writes what it takes before anybody counts it, and passes on what it takes. So of a stream from X to Y

    sent      what X wrote
    received  what Y wrote, each once
    repeated  what Y wrote again

up to the one call that was going on when a tap was killed: written, and not yet counted as received or as sent. That
is the last record of a killed life, and nothing else. Of a buffered stream the call is then repeated, as nobody knows
of it; or it was noted as had, and the kill fell between that and the count. On replayed streams into repeatable
elements the counts are exact: what was not counted is taken again, and what is taken again is not counted.
"""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np


class Book(NamedTuple):
    """All lives of one tap; by (way, number): how often it took that tuple."""

    taken: Counter
    unsure: Counter  # last records of lives that were killed
    killed: tuple = ()  # of each life that was killed, all that it took, in order

    def of_way(self, way):
        pick = lambda counter: Counter({key: n for key, n in counter.items() if key[0] == way})  # noqa: E731
        return Book(pick(self.taken), pick(self.unsure))

    def passed_on(self, way):
        """As it looks downstream of a tap that sets the way."""
        mark = lambda counter: Counter({(way, number): n for (_, number), n in counter.items()})  # noqa: E731
        return Book(mark(self.taken), mark(self.unsure))

    @property
    def once(self):
        return len(self.taken)

    @property
    def again(self):
        return self.taken.total() - len(self.taken)

    @property
    def slack(self):
        return self.unsure.total()


def read_book(books: Path, tap: str, killed: set[int]) -> Book:
    taken, unsure, ended = Counter(), Counter(), []
    for path in books.glob(f"{tap}.*"):
        records = _records(np.fromfile(path, np.int64))
        for record in records:
            taken.update(record)
        if records and int(path.name.split(".")[1]) in killed:
            unsure.update(records[-1])
            ended.append([key for record in records for key in record])
    return Book(taken, unsure, tuple(ended))


def _records(words):
    records, at = [], 0
    while at < len(words):
        n = int(words[at])
        numbers, ways = words[at + 1 : at + 1 + n], words[at + 1 + n : at + 1 + 2 * n]
        if len(ways) == n:  # else a kill fell into the write, and nobody has counted what was being taken
            records.append(list(zip(ways.tolist(), numbers.tolist(), strict=True)))
        at += 1 + 2 * n
    return records


def check_gap(stream: dict, sent: Book, received: Book) -> None:
    """`sent` and `received` are the books at the two ends of the stream."""
    assert sent.taken.total() - sent.slack <= stream["sent"] <= sent.taken.total()
    assert received.once - received.slack <= stream["received"] <= received.once
    assert stream["lost"] == stream["sent"] - stream["received"]
    assert stream["repeated"] == 0
    assert not received.again
    assert set(received.taken) <= set(sent.taken)


def check_buffer(stream: dict, numbers: int, received: Book) -> None:
    """All `numbers` were sent: the producer was not killed."""
    assert stream["sent"] == stream["received"] == received.once == numbers
    assert stream["lost"] == stream["repeated"] == 0
    twice = Counter({key: n - 1 for key, n in received.taken.items() if n > 1})
    assert twice <= received.unsure


def check_replay(stream: dict, numbers: int, received: Book) -> None:
    assert stream["sent"] == stream["received"] == received.once == numbers
    assert stream["lost"] == stream["repeated"] == 0


def check_sink(there: list, taken: Book) -> None:
    """A sink that is not exact misses, of each killed life, the last that its log had not written; and nothing else."""
    rows = set(there)
    assert len(rows) == len(there)
    assert rows <= set(taken.taken)
    tails = set()
    for life in taken.killed:
        missing = next((at for at, key in enumerate(life) if key not in rows), len(life))
        assert rows.isdisjoint(life[missing:])
        tails.update(life[missing:])
    assert set(taken.taken) - rows == tails
