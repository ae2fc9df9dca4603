"""The events that a protocol handles and the commands that it returns.

These belong to the state machine of one element (`protocol.Protocol`); those of a director are in `director.py`.
Numbers count items: rows and punctuations of a channel, from 0 over the whole run.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from riprap.graph.order_keys import OrderKey
from riprap.protocols.channel import Delivered
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import CheckpointId, Cut

# Connection events, which a host passes to an element. The element updates its channels first and then passes the
# event to the protocol.


class ConsumerUp(NamedTuple):
    """A consumer is connected and expects item `next`."""

    channel: ChannelId
    epoch: int
    next: int
    delivered: Delivered = Delivered()  # the same position for a replica that takes over and numbers items differently


class ConsumerDown(NamedTuple):
    """The consumer is not connected."""

    channel: ChannelId


class Acknowledged(NamedTuple):
    """The consumer will not request an item below `next` again."""

    channel: ChannelId
    next: int


class ProducerGone(NamedTuple):
    """The connection from the producer's incarnation `epoch` broke before the end of the stream."""

    channel: ChannelId
    epoch: int


class FromDirector(NamedTuple):
    """A message from the director to the protocol of this element: a JSON object that only these two interpret."""

    message: Mapping[str, Any]


LinkEvent = ConsumerUp | ConsumerDown | Acknowledged | ProducerGone

# Events that the element itself raises -------------------------------------------------------------------------------


class ProducerBack(NamedTuple):
    """The element is about to accept the first message of a channel after `ProducerGone`, after a restart of the
    producer, or after a gap of missing items. If the protocol answers with `Park`, the message is parked, and this
    event is raised again when it is unparked.

    `same`: the producer's incarnation is the same as before, so only a connection broke.
    """

    channel: ChannelId
    epoch: int
    same: bool = False


class Arrived(NamedTuple):
    """The element is about to accept items from `number` on. Duplicates were dropped already."""

    channel: ChannelId
    number: int
    items: int
    header: bytes


class MarkerArrived(NamedTuple):
    """A marker has arrived. `number`: the next item of its producer at the time it sent the marker.

    Markers are handled on arrival, before the merge. A marker sent `ahead` arrives before items below `number`.
    """

    channel: ChannelId
    number: int
    marker: bytes


class Ended(NamedTuple):
    """The element has accepted the end of a channel: no item or marker follows."""

    channel: ChannelId


class Passed(NamedTuple):
    """All items of the channel below `next` were delivered to the operators, and none below `left` is in their state.

    (`left` = `next` where an operator does not declare what it retains.)
    """

    channel: ChannelId
    next: int
    left: int


class DeliveredUpTo(NamedTuple):
    """The delivered position of a channel from a replicated producer, raised with a `Tick`."""

    channel: ChannelId
    delivered: Delivered


class OutputDigested(NamedTuple):
    """Digests of what a copy of an element emitted on a stream, by completed interval of event time."""

    stream: str
    digests: Mapping[int, int]


class StateDigested(NamedTuple):
    """The digest of the operators' state after all input up to `key` and nothing beyond.

    None: they had already passed the key, or were restored to a position behind it.
    """

    key: OrderKey
    digest: int | None


class Emitted(NamedTuple):
    """Items are about to be numbered, from `number` on. A `Stamp` in the answer sets their header."""

    channel: ChannelId
    number: int
    items: int


class Tick(NamedTuple):
    """Raised several times per shortest interval of the plan. Microseconds of the wall clock."""

    now: int


class Durable(NamedTuple):
    """A checkpoint of this incarnation and its logs are on disk. The director gets `director.CheckpointDurable`."""

    id: CheckpointId
    cut: Cut
    tag: int  # that of `TakeCheckpoint`
    forced: bool
    cost: int = 0  # CPU microseconds for copying and writing it


class Dropped(NamedTuple):
    """A checkpoint of this incarnation will not become durable: its base was deleted during the run."""

    unit: str
    tag: int


class Deleted(NamedTuple):
    """The director deleted checkpoints of a unit; `oldest` is the cut of the oldest remaining one."""

    unit: str
    oldest: Cut


