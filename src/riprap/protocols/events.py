"""What a protocol hears, and what it may ask for.

Events and commands of the machine of one element (`protocol.Protocol`); those of a director are in `director.py`.
Numbers are of items: rows and punctuations of a channel, counted from 0 over the whole run.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from riprap.graph.order_keys import OrderKey
from riprap.protocols.channel import Delivered
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import CheckpointId, Cut

# Events of connections, as a host tells them to an element. The element brings its channels up to date first, and
# then asks the protocol.


class ConsumerUp(NamedTuple):
    """There is a connection to a consumer, which expects item `next`."""

    channel: ChannelId
    epoch: int
    next: int
    delivered: Delivered = Delivered()  # the same for a producer with other numbers: a replica that goes on for another


class ConsumerDown(NamedTuple):
    """The connection to a consumer is broken, or there is none."""

    channel: ChannelId


class Acknowledged(NamedTuple):
    """The consumer will never ask for an item below `next` again."""

    channel: ChannelId
    next: int


class ProducerGone(NamedTuple):
    """The connection from the producer's life `epoch` broke before the end of the stream."""

    channel: ChannelId
    epoch: int


class FromDirector(NamedTuple):
    """The director says something to the protocol of this element: a JSON object of their own."""

    message: Mapping[str, Any]


LinkEvent = ConsumerUp | ConsumerDown | Acknowledged | ProducerGone

# Events that the element itself tells the protocol -------------------------------------------------------------------


class ProducerBack(NamedTuple):
    """The first message of a channel after `ProducerGone`, or of a newer life of the producer, or behind items that
    will not come, is about to be taken. `Park` in answer to it keeps it aside; when it is unparked, this comes again.

    `same`: it is the life that was heard before, so nobody died: a connection broke.
    """

    channel: ChannelId
    epoch: int
    same: bool = False


class Arrived(NamedTuple):
    """Items from `number` on are about to be taken into the element. They are new: repeated ones were dropped."""

    channel: ChannelId
    number: int
    items: int
    header: bytes


class MarkerArrived(NamedTuple):
    """A marker has arrived. `number`: of the item that its producer had next when it sent it.

    Markers are handled on arrival, in front of the merge. One that was sent `ahead` comes before items below `number`.
    """

    channel: ChannelId
    number: int
    marker: bytes


class Ended(NamedTuple):
    """The end of a channel has been taken into the element: nothing will come on it, markers neither."""

    channel: ChannelId


class Passed(NamedTuple):
    """The operators have had all items of the channel below `next`, and none below `left` is in their state any more.

    (`left` = `next` where an operator does not say what it retains.)
    """

    channel: ChannelId
    next: int
    left: int


class DeliveredUpTo(NamedTuple):
    """A channel from a replicated producer has come so far, at the time of a `Tick`."""

    channel: ChannelId
    delivered: Delivered


class OutputDigested(NamedTuple):
    """What an element in copies gave out on a stream, digested: by interval of event time that is over."""

    stream: str
    digests: Mapping[int, int]


class StateDigested(NamedTuple):
    """The state of the element's operators had this digest when they had had all up to `key` and nothing beyond.

    None: they had passed the key already, or are restored to somewhere behind it.
    """

    key: OrderKey
    digest: int | None


class Emitted(NamedTuple):
    """Items are about to be numbered, from `number` on. `Stamp` in answer to it is the header of these already."""

    channel: ChannelId
    number: int
    items: int


class Tick(NamedTuple):
    """Time passes: several times in the shortest interval of the plan. Microseconds of the wall clock."""

    now: int


class Durable(NamedTuple):
    """A checkpoint of this life is on disk, its logs too. The director hears the same (`director.CheckpointDurable`)."""

    id: CheckpointId
    cut: Cut
    tag: int  # that of `TakeCheckpoint`
    forced: bool
    cost: int = 0  # microseconds of a core, for copying and writing it


class Dropped(NamedTuple):
    """A checkpoint of this life will not be durable: what it builds on was deleted under the run."""

    unit: str
    tag: int


class Deleted(NamedTuple):
    """The director had checkpoints of a unit deleted; `oldest` is the cut of the oldest that is left."""

    unit: str
    oldest: Cut


