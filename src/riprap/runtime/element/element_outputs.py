"""The output of an element: partitioned over shards, numbered, stamped, and passed to output channels.

One engine call yields rows and a watermark together, so each channel gets both in one message. All items are numbered,
and the call is committed in the ledger, before the first item leaves.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from riprap.base.clock import Clock
from riprap.engine.engine import Engine, Output
from riprap.graph.mark_keys import promised
from riprap.graph.order_keys import END_KEY, START_KEY, TS, KeyShape, OrderKey, just_after
from riprap.operators.columns import Keys, keys_of
from riprap.operators.contract import Late, Punctuation
from riprap.operators.views import Views
from riprap.protocols.channel import Delivered, SendingEnd
from riprap.protocols.channels import ChannelId
from riprap.replication.digests import INTERVAL, SETTING, OutputDigest
from riprap.runtime.element.divider import Divider
from riprap.runtime.element.entry_times import EntryTimes
from riprap.runtime.element.latency import Latencies
from riprap.runtime.element.ledger import Ledger
from riprap.runtime.element.shard_merge import EngineEvent
from riprap.runtime.host import Host
from riprap.runtime.layout import Layout, Pe
from riprap.runtime.messages import Message, MessageKind
from riprap.runtime.retention.logged import CommittedOutput
from riprap.runtime.retention.output_channel import OutputChannel, OutputStream


class _Stream:
    """A stream out of the element, a tap, or the output of a sink, with its output channels."""

    def __init__(self, shape: KeyShape, channels: list[OutputChannel], divider: Divider | None, *, sink: bool) -> None:
        self.shape, self.channels, self.divider, self.sink = shape, channels, divider, sink
        self.reached: Callable[[], OrderKey]  # its watermark
        self.announced: OrderKey
        self.closed = False  # a feedback stream on which nothing is sent any more
        self.guarded = False  # consumers drop duplicates by key, and punctuations share the keys of tuples
        self.digest: OutputDigest | None = None  # if the element has copies


class Outputs:
    """`sent`: the number of the next item of each channel at the start. `emitted` is called before items of a channel
    are numbered, if the protocol subscribes to it. Latencies count only tuples that entered after `since`.
    """

    def __init__(
        self,
        layout: Layout,
        pe: Pe,
        epoch: int,
        engine: Engine,
        *,
        host: Host,
        ledger: Ledger,
        clock: Clock,
        sent: Mapping[ChannelId, int],
        restored: Mapping[ChannelId, Delivered],
        limit: int,
        exact: bool,
        emitted: Callable[[ChannelId, int, int], None] | None,
        announced: OrderKey | None = None,
        recorded: ChannelId | None = None,
        since: int = 0,
    ) -> None:
        """`restored`: of a restored copy, by channel the position up to which it had emitted. `announced`: a watermark
        that a previous incarnation has announced for certain. `recorded`: the channel whose log carries records."""
        self._ledger = ledger
        self.latencies = Latencies()  # of sinks
        self.entered = EntryTimes()
        self._epoch, self._clock, self._exact, self._emitted, self._since = epoch, clock, exact, emitted, since
        self._host, self._recorded = host, recorded
        self._halted = False
        self.channels: dict[ChannelId, OutputChannel] = {}
        for channel in layout.all_outputs(pe):
            kind, record, lossy = layout.kind(channel), ledger.outputs[channel], layout.protocol.lossy
            sender = SendingEnd(kind.name, sent[channel], record.key, guarded=not exact, lossy=lossy)
            class_ = CommittedOutput if layout.committed(channel) else kind.output
            share = 1.0 if layout.outward(channel) else layout.link(channel.stream).share
            facts = OutputStream(layout.shape(channel), share)
            self.channels[channel] = class_(channel, epoch, sender, record, host, limit, facts)
        self._all = list(self.channels.values())
        self._streams: dict[str, _Stream] = {}
        for channel in self.channels:
            name, sink = channel.stream, layout.sink(channel)
            if name in self._streams:
                continue
            channels = [output for other, output in self.channels.items() if other.stream == name]
            link = None if layout.outward(channel) else layout.link(name)
            divider = None
            if link is not None and link.by:
                divider = Divider(link.by, layout.schema(channel), link.target.divisions)
            stream = _Stream(layout.shape(channel), channels, divider, sink=sink is not None)
            if pe.fragment.copied:
                before = max((record.key for record in ledger.operators.values()), default=START_KEY)
                before = max((restored[output.id].key for output in channels if output.id in restored), default=before)
                stream.digest = OutputDigest(before, layout.settings.get(SETTING, INTERVAL))
            stream.reached = _bind(engine.watermark if sink is None else engine.reached, name)
            stream.guarded = layout.kind(channel).replicated and layout.punctuated(channel)
            self._streams[name] = stream
        for stream in self._streams.values():  # a restored state has a watermark
            stream.announced = max(_promised(stream), announced or START_KEY)
            for output in stream.channels:
                output.announced = stream.announced
                output.start(restored.get(output.id), copied=pe.fragment.copied)

    # Emitting ---------------------------------------------------------------------------------------------------------

    def emit(self, outputs: list[Output], born: int, record: Callable[[bool, OrderKey], bytes] | None = None) -> None:
        """Emit the engine's outputs and watermarks. Commits the call that was begun in the ledger.

        Once all items are numbered, `record` returns the record of the element's state to log with them: it is passed
        whether anything is emitted, and the watermark announced before.
        """
        announced = min(stream.announced for stream in self._streams.values()) if record is not None else START_KEY
        by_stream: dict[str, list[EngineEvent]] = {}
        for name, event in outputs:
            by_stream.setdefault(name, []).append(event)
        leaving: list[tuple[OutputChannel, list[Message], bool]] = []
        for name, stream in self._streams.items():
            watermark = _promised(stream)
            if stream.closed:
                by_stream.pop(name, None)
            if name in by_stream or watermark > stream.announced:
                self._number(stream, by_stream.get(name, ()), watermark, born, leaving)
        self._ledger.commit()
        if record is not None:
            self._append_record(record(bool(by_stream), announced), leaving)
        for output, messages, advanced in leaving:
            if messages:
                output.emit(messages)
            if advanced:
                output.announce(born)
        if leaving:
            self.entered.forget(min(stream.announced for stream in self._streams.values()))
        self.flush()

    def _append_record(self, record: bytes, leaving: list[tuple[OutputChannel, list[Message], bool]]) -> None:
        """Emit a call that has a record at once, the channel that carries the record last."""
        if not record:
            return
        assert self._recorded is not None
        own = self.channels[self._recorded]
        own_messages: list[Message] = []
        for output, messages, _ in leaving:
            if output is own:
                own_messages = list(messages)
            elif messages:
                output.emit(messages)
            messages.clear()
        if len(self.channels) > 1:
            self._host.flush()  # the record promises that the other channels' items are on disk
        if own_messages:
            own.emit(own_messages, record)
        else:
            own.append_record(record)

    def _number(
        self,
        stream: _Stream,
        events: Sequence[EngineEvent],
        watermark: OrderKey,
        born: int,
        leaving: list[tuple[OutputChannel, list[Message], bool]],
    ) -> None:
        """Number the items of a stream. The watermark goes with the last rows of each channel, if it has rows."""
        for event in events if stream.digest is not None else ():
            if stream.digest is not None and isinstance(event, Views):
                stream.digest.add(event, event.column(TS).values)
        advances = watermark > stream.announced
        stream.announced = max(watermark, stream.announced)
        for output, part in zip(stream.channels, self._divided(stream, events), strict=True):
            messages: list[Message] = []
            pending, last = advances, len(part) - 1
            for at, event in enumerate(part):
                rows = isinstance(event, Views)
                carried = watermark if advances and at == last and rows and watermark != END_KEY else None
                message = self._message(stream, output, event, born, carried)
                if message is not None:
                    messages.append(message)
                    pending = pending and carried is None
            if advances:
                output.announced = stream.announced
                if not self._exact and output.sender.promise(watermark):
                    output.record.key = watermark
            if messages or pending:
                leaving.append((output, messages, pending))

    def _divided(self, stream: _Stream, events: Sequence[EngineEvent]) -> Sequence[Sequence[EngineEvent]]:
        """The events for each shard of the consumer; punctuations go to all."""
        if stream.divider is None:
            return [events] * len(stream.channels)
        parts: list[list[EngineEvent]] = [[] for _ in stream.channels]
        for event in events:
            own = event.event if isinstance(event, Late) else event
            if isinstance(own, Punctuation):
                for part in parts:
                    part.append(event)
            else:
                divided = stream.divider.divide(own)
                for lane, part in enumerate(parts):  # every replica of the consumer gets all rows
                    rows = divided[lane % len(divided)]
                    if rows.rows:
                        part.append(event._replace(event=rows) if isinstance(event, Late) else rows)
        return parts

    def _message(
        self, stream: _Stream, output: OutputChannel, event: EngineEvent, born: int, watermark: OrderKey | None
    ) -> Message | None:
        """The numbered items of an event that are beyond the promises of all incarnations."""
        sender = output.sender
        if isinstance(event, Late):
            return None if event.again else self._late(stream, output, event, born)
        if isinstance(event, Punctuation):
            if sender.guarded and sender.broken(_single(event.key)):
                return None
            rows, items, last = None, 1, event.key
        else:
            if sender.guarded:
                broken = sender.broken(keys_of(event, stream.shape))
                if broken == event.rows:
                    return None
                if broken:
                    event = event.slice(broken)
            rows, items = event, event.rows
            last = START_KEY if self._exact else rows.last_key(stream.shape)
        if self._emitted is not None:
            self._emitted(output.id, sender.number, items)
        number = output.number_items(items, event)
        record = output.record
        if not self._exact and sender.promise(last):
            record.key = last
        if rows is None:
            return Message(
                MessageKind.PUNCTUATION, self._epoch, number, punctuation=last, born=born, header=sender.header
            )
        born = self.entered.of(rows.first_key(stream.shape)) or born
        if stream.sink and born > self._since:
            self.latencies.add(self._clock.now() - born, items)
        return Message(MessageKind.ROWS, self._epoch, number, rows, None, watermark, born, sender.header)

    def _late(self, stream: _Stream, output: OutputChannel, late: Late, born: int) -> Message:
        """Late items in a separate message, placed right behind the promised key, whatever their keys are.

        Behind it, not at it: a consumer whose watermark exceeds it on all channels has all items that are late there.
        """
        sender, event = output.sender, late.event
        rows = event if isinstance(event, Views) else None
        items = rows.rows if rows is not None else 1
        if self._emitted is not None:
            self._emitted(output.id, sender.number, items)
        number = output.number_items(items, late)
        if rows is not None and stream.sink and born > self._since:
            self.latencies.add(self._clock.now() - born, items)
        at = just_after(late.at if self._exact else max(late.at, sender.promised))
        if rows is None:
            return Message(MessageKind.PUNCTUATION, self._epoch, number, None, event.key, None, born, sender.header, at)
        return Message(MessageKind.ROWS, self._epoch, number, rows, None, None, born, sender.header, at)

    def close(self, name: str, *, ended: bool) -> None:
        """Close a feedback stream: what is emitted on it from now on is dropped. With `ended` it ends."""
        self._streams[name].closed = True
        if ended:
            self._streams[name].reached = lambda: END_KEY

    def closed(self, name: str) -> bool:
        return self._streams[name].closed or self._streams[name].announced == END_KEY

    def adopt(self, previous: "Outputs") -> None:
        """Adopt what the incarnation that rolled back in this process held for consumers."""
        for channel, output in self.channels.items():
            output.adopt(previous.channels[channel])

    def tick(self) -> Iterator[tuple[str, dict[int, int]]]:
        """Time passes. Yields digests of each stream's output, by completed interval."""
        for output in self.channels.values():
            output.tick()
        for name, stream in self._streams.items():
            if stream.digest is not None and (completed := stream.digest.passed(stream.announced)):
                yield name, completed

    def emitted_to_copies(self) -> dict[ChannelId, Delivered]:
        """The positions up to which channels to or from copies have emitted."""
        return {output.id: output.emitted_to for output in self.channels.values() if output.emitted_to is not None}

    # Consumers --------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Send what there is room for."""
        for output in self._all:
            output.flush()

    def halt(self, halted: bool) -> None:
        """Block all output, or unblock it."""
        self._halted = halted

    def validate(self) -> None:
        """Raise for a broken invariant, between two calls of the engine."""
        for stream in self._streams.values():
            for output in stream.channels:
                output.validate()
                assert output.announced == stream.announced, f"{output.id}: announced {output.announced}"

    @property
    def ready(self) -> bool:
        """Every consumer is known to be up or down."""
        return all(output.ready for output in self.channels.values())

    @property
    def blocked(self) -> bool:
        """A consumer that may be up has no room for pending messages, or the output is halted."""
        return self._halted or any(output.blocked for output in self._all)

    @property
    def ended(self) -> bool:
        """Every stream has ended, and nothing waits to be sent."""
        return all(output.ended for output in self.channels.values())

    @property
    def finished(self) -> bool:
        """As `ended`, but some output may not be published yet."""
        return all(output.finished for output in self.channels.values())


def _promised(stream: _Stream) -> OrderKey:
    """The watermark to announce for the current watermark of the operators."""
    return promised(stream.reached()) if stream.guarded else stream.reached()


def _bind(reached: Callable[[str], OrderKey], name: str) -> Callable[[], OrderKey]:
    return lambda: reached(name)


def _single(key: OrderKey) -> Keys:
    return Keys(*(np.array([part], np.int64) for part in key))
