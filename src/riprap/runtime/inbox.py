"""Where everything that happens around a processing element meets its loop.

Endpoint threads and log followers `put` arrivals, senders `post` events; the loop takes all of it, in the order in
which it came. An arrival waits while its channel holds more than `buffer_bytes`: that is the back pressure, because
whoever waits here reads nothing from its connection or log. Events never wait: they are few and small, and the loop
may itself be what they are about.
"""

from collections import defaultdict, deque
from threading import Condition, Lock

from riprap.protocols.channels import ChannelId
from riprap.protocols.events import Acknowledged, ConsumerDown, ConsumerUp, LinkEvent
from riprap.runtime.hosting import Arrival
from riprap.runtime.transport.weight import Weigher

InboxEvent = Arrival | LinkEvent


class Inbox:
    def __init__(self, buffer_bytes: int) -> None:
        self._limit = buffer_bytes
        lock = Lock()
        self._filled = Condition(lock)
        self._emptied = Condition(lock)
        self._events: deque[InboxEvent] = deque()
        self._held: dict[ChannelId, int] = {}  # bytes
        self._weighers: defaultdict[ChannelId, Weigher] = defaultdict(Weigher)
        self._woken = False
        self._closed = False

    def put(self, arrival: Arrival) -> bool:
        """Add an arrival once its channel has room. False: the inbox is closed, and the arrival was dropped."""
        size = self._weighers[arrival.channel].weigh(arrival.message)
        with self._emptied:
            self._emptied.wait_for(lambda: self._closed or self._held.get(arrival.channel, 0) <= self._limit)
            if self._closed:
                return False
            self._held[arrival.channel] = self._held.get(arrival.channel, 0) + size
            self._events.append(arrival)
            self._filled.notify()
            return True

    def post(self, event: InboxEvent) -> None:
        """Add an event now."""
        with self._filled:
            if not self._closed:
                self._events.append(event)
                self._filled.notify()

    def take(self, timeout: float) -> list[InboxEvent]:
        """Everything that is there; if nothing is, whatever comes first within `timeout` seconds."""
        with self._filled:
            self._filled.wait_for(lambda: self._events or self._woken or self._closed, timeout)
            self._woken = False
            taken = list(self._events)
            self._events.clear()
            if self._held:
                self._held.clear()
                self._emptied.notify_all()
            return taken

    def take_events(self) -> list[InboxEvent]:
        """What consumers have said. Arrivals and the ends of their connections stay: nothing they cause has room."""
        with self._filled:
            consumers = (ConsumerUp, ConsumerDown, Acknowledged)
            taken: list[InboxEvent] = [event for event in self._events if isinstance(event, consumers)]
            if taken:
                self._events = deque(event for event in self._events if not isinstance(event, consumers))
            return taken

    def wake(self) -> None:
        """Make a `take` that waits, or else the next one, return at once."""
        with self._filled:
            self._woken = True
            self._filled.notify()

    def close(self) -> None:
        """Let everybody go who waits, and drop what comes from now on. What is there can still be taken."""
        with self._filled:
            self._closed = True
            self._filled.notify_all()
            self._emptied.notify_all()
