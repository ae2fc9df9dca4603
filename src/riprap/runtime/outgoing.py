"""What leaves an element: divided over shards, numbered, and sent, held, kept or discarded as the machine says."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa

from riprap.base.clock import Clock
from riprap.engine.engine import Output
from riprap.graph.keys import END_KEY, START_KEY, KeyShape, OrderKey
from riprap.operators.columns import keys_of
from riprap.operators.contract import Event, Punctuation
from riprap.protocols import partial
from riprap.protocols.channels import ChannelId
from riprap.protocols.partial import Outlet, Partial
from riprap.runtime.births import Births
from riprap.runtime.dividing import Divider
from riprap.runtime.held import Held, Spill
from riprap.runtime.hosting import Host
from riprap.runtime.latency import Latencies
from riprap.runtime.layout import Layout, Link, Pe
from riprap.runtime.ledger import Ledger, outlets_of, sink_channel
from riprap.runtime.messages import Kind, Message


class Outgoing:
    """The channels out of one element, and out of its sinks."""

    def __init__(
        self,
        layout: Layout,
        pe: Pe,
        epoch: int,
        host: Host,
        ledger: Ledger,
        clock: Clock,
        held_bytes: int,
        *,
        exact: bool,
    ) -> None:
        self.latencies = Latencies()  # of what left through sinks
        self.births = Births()
        self._layout, self._epoch, self._host, self._ledger, self._clock = layout, epoch, host, ledger, clock
        self._exact = exact  # numbers go back to those of the checkpoint, and what is given out again is the same
        self._links: dict[str, Link] = {link.stream.id: link for link in layout.links if link.source == pe.fragment}
        self.channels = outlets_of(layout, pe)
        self._of_stream: dict[str, list[ChannelId]] = {}
        for channel in self.channels:
            self._of_stream.setdefault(channel.stream, []).append(channel)
        self._dividers = {
            stream: Divider(link.by, self._schema(link), link.target.shards)
            for stream, link in self._links.items()
            if link.by
        }
        self._outbox: dict[ChannelId, deque[Message]] = {channel: deque() for channel in self.channels}
        self._held: dict[ChannelId, Held] = {
            channel: Held(held_bytes, _spilling(host, channel))
            for channel in self.channels
            if self.recovery(channel) == "buffer"
        }
        self._told = dict.fromkeys(self._of_stream, START_KEY)  # progress made known, by stream
        self._told_held: dict[ChannelId, OrderKey] = {}  # and to consumers of buffered channels, who hear it later
        # Keys up to which nothing will be given out; and where another life said so, as a state that went back might.
        self._floor = {channel: ledger.key(f"out:{channel}") for channel in self.channels}
        self._promised = {} if exact else dict(self._floor)

    def _schema(self, link: Link) -> pa.Schema:
        return self._layout.graph.physical(link.stream.source, link.stream.source_port)

    def recovery(self, channel: ChannelId) -> partial.Recovery:
        """A sink's output is always kept."""
        return self._links[channel.stream].recovery if channel.stream in self._links else "replay"

    def outlets(self, numbers: Mapping[str, int]) -> dict[ChannelId, Outlet]:
        """As a life begins: with the numbers of its checkpoint where they count, else with those of the log or ledger.

        What was numbered and did not get into the log before the crash was never there.
        """
        outlets = {}
        for channel in self.channels:
            name, recovery = f"out:{channel}:number", self.recovery(channel)
            if not self._exact and recovery == "replay":
                self._ledger[name] = self._host.kept(channel)
            outlets[channel] = Outlet(recovery, numbers.get(name, self._ledger[name]))
        return outlets

    def attach(self, machine: Partial, reached: Callable[[str], OrderKey]) -> None:
        """Begin, with a state that may have come some way already."""
        self._machine = machine
        self._told = {stream: self._reached(stream, reached) for stream in self._told}

    def _reached(self, stream: str, reached: Callable[[str], OrderKey]) -> OrderKey:
        return reached(stream if stream in self._links else stream.removesuffix("→"))

    # Giving out -------------------------------------------------------------------------------------------------------

    def give(self, outputs: list[Output], born: int, reached: Callable[[str], OrderKey]) -> None:
        """Outputs of the engine; `reached` tells how far a stream, or the input of a sink, has come."""
        for name, event in outputs:
            stream = name if name in self._links else sink_channel(name).stream
            for channel, part in self._divided(stream, event):
                self._emit(channel, part, born)
        for stream, told in self._told.items():
            progress = self._reached(stream, reached)
            if progress > told:
                self._told[stream] = progress
                for channel in self._of_stream[stream]:
                    self._promise(channel, progress)
                    self._announce(channel, progress, born)
        self.flush()

    def _divided(self, stream: str, event: Event) -> list[tuple[ChannelId, Event]]:
        channels, divider = self._of_stream[stream], self._dividers.get(stream)
        if divider is None or isinstance(event, Punctuation):
            return [(channel, event) for channel in channels]
        return [(c, part) for c, part in zip(channels, divider.divide(event), strict=True) if part.num_rows]

    def _emit(self, channel: ChannelId, given: Event, born: int) -> None:
        event = self._unpromised(channel, given)
        if event is None:
            return
        items = 1 if isinstance(event, Punctuation) else event.num_rows
        (command,) = self._machine.handle(partial.Emitted(channel, items))
        name = f"out:{channel}:number"
        self._ledger[name] = max(self._machine.outlets[channel].number, self._ledger[name])
        self._promise(channel, self._last_key(channel, event))
        match command:
            case partial.Discard():
                self._ledger.add(f"out:{channel}:discarded", items)
            case partial.Keep(_, number):
                message = self._message(channel, number, event, born)
                self._host.keep(channel, message)
                if message.born and channel.stream not in self._links:
                    self.latencies.add(self._clock.now() - message.born, items)
            case partial.Hold(_, number) | partial.Send(_, number, True):
                self._held[channel].add(self._message(channel, number, event, born))
            case partial.Send(_, number):
                self._outbox[channel].append(self._message(channel, number, event, born))

    def _unpromised(self, channel: ChannelId, event: Event) -> Event | None:
        """What no life has promised not to give out; keys never fall on a channel."""
        promised = self._promised.get(channel)
        if promised is None:
            return event
        if isinstance(event, Punctuation):
            return event if event.key > promised else None
        keys = keys_of(event, self._shape(channel.stream))
        again = bisect_right(range(event.num_rows), promised, key=keys.at)
        if again == event.num_rows:
            return None
        del self._promised[channel]  # from here on the engine's order is enough
        return event.slice(again)

    def _promise(self, channel: ChannelId, key: OrderKey) -> None:
        """Nothing at or below this key will be given out, in this life or another."""
        if not self._exact and key > self._floor[channel]:
            self._floor[channel] = key
            self._ledger.set_key(f"out:{channel}", key)

    def _last_key(self, channel: ChannelId, event: Event) -> OrderKey:
        if isinstance(event, Punctuation):
            return event.key
        return keys_of(event.slice(event.num_rows - 1), self._shape(channel.stream)).at(0)

    def _message(self, channel: ChannelId, number: int, event: Event, born: int) -> Message:
        if isinstance(event, Punctuation):
            return Message(Kind.PUNCTUATION, self._epoch, number, punctuation=event.key, born=born)
        key = keys_of(event.slice(0, 1), self._shape(channel.stream)).at(0)
        return Message(Kind.ROWS, self._epoch, number, batch=event, born=self.births.of(key) or born)

    def _shape(self, stream: str) -> KeyShape:
        graph = self._layout.graph
        if stream in self._links:
            return graph.stream_shape(self._links[stream].stream)
        return graph.input_shapes(stream.removesuffix("→"))[0]

    # Progress ---------------------------------------------------------------------------------------------------------

    def _announce(self, channel: ChannelId, progress: OrderKey, born: int) -> None:
        outlet = self._machine.outlets[channel]
        message = self._progress(channel, progress, born)
        if outlet.recovery == "replay":
            self._host.keep(channel, message)
            return
        if channel in self._held or outlet.up is False:
            return  # it is told behind what is held; or when somebody is there
        outbox = self._outbox[channel]
        if outbox and outbox[-1].kind is Kind.PROGRESS:
            outbox[-1] = message
        elif outbox and outbox[-1].kind is Kind.ROWS and message.kind is Kind.PROGRESS:
            outbox[-1] = replace(outbox[-1], progress=progress)
        else:
            outbox.append(message)

    def _progress(self, channel: ChannelId, progress: OrderKey, born: int = 0) -> Message:
        kind = Kind.END if progress == END_KEY else Kind.PROGRESS
        return Message(kind, self._epoch, self._machine.outlets[channel].number, progress=progress, born=born)

    # Consumers --------------------------------------------------------------------------------------------------------

    def consumer_down(self, channel: ChannelId) -> None:
        """What was to be sent is lost, or held."""
        self._outbox[channel].clear()

    def release(self, channel: ChannelId, below: int) -> None:
        self._held[channel].release(below)

    def resend(self, channel: ChannelId, first: int) -> None:
        self._held[channel].rewind(first)

    def announce_again(self, channel: ChannelId) -> None:
        """To a consumer that has just come: how far the stream is."""
        if channel in self._held:
            self._told_held.pop(channel, None)
        else:
            self._outbox[channel].append(self._progress(channel, self._told[channel.stream]))

    def flush(self) -> None:
        """Send what there is room for."""
        for channel, outbox in self._outbox.items():
            while outbox and self._host.send(channel, outbox[0]):
                outbox.popleft()
        for channel, held in self._held.items():
            if self._machine.outlets[channel].up:
                self._flush_held(channel, held)

    def _flush_held(self, channel: ChannelId, held: Held) -> None:
        message = held.next()
        while message is not None:
            if not self._host.send(channel, message):
                return
            held.sent()
            message = held.next()
        progress = self._told[channel.stream]
        untold = held.drained and progress != self._told_held.get(channel)
        if untold and self._host.send(channel, self._progress(channel, progress)):
            self._told_held[channel] = progress

    @property
    def ready(self) -> bool:
        """Of every consumer it is known whether it is there."""
        return all(outlet.up is not None or outlet.recovery == "replay" for outlet in self._machine.outlets.values())

    @property
    def blocked(self) -> bool:
        """Some consumer that is not known to be down has no room for what it is to get."""
        outlets = self._machine.outlets
        return any(self._outbox.values()) or any(
            held.unsent and outlets[channel].up is not False for channel, held in self._held.items()
        )

    @property
    def ended(self) -> bool:
        """Every stream has ended, and nothing waits to be sent."""
        return (
            all(progress == END_KEY for progress in self._told.values())
            and not any(self._outbox.values())
            and all(self._told_held.get(channel) == END_KEY for channel in self._held)
        )


def _spilling(host: Host, channel: ChannelId) -> Callable[[], Spill]:
    return lambda: host.spill(channel)
