"""The sources of an element: how much of their inputs is due, and when to look again.

A source is paced by the schedule of its run (`hosting.Pace`), which begins with the first look at it and goes on while
the element is down; what was due meanwhile is made up for. When the run is over nothing new is taken: but what another
life took, and this one has gone back behind, has been sent on, so it is read up to there.

How much is taken at once goes by how long that takes. A tuple may become thousands behind the source, all of which are
in memory at once; and an element that computes for seconds without a break gives no sign of life.
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
_LONG, _SHORT = 0.25, 0.05  # seconds of a turn: from then on half as many rows are taken, up to then twice as many
_LOOK = 5_000  # microseconds between looks at an input that is followed and brought nothing

# Rows of a source up to a position, and when they were due; and how far it has come without any.
Push = Callable[[str, pa.RecordBatch, int, int], None]
Advance = Callable[[str, OrderKey], None]


class Sources:
    """Those that have not ended. `feeds` stand where this life begins."""

    def __init__(
        self, feeds: Mapping[str, SourceFeed], rates: Rates, ledger: Ledger, clock: Clock, batch_rows: int
    ) -> None:
        self.over = False  # nothing new is taken
        self.idle = False  # they had nothing when they were last looked at
        self._feeds, self._records, self._clock, self._batch_rows = dict(feeds), ledger.sources, clock, batch_rows
        self._rows = min(batch_rows, _FIRST_ROWS)  # at once, at most
        self._paces = {name: pace_of(rates, name) for name in feeds}
        self._missed = {  # rows of each that were due while it was down
            name: pace.rows(self._records[name].started_at, clock.now(), 0, ALL)
            for name, pace in self._paces.items()
            if pace.rate is not None and self._records[name].started_at
        }

    def __bool__(self) -> bool:
        return bool(self._feeds)

    @property
    def catching_up(self) -> bool:
        """They work off what was due while the element was down."""
        return any(feed.position < self._missed.get(name, 0) for name, feed in self._feeds.items())

    def pull(self, push: Push, advance: Advance, *, at_once: int = 0) -> bool:
        """Take what is due, in larger batches than usual where `at_once` rows may be taken; False: nothing was."""
        took = looked = False
        begun = self._clock.monotonic()
        for name, feed in list(self._feeds.items()):
            now = self._clock.now()
            started, pace = self._started(name, now), self._paces[name]
            most = max(self._rows, at_once)
            if self.over:
                most = min(most, self._records[name].position - feed.position)
            rows = pace.rows(started, now, feed.position, most)
            born = min(now, pace.due(started, now, feed.position + rows // 2))  # of its middle tuple
            batch = feed.next(rows) if rows > 0 else None
            looked = looked or rows > 0
            if batch is not None:
                took = True
                push(name, batch, feed.position, born)
            elif feed.ended or (self.over and most <= 0):
                del self._feeds[name]
                advance(name, END_KEY)
            elif rows > 0 and feed.watermark is not None:
                advance(name, feed.watermark)
        self.idle = looked and not took
        if took:
            self._adapt(self._clock.monotonic() - begun)
        return took

    def next_due(self) -> int | None:
        """When to look again, microseconds of the wall clock; None: no source here goes on."""
        if not self._feeds:
            return None
        now = self._clock.now()
        least = now + _LOOK if self.idle else now
        looks = (
            self._paces[name].next_look(self._started(name, now), now, feed.position)
            for name, feed in self._feeds.items()
        )
        return min(max(look, least) for look in looks)

    def _adapt(self, seconds: float) -> None:
        if seconds > _LONG:
            self._rows = max(self._rows // 2, min(self._batch_rows, _LEAST_ROWS))
        elif seconds < _SHORT:
            self._rows = min(self._rows * 2, self._batch_rows)

    def _started(self, source: str, now: int) -> int:
        """When the source's row 0 was due; the first look at it decides."""
        record = self._records[source]
        if not record.started_at:
            record.started_at = self._paces[source].begin(now, self._feeds[source].position)
        return int(record.started_at)
