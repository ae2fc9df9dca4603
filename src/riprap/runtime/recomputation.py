"""Recomputes what an element misses, in its own process: its ancestors run again, from data on disk.

When a recomputed channel resumes at a later item than its consumer expects (one of the two died, or their connection
broke), the items in between have to be recomputed. The *cone* of the missing channels consists of all ancestors up to
the nearest persistent streams, which are logs and source inputs. Each ancestor is restored from the newest checkpoint
whose outputs are not ahead of what is needed, and they are connected in memory. They are ordinary elements with the
same numbers, so they emit the same items; they write nothing, and only the missing items leave the cone.

One `bring` is some turns of each element of the cone; the host calls it in its loop, so heartbeats continue. The failed
process does all the work, and healthy ones none. The cost is the sum of the work of the cone.

Fault model: what it reads survives processes (`protocols/recompute.py` specifies what is retained), and it has no side
effects. After a crash it starts again.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from riprap.base.clock import Clock
from riprap.base.errors import DataError
from riprap.checkpoints.load import Loaded
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import Cut
from riprap.protocols.events import ConsumerUp
from riprap.protocols.protocol import WHOLE
from riprap.protocols.protocol import Protocol as Idle
from riprap.runtime.element.element import HELD_BYTES, Element
from riprap.runtime.element.ledger import ledger_shape, memory_ledger
from riprap.runtime.host import Arrival, Missing, NoEffects, Recomputed, SourceFeed, Spill
from riprap.runtime.layout import Layout, Pe
from riprap.runtime.messages import Message

_ROOM = 16  # messages between two elements of a cone


class StoredHistory(Protocol):
    """Read access to data that survives processes."""

    def checkpoint(self, pe: str, fits: Callable[[Mapping[str, Any]], bool]) -> Loaded | None:
        """The newest checkpoint of a whole element whose cut, as JSON, fits; None: there is none."""

    def logged(self, channel: ChannelId, position: int) -> Callable[[], Arrival | None]:
        """A reader of the log of a channel, from a position on: each call returns the next message; None: not now."""

    def feed(self, pe: Pe, source: str, position: int) -> SourceFeed:
        """The input of a source."""

    def spill(self, channel: ChannelId) -> Spill:
        """Storage for what does not fit into memory."""


class Recomputation:
    """For one incarnation of an element. `compiled`: its ancestors run as generated loops, as in a run.

    `at_once`: seconds of work in one `bring`; with 0 one turn.
    """

    def __init__(
        self,
        layout: Layout,
        history: StoredHistory,
        clock: Clock,
        *,
        batch_rows: int,
        held_bytes: int = HELD_BYTES,
        compiled: bool = True,
        at_once: float = 0.0,
    ) -> None:
        idle = replace(layout.protocol, machine=Idle)  # nothing is captured
        self._layout, self._history, self._clock = replace(layout, protocol=idle), history, clock
        self._batch_rows, self._held_bytes, self._compiled = batch_rows, held_bytes, compiled
        self._at_once = at_once
        self._cone: _Cone | None = None

    @property
    def moves(self) -> bool:
        """Whether there is work to do now: not if the last turn waits for other elements."""
        return self._cone is None or self._cone.moved

    def bring(self, missing: Missing) -> list[Recomputed]:
        """Do some of the work, and return the results. If nothing is missing, drop the cone.

        Items may turn out to be missing on silent channels too. So the cone includes them from the start, and retains
        their items until that is known: a second cone for another channel would do all the work twice.
        """
        if not missing.holes:
            if not missing.silent:
                self._cone = None
            return []
        if self._cone is None or not self._cone.reaches(missing):
            needed = {**missing.silent, **{channel: first for channel, (first, _) in missing.holes.items()}}
            self._cone = _Cone(
                self._layout, self._history, self._clock, needed, self._batch_rows, self._held_bytes, self._compiled
            )
        return self._cone.turns(missing, self._at_once)


class _Cone:
    def __init__(
        self,
        layout: Layout,
        history: StoredHistory,
        clock: Clock,
        needed: Mapping[ChannelId, int],
        batch_rows: int,
        held_bytes: int,
        compiled: bool,
    ) -> None:
        self._clock = clock
        self.moved = True  # in the last turn
        self._next = dict(needed)  # by channel: the next item
        self._out: dict[ChannelId, deque[Message]] = {channel: deque() for channel in needed}
        self._silent: Mapping[ChannelId, int] = {}
        self._shadows: dict[str, _Shadow] = {}
        expected = dict(self._next)  # by channel: the first item needed
        for pe in reversed(layout.pes):
            own = {c: expected[c] for c in layout.outputs(pe) if c in expected}
            if not own:
                continue
            loaded = history.checkpoint(pe.id, _emits(own))
            shadow = _Shadow(self, layout, pe, history, batch_rows)
            shadow.element = Element(
                layout,
                pe,
                -1,
                host=shadow,
                ledger=memory_ledger(ledger_shape(layout, pe)),
                clock=clock,
                checkpointer=None,
                loaded={WHOLE: loaded},
                feeds=shadow.feed,
                rates=None,
                batch_rows=batch_rows,
                held_bytes=held_bytes,
                cut_everywhere=not compiled,
            )
            self._shadows[pe.id] = shadow
            for channel in layout.inputs(pe):
                if layout.kind(channel).recomputed:
                    expected[channel] = shadow.element.expected(channel)
        self._order = list(reversed(self._shadows.values()))  # upstream first
        self._consumers = {c: self._shadows.get(layout.consumer(c)) for c in expected}
        for shadow in self._order:
            shadow.start()

    def reaches(self, missing: Missing) -> bool:
        """Whether the cone has not yet passed what is missing."""
        return all(self._next.get(channel, first + 1) <= first for channel, (first, _) in missing.holes.items())

    def turns(self, missing: Missing, seconds: float) -> list[Recomputed]:
        """Do turns, at least one, until everything is recomputed, the time is over, or nothing moves."""
        self._silent = missing.silent
        until, recomputed = self._clock.monotonic() + seconds, self._turn(missing)
        while self.moved and self._clock.monotonic() < until and not self._done(missing):
            recomputed += self._turn(missing)
        return recomputed

    def _done(self, missing: Missing) -> bool:
        return all(self._next[channel] >= last for channel, (_, last) in missing.holes.items())

    def _turn(self, missing: Missing) -> list[Recomputed]:
        moved = [shadow.turn() for shadow in self._order]
        recomputed = self._collect(missing)
        self.moved = any(moved) or bool(recomputed)
        return recomputed

    def _collect(self, missing: Missing) -> list[Recomputed]:
        recomputed = []
        for channel, waiting in self._out.items():
            _, last = missing.holes.get(channel, (0, 0))
            while waiting and channel not in missing.silent:
                message = waiting.popleft()
                self._next[channel] = message.number + message.items
                part = _below(message, last)
                if part is not None:
                    recomputed.append(Recomputed(channel, part))
        return recomputed

    def put(self, channel: ChannelId, message: Message) -> bool:
        """Accept a message of an element of the cone; False: no room now."""
        waiting = self._out.get(channel)
        if waiting is not None:
            # Silent channels need no bound: the cone stops when it has recomputed what is missing elsewhere.
            if len(waiting) >= _ROOM and channel not in self._silent:
                return False
            waiting.append(message)
            return True
        consumer = self._consumers.get(channel)
        return consumer is None or consumer.put(Arrival(channel, message))


class _Shadow(NoEffects):
    """An element of a cone, and its host."""

    def __init__(self, cone: _Cone, layout: Layout, pe: Pe, history: StoredHistory, rows: int) -> None:
        self.element: Element
        self._cone, self._layout, self._pe, self._history = cone, layout, pe, history
        self._rows = rows  # to read of a log in one turn
        self._inbox: deque[Arrival] = deque()
        self._logs: dict[ChannelId, Callable[[], Arrival | None]] = {}
        self._read_to: dict[ChannelId, tuple[int, int]] = {}  # position, and the number there
        self._alone: frozenset[ChannelId] = frozenset()  # logs that are not merged with recomputed channels

    def start(self) -> None:
        element = self.element
        layout, inputs = self._layout, self._layout.inputs(self._pe)
        merged = {layout.stream(channel).target for channel in inputs if not layout.kind(channel).logged}
        for channel in inputs:
            if layout.kind(channel).logged:
                self._read_to[channel] = element.replay_from(channel)
        self._alone = frozenset(channel for channel in self._read_to if layout.stream(channel).target not in merged)
        outputs = [c for c in self._layout.outputs(self._pe) if not self._layout.kind(c).logged]
        element.handle([ConsumerUp(channel, 0, 0) for channel in outputs])

    def turn(self) -> bool:
        """Process messages from the cone; then a part of each log, or as much as lets the merge proceed.

        Returns whether anything moved. If a log is merged with recomputed channels, neither runs ahead of the other:
        processing input beyond what is missing would be wasted.
        """
        events = list[Arrival]()
        if not self.element.unread:
            events += self._inbox
            self._inbox.clear()
        moved = self.element.handle(events)
        for channel in self._read_to:
            while channel not in self.element.unread and self.element.lags(channel):
                arrivals = self._logged(channel)
                moved = self.element.handle(arrivals) or moved
                if not arrivals or channel in self._alone:
                    break
        return moved

    def put(self, arrival: Arrival) -> bool:
        if len(self._inbox) >= _ROOM:
            return False
        self._inbox.append(arrival)
        return True

    def _logged(self, channel: ChannelId) -> list[Arrival]:
        position, number = self._read_to[channel]
        if channel not in self._logs:
            self._logs[channel] = self._history.logged(channel, position)
        following, arrivals, rows = self._logs[channel], list[Arrival](), 0
        while rows < self._rows:
            arrival = following()
            if arrival is None:
                break
            arrivals.append(arrival)
            rows += max(1, arrival.message.items)
        for arrival in arrivals:
            if arrival.message.items and arrival.message.number > number:
                raise DataError(
                    f"{self._pe.id} cannot be recomputed: the log of channel {channel} starts at item "
                    f"{arrival.message.number}, and {number} is needed; its checkpoints are damaged, or were deleted"
                )
            number = max(number, arrival.message.number + arrival.message.items)
            self._read_to[channel] = arrival.position, number
        return arrivals

    def feed(self, source: str, position: int) -> SourceFeed:
        return self._history.feed(self._pe, source, position)

    # Effects go only to the cone.

    def send(self, channel: ChannelId, message: Message, after: int | None = None) -> bool:
        return self._cone.put(channel, message)

    def spill(self, channel: ChannelId) -> Spill:
        return self._history.spill(channel)


def _emits(needed: Mapping[ChannelId, int]) -> Callable[[Mapping[str, Any]], bool]:
    """Tells whether an element that rolls back to a cut emits the needed items again."""

    def fits(positions: Mapping[str, Any]) -> bool:
        sent = Cut.from_json(positions).sent
        return all(sent[channel] <= number for channel, number in needed.items())

    return fits


def _below(message: Message, last: int) -> Message | None:
    """Its items before number `last`: the sources may have stopped there, and its watermark be beyond."""
    if message.number >= last:
        return None
    if message.batch is None or message.number + message.items <= last:
        return message
    return replace(message, batch=message.batch.slice(0, last - message.number), watermark=None)