Event = (
    LinkEvent | FromDirector | ProducerBack | Arrived | MarkerArrived | Ended | Passed | DeliveredUpTo | OutputDigested | StateDigested |
    Emitted | Tick
    | Durable | Dropped | Deleted
)  # fmt: skip

# Commands, carried out in their order ---------------------------------------------------------------------------------


class Deliver(NamedTuple):
    """Answer to `Arrived`: take the message in. Without `Deliver` or `Park` its items are dropped, and count as lost.

    A protocol that does not hear `Arrived` has everything delivered.
    """

    channel: ChannelId


class Park(NamedTuple):
    """Keep what arrives on the channel aside, from the message on that is being asked about. Markers too."""

    channel: ChannelId


class Unpark(NamedTuple):
    """Handle what was parked, as if it arrived now, and go on with the channel."""

    channel: ChannelId


class Admit(NamedTuple):
    """Whether the channel is read also while some consumer has no room. At first none is.

    Markers are then handled at once. Rows wait, on disk beyond a bound, until there is room.
    """

    channel: ChannelId
    admitted: bool


class Await(NamedTuple):
    """Whether the merge by order key waits for this channel. At first it does."""

    channel: ChannelId
    waited: bool


class Halt(NamedTuple):
    """Whether the element takes nothing, neither from channels nor from sources. At first it takes what there is."""

    halted: bool


class TakeCheckpoint(NamedTuple):
    """Take a checkpoint of a unit of the plan, here and now. `Durable` follows when it is on disk.

    Messages that are taken from the channels `record` from now on belong to it too, until `Close`; it is written when
    all of them are closed.
    """

    unit: str
    tag: int = 0
    forced: bool = False
    record: tuple[ChannelId, ...] = ()


class Close(NamedTuple):
    """What comes on the channel from now on does not belong to the checkpoint any more."""

    channel: ChannelId
    tag: int


class Abandon(NamedTuple):
    """Forget the checkpoint with this tag, if some channel of it is still recorded."""

    tag: int


class SendMarker(NamedTuple):
    """Send a marker behind everything that was numbered; `ahead`: in front of what still waits to be sent."""

    channel: ChannelId
    marker: bytes
    ahead: bool = False


class Stamp(NamedTuple):
    """Items that are numbered from now on carry this header. At first it is empty."""

    channel: ChannelId
    header: bytes


class Acknowledge(NamedTuple):
    """Tell the producer that no item below `below` will be asked for again."""

    channel: ChannelId
    below: int


class Forget(NamedTuple):
    """Nothing below this position of the channel's log will be asked for again."""

    channel: ChannelId
    position: int


class Resend(NamedTuple):
    """Send what is held again, from item `first` on. (A consumer that connects is answered without being told.)"""

    channel: ChannelId
    first: int


class Activate(NamedTuple):
    """This replica gives out on the channel from now on, under this term, which all before it have to give way to.

    `plain`: it begins with what it gives out next; else with all that it remembers and the consumer has not had.
    """

    channel: ChannelId
    term: int
    plain: bool = False


class Deactivate(NamedTuple):
    """Another replica gives out on the channel, or none: remember."""

    channel: ChannelId


class Release(NamedTuple):
    """The consumer of a channel has come so far: nothing of that need be remembered.

    `by_all`: of a consumer in copies, how far all of them have come; only that need not be.
    """

    channel: ChannelId
    delivered: Delivered
    by_all: Delivered | None = None


class Publish(NamedTuple):
    """Nobody will go back to before this checkpoint: what was given out before it on committed channels can be seen."""

    id: CheckpointId


class RequestDigest(NamedTuple):
    """Tell the digest of the state at this key: `StateDigested` follows."""

    key: OrderKey


class SendToDirector(NamedTuple):
    """Say something to the director: a JSON object of their own."""

    message: Mapping[str, Any]


Command = (
    Deliver | Park | Unpark | Admit | Await | Halt | TakeCheckpoint | Close | Abandon | SendMarker | Stamp
    | Acknowledge | Forget | Resend | Activate | Deactivate | Release | Publish | RequestDigest | SendToDirector
)  # fmt: skip
