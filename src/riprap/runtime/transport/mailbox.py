"""Where other threads leave arrivals (log followers) and events (the process) for the loop.

`put` blocks while its channel holds more than `buffer_bytes`: meanwhile the caller reads nothing from its log, which is
the back pressure. Events never wait: they are few and small, and may concern the loop itself.
"""

from collections.abc import Callable
from threading import Condition

from riprap.protocols.channels import ChannelId
from riprap.runtime.host import Arrival
from riprap.runtime.transport.loop import Event
from riprap.runtime.transport.weight import weight_of


class Mailbox:
    """`ring` wakes the loop."""

    def __init__(self, buffer_bytes: int, ring: Callable[[], None]) -> None:
        self._limit = buffer_bytes
        self._ring = ring
        self._emptied = Condition()
        self._events: list[Event] = []
        self._held: dict[ChannelId, int] = {}  # bytes
        self._closed = False

    def put(self, arrival: Arrival) -> bool:
        """Add an arrival once its channel has room. False: the mailbox is closed, and the arrival was dropped."""
        size = weight_of(arrival.message)
        with self._emptied:
            self._emptied.wait_for(lambda: self._closed or self._held.get(arrival.channel, 0) <= self._limit)
            if self._closed:
                return False
            self._held[arrival.channel] = self._held.get(arrival.channel, 0) + size
            self._events.append(arrival)
        self._ring()
        return True

    def post(self, event: Event) -> None:
        """Add an event now."""
        with self._emptied:
            if not self._closed:
                self._events.append(event)
        self._ring()

    def take(self, parked: Callable[[ChannelId], bool] | None = None) -> list[Event]:
        """Remove and return everything, in order; arrivals on parked channels stay."""
        if not self._events:
            return []
        with self._emptied:
            taken, self._events = self._events, []
            if parked is not None:
                self._events = [event for event in taken if isinstance(event, Arrival) and parked(event.channel)]
                staying = {id(event) for event in self._events}
                taken = [event for event in taken if id(event) not in staying]
            if self._held:
                still = {event.channel for event in self._events if isinstance(event, Arrival)}
                self._held = {channel: size for channel, size in self._held.items() if channel in still}
                self._emptied.notify_all()
            return taken

    @property
    def filled(self) -> bool:
        return bool(self._events)

    def close(self) -> None:
        """Release waiting threads, and drop later arrivals and events. Earlier ones can still be taken."""
        with self._emptied:
            self._closed = True
            self._emptied.notify_all()