Event = (
    LinkEvent | FromDirector | ProducerBack | Arrived | MarkerArrived | Ended | Passed | DeliveredUpTo
    | OutputDigested | StateDigested | Emitted | Tick | Durable | Dropped | Deleted
)  # fmt: skip

# Commands, executed in order ------------------------------------------------------------------------------------------


class Deliver(NamedTuple):
    """Answer to `Arrived`: accept the message. Without `Deliver` or `Park` its items are dropped and counted as lost.

    If a protocol does not subscribe to `Arrived`, the element accepts every message.
    """

    channel: ChannelId


class Park(NamedTuple):
    """Park what arrives on the channel, markers included, starting with the message of the current event."""

    channel: ChannelId


class Unpark(NamedTuple):
    """Handle the parked messages as if they arrived now, and resume the channel."""

    channel: ChannelId


class Admit(NamedTuple):
    """Whether the channel is read even under backpressure from a consumer. Default: no.

    Markers are then handled at once. Rows wait until the consumer has room, on disk beyond a bound.
    """

    channel: ChannelId
    admitted: bool


class Await(NamedTuple):
    """Whether the merge by order key waits for this channel. Default: yes."""

    channel: ChannelId
    waited: bool


class Halt(NamedTuple):
    """Whether the element stops reading channels and sources. Default: no."""

    halted: bool


class TakeCheckpoint(NamedTuple):
    """Take a checkpoint of a unit of the plan now. `Durable` follows when it is on disk.

    Messages accepted from the channels `record` from now on are its channel state, until `Close`. The checkpoint is
    written when all of these channels are closed.
    """

    unit: str
    tag: int = 0
    forced: bool = False
    record: tuple[ChannelId, ...] = ()


class Close(NamedTuple):
    """Stop recording the channel: later messages do not belong to the checkpoint."""

    channel: ChannelId
    tag: int


class Abandon(NamedTuple):
    """Discard the checkpoint with this tag if any of its channels is still being recorded."""

    tag: int


class SendMarker(NamedTuple):
    """Send a marker after every numbered item; `ahead`: before the items that still wait to be sent."""

    channel: ChannelId
    marker: bytes
    ahead: bool = False


class Stamp(NamedTuple):
    """Items numbered from now on carry this header. Default: empty."""

    channel: ChannelId
    header: bytes


class Acknowledge(NamedTuple):
    """Acknowledge to the producer that no item below `below` will be requested again."""

    channel: ChannelId
    below: int


class Forget(NamedTuple):
    """Nothing below this position of the channel's log will be read again."""

    channel: ChannelId
    position: int


class Resend(NamedTuple):
    """Resend held items, from item `first` on. (A consumer that connects needs no command.)"""

    channel: ChannelId
    first: int


class Activate(NamedTuple):
    """This replica sends on the channel from now on, under this term, which fences all earlier terms.

    `plain`: it starts with its next output; else with all remembered items that were not delivered to the consumer.
    """

    channel: ChannelId
    term: int
    plain: bool = False


class Deactivate(NamedTuple):
    """Another replica, or none, sends on the channel: this one only remembers."""

    channel: ChannelId


class Release(NamedTuple):
    """The delivered position of a consumer: items up to it need not be remembered.

    `by_all`: where the consumer runs in copies, the position that all copies have reached; only items up to it can go.
    """

    channel: ChannelId
    delivered: Delivered
    by_all: Delivered | None = None


class Publish(NamedTuple):
    """No rollback will go past this checkpoint: output before it on committed channels becomes visible."""

    id: CheckpointId


class RequestDigest(NamedTuple):
    """Compute the digest of the state at this key: `StateDigested` follows."""

    key: OrderKey


class SendToDirector(NamedTuple):
    """Send a message to the director: a JSON object that only these two interpret."""

    message: Mapping[str, Any]


Command = (
    Deliver | Park | Unpark | Admit | Await | Halt | TakeCheckpoint | Close | Abandon | SendMarker | Stamp
    | Acknowledge | Forget | Resend | Activate | Deactivate | Release | Publish | RequestDigest | SendToDirector
)  # fmt: skip
