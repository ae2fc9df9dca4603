"""The interface of a protocol. docs/internals/protocols.md describes the order of calls.

A protocol decides when to take checkpoints and where to roll back to. What happens to the items of a channel while its
consumer is down is the *retention* of the link (`channel.py`). Numbering, deduplication and order are not the
protocol's task either.

One file per protocol: a `Protocol` (a state machine per incarnation of an element), a `Director` (`director.py`), and a
`ProtocolSpec` that registers them in `REGISTRY` of `registry.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from riprap.protocols.channel import Retention
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import Cut
from riprap.protocols.events import Command, Event

if TYPE_CHECKING:
    from riprap.protocols.director import Director

WHOLE = "fragment"  # the unit that covers a whole element


@dataclass(frozen=True)
class Neighbour:
    """A channel between this element and another; for a sink's output `pe` is ""."""

    pe: str  # the element at its other end
    operator: str  # this element's operator at the channel
    retention: Retention
    feedback: bool = False
    committed: bool = False  # of an output: items become visible once no rollback can undo them


@dataclass(frozen=True)
class OperatorFacts:
    """What a protocol may need to know about an operator."""

    stateful: bool
    deterministic: bool
    tolerates_loss: bool
    checkpoint_every: int | None  # microseconds; None: not specified
    memory: int | None = None  # microseconds of event time after which an input has left the state; None: unbounded
    continuous: bool = False  # its state is recorded in its own output
    checkpoint_off: bool = False  # checkpoints are disabled
    backup: bool = False  # its output can be replayed from a log, or recomputed where its consumer is in this element


@dataclass(frozen=True)
class Membership:
    """The replica and HA group of an element."""

    group: str
    replica: int
    edges: tuple[ChannelId, ...]  # its outputs that leave the group
    deterministic: bool  # replicas with the same input emit the same output
    within: tuple[ChannelId, ...] = ()  # its inputs from elements of the same replica


@dataclass(frozen=True)
class Surroundings:
    """One element, as a protocol sees it."""

    pe: str
    pes: tuple[str, ...]  # all elements of the run
    operators: Mapping[str, OperatorFacts]
    inputs: Mapping[ChannelId, Neighbour]
    outputs: Mapping[ChannelId, Neighbour]  # sinks among them
    sources: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the protocol, e.g. {"interval": 10_000_000}
    seed: int = 0
    membership: Membership | None = None  # in a group that is replicated
    copies: tuple[str, ...] = ()  # of this element, including itself, that run concurrently
    # By input from a producer in copies: the strands, one channel per copy of the producer.
    strands: Mapping[ChannelId, tuple[ChannelId, ...]] = field(default_factory=dict)
    cycle: tuple[str, ...] = ()  # elements of its strongly connected component; empty: it is in no cycle

    @property
    def starts_rounds(self) -> bool:
        """The director starts rounds here: the element has sources, or all of its inputs are feedback."""
        return bool(self.sources) or all(neighbour.feedback for neighbour in self.inputs.values())


@dataclass(frozen=True)
class Unit:
    """Operators whose state is saved in one checkpoint."""

    operators: tuple[str, ...]
    every: int | None = None  # microseconds; None: the protocol has no interval
    paced: bool = False  # `every` is the shortest interval: it grows with the cost of a checkpoint


@dataclass(frozen=True)
class RestorePlan:
    """What is saved of an element, and what a restarted one restores.

    `whole`: its operators roll back together, to one checkpoint. Else each rolls back to its own checkpoint, and its
    inputs continue, except held or logged ones, which roll back with it.
    `exact`: it emits the same items again, and consumers drop duplicates by number. Else numbering continues, and the
    element suppresses repeated output by key.
    """

    units: Mapping[str, Unit]
    whole: bool
    exact: bool
    delivered: Literal["taken", "passed"]
    reason: str = ""  # why it is not exact, if it is not
    continuous: str = ""  # the operator whose state is recorded in its own output, instead of in checkpoints
    gap: bool = False  # input between the checkpoint and the restart is lost: windows have moved on
    # Producers need not hold delivered items: both ends roll back together, to checkpoints that include channel state.
    rounds: bool = False
    # While an element has fewer checkpoints than this, everything that it needs to start from scratch is retained.
    spare: int = 0
    holes: bool = False  # if no checkpoint is complete, restore an incomplete one: what is missing is lost


class Protocol:
    """The state machine of one incarnation of an element: pure, no clock, no I/O, no randomness except from
    `surroundings.seed`."""

    subscriptions: frozenset[type] = frozenset()  # the events that it handles; others cost nothing

    def __init__(self, surroundings: Surroundings, plan: RestorePlan) -> None:
        self.surroundings, self.plan = surroundings, plan

    def begin(self, cut: Cut | None, now: int) -> list[Command]:
        """An incarnation starts, with the restored cut of the unit `WHOLE`; None: without a checkpoint."""
        return []

    def handle(self, event: Event) -> list[Command]:
        return []

    @property
    def missed(self) -> Mapping[str, int]:
        """By unit: missed checkpoint deadlines."""
        return {}

    def snapshot(self) -> bytes:
        """The state of this machine, to be saved with a checkpoint taken now: `Cut.protocol`."""
        return b""


def nothing_refused(surroundings: Surroundings) -> str:
    return ""


@dataclass(frozen=True)
class ProtocolSpec:
    """A protocol and its properties."""

    name: str
    plan: Callable[[Surroundings], RestorePlan]
    machine: Callable[[Surroundings, RestorePlan], Protocol]
    director: Callable[[Mapping[str, Surroundings]], "Director"]  # by element
    # The retention of links that are not persistent: where the consumer tolerates loss, and where it does not.
    retention: tuple[Retention, Retention] = ("hold", "hold")
    refuses: Callable[[Surroundings], str] = nothing_refused  # why an element cannot run under it; "": it can
    # Whether logs between elements contain only committed items where their writers are not deterministic: readers of
    # a log may not roll back with its writer, or roll back to another point.
    guarded: bool = False
    # Whether all elements roll back together, readers of logs included. Writers then repeat what their logs already
    # contain, and this stands, so writers of logs must be deterministic.
    together: bool = False
    bounded: bool = False  # a plan with a recovery bound needs it: consumers recompute what they miss
    lossy: bool = False  # sent items that are held may be dropped where they do not fit into memory
    borders: Retention | None = None  # the retention of links into and out of cycles, if it differs
