"""What leaves an element: divided over shards, numbered, stamped, and given to the output of its channel.

The engine's outputs of one call and the progress that it made are known together, so each channel gets its rows and
what they say of progress in one message. Everything is numbered, and the call committed in the ledger, before the first
of it leaves.
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
from riprap.protocols.channel import Delivered, Retention, SendingEnd
from riprap.protocols.channels import ChannelId
from riprap.replication.digests import INTERVAL, SETTING, OutputDigest
from riprap.runtime.element.copy_output import CopyOutput
from riprap.runtime.element.divider import Divider
from riprap.runtime.element.entry_times import EntryTimes
from riprap.runtime.element.latency import Latencies
from riprap.runtime.element.ledger import Ledger
from riprap.runtime.element.output_channels import OUTPUTS, CommittedOutput, LoggingOutput, OutputChannel
from riprap.runtime.element.remember_output import RememberOutput
from riprap.runtime.element.shard_merge import Given
from riprap.runtime.element.while_down import WhileDownOutput
from riprap.runtime.host import Host
from riprap.runtime.layout import Layout, Pe
from riprap.runtime.messages import Message, MessageKind

_OUTPUTS: Mapping[Retention, type[OutputChannel]] = {
    **OUTPUTS, "remember": RememberOutput, "while-down": WhileDownOutput, "copy": CopyOutput,
}  # fmt: skip


class _Stream:
    """A stream out of the element, a tap, or the output of a sink, with the channels of its channels."""

    def __init__(self, shape: KeyShape, channels: list[OutputChannel], divider: Divider | None, *, sink: bool) -> None:
        self.shape, self.channels, self.divider, self.sink = shape, channels, divider, sink
        self.reached: Callable[[], OrderKey]  # how far it has come
        self.announced: OrderKey
        self.closed = False  # nothing goes back on it any more
        self.guarded = False  # consumers drop by key, and punctuations share the keys of tuples
        self.digest: OutputDigest | None = None  # of an element in copies


class Outputs:
    """`sent`: the number of the next item of each channel, as the life begins. `emitted` is asked for each channel
    before items of it are numbered, where the protocol wants to know. Latencies are of what was born after `since`.
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
        given: Mapping[ChannelId, Delivered],
        limit: int,
        exact: bool,
        emitted: Callable[[ChannelId, int, int], None] | None,
        told: OrderKey | None = None,
        recorded: ChannelId | None = None,
        since: int = 0,
    ) -> None:
        """`given`: by channel of a copy that was restored, what had been given out on it.
        `told`: progress that another life has told for sure. `recorded`: the channel whose log carries records."""
        self._ledger = ledger
        self.latencies = Latencies()  # of what left through sinks
        self.entered = EntryTimes()
        self._epoch, self._clock, self._exact, self._emitted, self._since = epoch, clock, exact, emitted, since
        self._host, self._recorded = host, recorded
        self._halted = False
        self.channels: dict[ChannelId, OutputChannel] = {}
        for channel in layout.all_outputs(pe):
            retention, record = layout.retention(channel), ledger.outputs[channel]
            lossy = layout.protocol.lossy
            sender = SendingEnd(retention, sent[channel], record.key, guarded=not exact, lossy=lossy)
            kind = CommittedOutput if layout.committed(channel) else _OUTPUTS[retention]
            output = kind(channel, epoch, sender, record, host, limit)
            if isinstance(output, RememberOutput | WhileDownOutput | CopyOutput):
                output.shape = layout.shape(channel)
            if isinstance(output, WhileDownOutput):
                output.share = layout.link(channel.stream).share
            self.channels[channel] = output
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
                before = max((given[output.id].key for output in channels if output.id in given), default=before)
                stream.digest = OutputDigest(before, layout.settings.get(SETTING, INTERVAL))
            stream.reached = _of(engine.watermark if sink is None else engine.reached, name)
            by_key = any(isinstance(output, RememberOutput | CopyOutput) for output in channels)
            stream.guarded = by_key and layout.punctuated(channel)
            self._streams[name] = stream
        for stream in self._streams.values():  # a state that was restored may have come some output already
            stream.announced = max(_promised(stream), told or START_KEY)
            for output in stream.channels:
                output.announced = stream.announced
                if isinstance(output, CopyOutput) and output.id in given:
                    output.begin_since(given[output.id])
                elif isinstance(output, CopyOutput) and pe.fragment.copied:
                    output.begin_empty()

    # Giving out -------------------------------------------------------------------------------------------------------

    def emit(self, outputs: list[Output], born: int, record: Callable[[bool, OrderKey], bytes] | None = None) -> None:
        """Outputs of the engine, and the progress that it has made. Ends the call that the ledger has begun.

        `record` is asked, when all is numbered, for what is to be kept with it of the element's own state: it is told
        whether anything is given out, and the progress that was told before.
        """
        told = min(stream.announced for stream in self._streams.values()) if record is not None else START_KEY
        given: dict[str, list[Given]] = {}
        for name, event in outputs:
            given.setdefault(name, []).append(event)
        leaving: list[tuple[OutputChannel, list[Message], bool]] = []
        for name, stream in self._streams.items():
            watermark = _promised(stream)
            if stream.closed:
                given.pop(name, None)
            if name in given or watermark > stream.announced:
                self._leave(stream, given.get(name, ()), watermark, born, leaving)
        self._ledger.commit()
        if record is not None:
            self._append_record(record(bool(given), told), leaving)
        for output, messages, news in leaving:
            if messages:
                output.emit(messages)
            if news:
                output.announce(born)
        if leaving:
            self.entered.forget(min(stream.announced for stream in self._streams.values()))
        self.flush()

    def _append_record(self, record: bytes, leaving: list[tuple[OutputChannel, list[Message], bool]]) -> None:
        """What has a record leaves at once, and that of the channel with the records last."""
        if not record:
            return
        assert self._recorded is not None
        own = self.channels[self._recorded]
        assert isinstance(own, LoggingOutput)
        mine: list[Message] = []
        for output, messages, _ in leaving:
            if output is own:
                mine = list(messages)
            elif messages:
                output.emit(messages)
            messages.clear()
        if len(self.channels) > 1:
            self._host.flush()  # the record promises that what the others had is there
        if mine:
            own.emit(mine, record)
        else:
            own.append_record(record)

    def _leave(
        self,
        stream: _Stream,
        events: Sequence[Given],
        watermark: OrderKey,
        born: int,
        leaving: list[tuple[OutputChannel, list[Message], bool]],
    ) -> None:
        """Number what leaves on a stream. The progress goes with the last rows of each channel, if there are any."""
        for event in events if stream.digest is not None else ():
            if stream.digest is not None and isinstance(event, Views):
                stream.digest.add(event, event.column(TS).values)
        news = watermark > stream.announced
        stream.announced = max(watermark, stream.announced)
        for output, part in zip(stream.channels, self._divided(stream, events), strict=True):
            messages: list[Message] = []
            told, last = news, len(part) - 1
            for at, event in enumerate(part):
                rows = isinstance(event, Views)
                tell = watermark if news and at == last and rows and watermark != END_KEY else None
                message = self._message(stream, output, event, born, tell)
                if message is not None:
                    messages.append(message)
                    told = told and tell is None
            if news:
                output.announced = stream.announced
                if not self._exact and output.sender.promise(watermark):
                    output.record.key = watermark
            if messages or told:
                leaving.append((output, messages, told))

    def _divided(self, stream: _Stream, events: Sequence[Given]) -> Sequence[Sequence[Given]]:
        """What goes to each shard of the consumer: punctuations to all."""
        if stream.divider is None:
            return [events] * len(stream.channels)
        parts: list[list[Given]] = [[] for _ in stream.channels]
        for event in events:
            own = event.event if isinstance(event, Late) else event
            if isinstance(own, Punctuation):
                for part in parts:
                    part.append(event)
            else:
                divided = stream.divider.divide(own)
                for lane, part in enumerate(parts):  # every replica of the consumer gets all of it
                    rows = divided[lane % len(divided)]
                    if rows.rows:
                        part.append(event._replace(event=rows) if isinstance(event, Late) else rows)
        return parts

    def _message(
        self, stream: _Stream, output: OutputChannel, event: Given, born: int, watermark: OrderKey | None
    ) -> Message | None:
        """What of an event no life has promised not to give out, numbered."""
        sender = output.sender
        if isinstance(event, Late):
            return None if event.again else self._late(stream, output, event, born)
        if isinstance(event, Punctuation):
            if sender.guarded and sender.broken(_one(event.key)):
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
        """In a message of its own, right behind all that was promised to have passed, whatever its keys are.

        Behind it, not at it: so a consumer that has heard of more progress on all channels has all that is late there.
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
        """A feedback stream: what is given out on it from now on does not leave; when all are closed, it ends."""
        self._streams[name].closed = True
        if ended:
            self._streams[name].reached = lambda: END_KEY

    def closed(self, name: str) -> bool:
        return self._streams[name].closed or self._streams[name].announced == END_KEY

    def adopt(self, previous: "Outputs") -> None:
        """What the life that went back, in the same process, held for consumers."""
        for channel, output in self.channels.items():
            output.adopt(previous.channels[channel])

    def tick(self) -> Iterator[tuple[str, dict[int, int]]]:
        """Time passes. Digests of what was given out on each stream, by interval that is over."""
        for output in self.channels.values():
            if isinstance(output, CopyOutput):
                output.remind()
        for name, stream in self._streams.items():
            if stream.digest is not None and (over := stream.digest.passed(stream.announced)):
                yield name, over

    def emitted_to_copies(self) -> dict[ChannelId, Delivered]:
        """What was given out to copies, or by one."""
        return {output.id: output.given for output in self.channels.values() if isinstance(output, CopyOutput)}

    # Consumers --------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Send what there is room for."""
        for output in self._all:
            output.flush()

    def halt(self, halted: bool) -> None:
        """Whether nothing is to be given out: nobody asks for what has no room."""
        self._halted = halted

    @property
    def ready(self) -> bool:
        """Of every consumer it is known whether it is there."""
        return all(output.ready for output in self.channels.values())

    @property
    def blocked(self) -> bool:
        """Some consumer that is not known to be down has no room for what it is to get; or nothing is to be given."""
        return self._halted or any(output.blocked for output in self._all)

    @property
    def ended(self) -> bool:
        """Every stream has ended, and nothing waits to be sent."""
        return all(output.ended for output in self.channels.values())

    @property
    def finished(self) -> bool:
        """The same, but that some of it cannot be seen yet."""
        return all(output.finished for output in self.channels.values())


def _promised(stream: _Stream) -> OrderKey:
    """What consumers may be told when operators have come so far."""
    return promised(stream.reached()) if stream.guarded else stream.reached()


def _of(reached: Callable[[str], OrderKey], name: str) -> Callable[[], OrderKey]:
    return lambda: reached(name)


def _one(key: OrderKey) -> Keys:
    return Keys(*(np.array([part], np.int64) for part in key))
