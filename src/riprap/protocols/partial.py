"""Partial fault tolerance: every stream has the recovery that it was given, and no element waits for another's.

One machine per life of a processing element. It sees counts and numbers, never tuples: events come in, commands go
out, and the element carries them out. Channels number their items (rows and punctuations) from 0 for the whole run, so
a consumer that knows the next number that it expects knows of any message what is new, repeated or missing.

    recovery   consumer is down                   consumer is back              a message is missing
    gap        discard, count                     send what comes from now on   it is lost, go on
    buffer     hold, until acknowledged           send again from its number    cannot be, unless the producer died
    replay     keep it in the persistent stream   it reads from its checkpoint  cannot be

A producer that comes back goes on with its numbers. If it is repeatable (`exact`) it goes back to the numbers of its
checkpoint and gives out the same items again, and consumers drop what they have had.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from riprap.protocols.channels import ChannelId
from riprap.protocols.events import Acknowledged, ConsumerDown, ConsumerUp, ProducerGone

Recovery = Literal["gap", "buffer", "replay"]

# Events ---------------------------------------------------------------------------------------------------------------


class Arrived(NamedTuple):
    """A message is there: `items` items from `number` on (none: it tells progress or the end after item number - 1).

    Items between the one expected and `number` are missing, and will not come.
    """

    channel: ChannelId
    epoch: int  # the producer's life that sent it
    number: int
    items: int


class Emitted(NamedTuple):
    """The engine gave out items for a channel."""

    channel: ChannelId
    items: int


Event = Arrived | Emitted | ConsumerUp | ConsumerDown | Acknowledged | ProducerGone

# Commands -------------------------------------------------------------------------------------------------------------


class Deliver(NamedTuple):
    """Give the engine the message that arrived, without its first `skip` items; what it says of progress holds."""

    channel: ChannelId
    skip: int


class Await(NamedTuple):
    """Whether the merge by order key is to wait for this channel."""

    channel: ChannelId
    waited: bool


class Send(NamedTuple):
    """Send what was emitted, its first item being `number`; `hold`: and remember it until it is acknowledged."""

    channel: ChannelId
    number: int
    hold: bool


class Hold(NamedTuple):
    """Remember what was emitted: nobody is there to take it."""

    channel: ChannelId
    number: int


class Keep(NamedTuple):
    """Append what was emitted to the persistent stream."""

    channel: ChannelId
    number: int


class Discard(NamedTuple):
    """Forget what was emitted, and count it."""

    channel: ChannelId
    items: int


class Resend(NamedTuple):
    """Send what is held again, from item `first` on."""

    channel: ChannelId
    first: int


class Announce(NamedTuple):
    """Tell the consumer how far the stream has come; `number` is that of its next item."""

    channel: ChannelId
    number: int


class Release(NamedTuple):
    """Forget what is held below this number."""

    channel: ChannelId
    below: int


Command = Deliver | Await | Send | Hold | Keep | Discard | Resend | Announce | Release

# The machine ----------------------------------------------------------------------------------------------------------


@dataclass
class Inlet:
    """A channel that comes in."""

    recovery: Recovery
    next: int  # number of the item that is expected
    epoch: int = -1  # of the producer, the newest heard of
    waited: bool = True


@dataclass
class Outlet:
    """A channel that goes out."""

    recovery: Recovery
    number: int  # of the next item
    up: bool | None = None  # somebody takes it; None: not known yet, so what is sent waits


class Partial:
    """The machine of one life of an element."""

    def __init__(self, inlets: Mapping[ChannelId, Inlet], outlets: Mapping[ChannelId, Outlet]) -> None:
        self.inlets = dict(inlets)
        self.outlets = dict(outlets)

    def handle(self, event: Event) -> list[Command]:
        match event:
            case Arrived():
                return self._arrived(event)
            case Emitted(channel, items):
                return self._emitted(channel, items)
            case ConsumerUp(channel, _, next_):
                outlet = self.outlets[channel]
                outlet.up = True
                if outlet.recovery == "buffer":
                    return [Release(channel, next_), Resend(channel, next_), Announce(channel, outlet.number)]
                return [Announce(channel, outlet.number)]
            case ConsumerDown(channel):
                self.outlets[channel].up = False
                return []
            case Acknowledged(channel, next_):
                return [Release(channel, next_)] if self.outlets[channel].recovery == "buffer" else []
            case ProducerGone(channel, epoch):
                return self._gone(channel, epoch)

    def _arrived(self, event: Arrived) -> list[Command]:
        channel, epoch, number, items = event
        inlet = self.inlets[channel]
        if epoch < inlet.epoch:
            return []  # a life that has been replaced
        commands: list[Command] = []
        inlet.epoch = epoch
        if not inlet.waited:
            inlet.waited = True
            commands.append(Await(channel, True))
        if number + items >= inlet.next:  # else the consumer knows more than the message says
            commands.append(Deliver(channel, max(inlet.next - number, 0)))
            inlet.next = number + items
        return commands

    def _emitted(self, channel: ChannelId, items: int) -> list[Command]:
        outlet = self.outlets[channel]
        number = outlet.number
        outlet.number += items
        if outlet.recovery == "replay":
            return [Keep(channel, number)]
        hold = outlet.recovery == "buffer"
        if outlet.up is False:
            return [Hold(channel, number)] if hold else [Discard(channel, items)]
        return [Send(channel, number, hold)]

    def _gone(self, channel: ChannelId, epoch: int) -> list[Command]:
        inlet = self.inlets[channel]
        if epoch < inlet.epoch or not inlet.waited or inlet.recovery == "replay":
            return []
        inlet.waited = False
        return [Await(channel, False)]
