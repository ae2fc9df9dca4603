"""One incarnation of an element under the simulated host: carries out its effects, and may die in the middle of one."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from riprap.protocols.channels import ChannelId
from riprap.protocols.events import Durable
from riprap.runtime.element.element import Element
from riprap.runtime.element.ledger import Ledger
from riprap.runtime.host import HostEvent
from riprap.runtime.layout import Pe
from riprap.runtime.messages import Message, MessageKind
from riprap.runtime.recomputation import Recomputation
from riprap.testing import simulated

if TYPE_CHECKING:
    from riprap.testing.simulation import Simulation

ROOM = 8  # messages in flight on one channel


class Died(Exception):
    """A simulated crash in the middle of a call."""


class SimulatedIncarnation:
    """One incarnation of an element, and its host."""

    def __init__(self, simulation: "Simulation", pe: Pe, epoch: int, ledger: Ledger, line: int, process: int) -> None:
        self.pe, self.epoch, self.ledger, self.line = pe, epoch, ledger, line
        self.process = process  # the epoch of the first incarnation in it
        self.alive = True
        self.element: Element
        self.recomputation: Recomputation
        self.inbox: list[HostEvent] = []
        self.wires: dict[ChannelId, simulated.Wire] = {}  # out
        self.terms: dict[ChannelId, int] = {}  # out of a group: the terms to open channels with
        self.newest: dict[ChannelId, int] = {}  # in: the newest epoch of an accepted producer
        self.finished = False
        self.stalled_until = 0  # until then it does nothing, and events wait in the inbox
        self.doomed_at: int | None = None  # effects left before it dies
        self.stores: int | None = None  # writes to the ledger left before it dies
        self.down = 0  # microseconds from its death until the next incarnation starts
        self._simulation = simulation
        self._recorded = 0  # records of earlier incarnations

    def stored(self) -> None:
        """A cell of the ledger is about to be written."""
        if self.stores is not None:
            self.stores -= 1
            if self.stores < 0:
                raise Died

    def _effect(self) -> None:
        if self.doomed_at is not None:
            self.doomed_at -= 1
            if self.doomed_at < 0:
                raise Died

    def send(self, channel: ChannelId, message: Message, after: int | None = None) -> bool:
        self._effect()
        assert message.number >= 0, f"channel {channel}: a frame cannot have the number {message.number}"
        wire = self.wires.get(channel)
        if wire is None or wire.broken or len(wire.queue) >= ROOM:
            return False
        if wire.next is not None and message.kind is not MessageKind.MARKER:
            if (message.number if after is None else after) > wire.next:
                return False  # it would leave a gap
            wire.next = message.number + message.items
        wire.queue.append(message)
        self._simulation.under_way(wire)
        return True

    def open(self, channel: ChannelId, epoch: int) -> None:
        self.shut(channel)
        self.terms[channel] = epoch
        self._simulation.opened(channel)

    def shut(self, channel: ChannelId) -> None:
        self.terms.pop(channel, None)
        wire = self.wires.pop(channel, None)
        if wire is not None and not wire.broken:
            self._simulation.hung_up(wire)

    def append(self, channel: ChannelId, message: Message, record: bytes = b"") -> None:
        self._effect()
        self._simulation.log(channel).append(message, record)

    def append_record(self, channel: ChannelId, record: bytes) -> None:
        self._effect()
        self._simulation.log(channel).record(record)

    def records(self, channel: ChannelId) -> Iterator[bytes]:
        log = self._simulation.log(channel)
        self._recorded = len(log.records)
        return reversed(log.records)

    def stable_records(self, channel: ChannelId) -> int:
        return len(self._simulation.log(channel).records) - self._recorded

    def row(self, channel: ChannelId) -> int:
        return self._simulation.log(channel).next

    def retain(self, channel: ChannelId, row: int) -> None:
        pass

    def warn(self, text: str) -> None:
        pass

    def log_end(self, channel: ChannelId) -> int:
        return self._simulation.log(channel).next

    def log_max_time(self, channel: ChannelId) -> int:
        return self._simulation.log(channel).until

    def flush(self) -> None:
        self._effect()
        self._simulation.flush_logs(self)

    def acknowledge(self, channel: ChannelId, next_: int) -> None:
        self._simulation.acknowledged(self, channel, next_)

    def release_inputs(self, positions: Mapping[str, int]) -> None:
        self._simulation.released_inputs[self.pe.id] = dict(positions)

    def release(self, channel: ChannelId, position: int) -> None:
        self._simulation.released[channel] = position

    def spill(self, channel: ChannelId) -> simulated.ListSpill:
        return simulated.ListSpill()

    def shelf(self, channel: ChannelId) -> simulated.MemoryShelf:
        return self._simulation.shelves.setdefault(channel, simulated.MemoryShelf()).of(self._effect)

    def checkpoint_durable(self, durable: Durable, size: int, taken: int) -> None:
        self._simulation.took(self, durable, size)

    def send_to_director(self, message: Mapping[str, Any]) -> None:
        tell = lambda host: host.heard(self.pe.id, self.epoch, message)  # noqa: E731
        self._simulation.to_director(self.pe.id, tell)
