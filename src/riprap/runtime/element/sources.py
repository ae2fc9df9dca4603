"""The sources of an element: how much of their inputs is due, and when to poll again.

A source is paced by the schedule of its run (`host.SourcePace`), which starts with the first poll and continues while
the element is down; the source catches up on what became due meanwhile. When the run stops, no new rows are read, but
rows that a previous incarnation read before a rollback are read again, because their output has been sent.

The batch size follows from how long a batch takes. A tuple may become thousands behind the source, all of them in
memory at once; and an element that computes for seconds without a break sends no heartbeat.
"""

from collections.abc import Callable, Mapping

import pyarrow as pa

from riprap.base.clock import Clock
from riprap.graph.order_keys import END_KEY, OrderKey
from riprap.protocols.channel import ALL
from riprap.runtime.element.ledger import Ledger
from riprap.runtime.host import Rates, SourceFeed, pace_of

_FIRST_ROWS = 4_096  # of a source at first, if its batches may be as large
_LEAST_ROWS = 256
_LONG, _SHORT = 0.25, 0.05  # seconds of a turn: above the first the batch is halved, below the second it is doubled
_LOOK = 5_000  # microseconds between polls of a followed input without rows

# Push: rows of a source up to a position, and when they were due. Advance: its watermark without rows.
Push = Callable[[str, pa.RecordBatch, int, int], None]
Advance = Callable[[str, OrderKey], None]


class Sources:
    """The sources that have not ended. `feeds` are positioned where this incarnation starts."""

    def __init__(
        self, feeds: Mapping[str, SourceFeed], rates: Rates, ledger: Ledger, clock: Clock, batch_rows: int
    ) -> None:
        self.stopping = False  # no new rows are read
        self.idle = False  # no rows at the last poll
        self._feeds, self._records, self._clock, self._batch_rows = dict(feeds), ledger.sources, clock, batch_rows
        self._rows = min(batch_rows, _FIRST_ROWS)  # at once, at most
        self._paces = {name: pace_of(rates, name) for name in feeds}
        self._missed = {  # rows of each that were due before this start
            name: pace.rows(self._records[name].started_at, clock.now(), 0, ALL)
            for name, pace in self._paces.items()
            if pace.rate is not None and self._records[name].started_at
        }

    def __bool__(self) -> bool:
        return bool(self._feeds)

    @property
    def catching_up(self) -> bool:
        """They still read rows that became due while the element was down."""
        return any(feed.position < self._missed.get(name, 0) for name, feed in self._feeds.items())

    def pull(self, push: Push, advance: Advance, *, at_once: int = 0) -> bool:
        """Read the rows that are due, at least `at_once` of them in a batch; False: there were none."""
        pulled = polled = False
        begun = self._clock.monotonic()
        for name, feed in list(self._feeds.items()):
            now = self._clock.now()
            started, pace = self._started(name, now), self._paces[name]
            most = max(self._rows, at_once)
            if self.stopping:
                most = min(most, self._records[name].position - feed.position)
            rows = pace.rows(started, now, feed.position, most)
            born = min(now, pace.due(started, now, feed.position + rows // 2))  # of its middle tuple
            batch = feed.next(rows) if rows > 0 else None
            polled = polled or rows > 0
            if batch is not None:
                pulled = True
                push(name, batch, feed.position, born)
            elif feed.ended or (self.stopping and most <= 0):
                del self._feeds[name]
                advance(name, END_KEY)
            elif rows > 0 and feed.watermark is not None:
                advance(name, feed.watermark)
        self.idle = polled and not pulled
        if pulled:
            self._adapt(self._clock.monotonic() - begun)
        return pulled

    def next_due(self) -> int | None:
        """When to poll again, microseconds of the wall clock; None: all sources have ended."""
        if not self._feeds:
            return None
        now = self._clock.now()
        least = now + _LOOK if self.idle else now
        polls = (
            self._paces[name].next_poll(self._started(name, now), now, feed.position)
            for name, feed in self._feeds.items()
        )
        return min(max(poll, least) for poll in polls)

    def _adapt(self, seconds: float) -> None:
        if seconds > _LONG:
            self._rows = max(self._rows // 2, min(self._batch_rows, _LEAST_ROWS))
        elif seconds < _SHORT:
            self._rows = min(self._rows * 2, self._batch_rows)

    def _started(self, source: str, now: int) -> int:
        """When the source's row 0 was due; the first poll decides."""
        record = self._records[source]
        if not record.started_at:
            record.started_at = self._paces[source].start(now, self._feeds[source].position)
        return int(record.started_at)
