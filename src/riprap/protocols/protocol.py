"""The seam: what a protocol is, and what it is given. docs/internals/protocols.md has the order of calls.

A protocol decides when to capture and where to go back. What becomes of the items of a channel while its consumer is
away is the *retention* of its link (`channel.py`), not the protocol's business; nor are numbers, repetition and order.

One file per protocol: a `Protocol` (a machine per life of an element), a `Director` (`director.py`), and a
`ProtocolSpec` that names them for `REGISTRY` of `registry.py`.
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

WHOLE = "fragment"  # the unit of an element that is saved as a whole


@dataclass(frozen=True)
class Neighbour:
    """A channel between this element and another; for a sink's output `pe` is ""."""

    pe: str  # the element at its other end
    operator: str  # of this element: the one that it leads to, or comes from
    retention: Retention
    feedback: bool = False
    committed: bool = False  # of an output: its items can be seen when nobody will go back to before them


@dataclass(frozen=True)
class OperatorFacts:
    """What a protocol may have to know of an operator."""

    stateful: bool
    deterministic: bool
    tolerates_loss: bool
    checkpoint_every: int | None  # microseconds; None: not asked for
    memory: int | None = None  # microseconds of event time after which nothing is left of an input; None: not bounded
    continuous: bool = False  # its state is recorded in its own output
    checkpoint_off: bool = False  # it is not to be saved
    backup: bool = False  # what it gives out can be had again: from a log, or where its consumer is here, by itself


@dataclass(frozen=True)
class Membership:
    """Of an element: which replica of which group it is part of."""

    group: str
    replica: int
    edges: tuple[ChannelId, ...]  # its outputs that leave the group
    deterministic: bool  # replicas that were fed the same give out the same
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
    copies: tuple[str, ...] = ()  # of this element, itself among them, that run at once
    strands: Mapping[ChannelId, tuple[ChannelId, ...]] = field(default_factory=dict)  # by input that copies bring
    cycle: tuple[str, ...] = ()  # elements of the strongly connected component that it is in; none: it is in no cycle

    @property
    def starts_rounds(self) -> bool:
        """No marker comes before it sends one: it has sources, or all that comes in leads back to it."""
        return bool(self.sources) or all(neighbour.feedback for neighbour in self.inputs.values())


@dataclass(frozen=True)
class Unit:
    """Operators whose state is saved in one checkpoint. A protocol need not have an interval."""

    operators: tuple[str, ...]
    every: int | None = None  # microseconds
    paced: bool = False  # `every` is the shortest interval: it grows with what a checkpoint costs


@dataclass(frozen=True)
class RestorePlan:
    """What is saved of an element, and what a restored one goes back to.

    `whole`: its operators go back together, to one checkpoint. Else each goes back to one of its own, and its inputs go
    on, but for those that are held or logged: they go back with it.
    `exact`: what it gives out again is the same, and is recognised by its numbers. Else the numbers go on, and what it
    gives out again is recognised by its keys, and is not given out.
    """

    units: Mapping[str, Unit]
    whole: bool
    exact: bool
    delivered: Literal["taken", "passed"]
    reason: str = ""  # why it is not exact, if it is not
    continuous: str = ""  # the operator whose state is recorded in its own output, instead of in checkpoints
    gap: bool = False  # what came between a checkpoint and the life that goes back to it is lost: windows have moved on
    # What was taken need not be held by its producer: who goes back does so together with it, to checkpoints that have
    # what was on its way.
    rounds: bool = False
    # While an element has fewer checkpoints than this, whatever it would need to begin afresh is still there.
    spare: int = 0
    holes: bool = False  # where no checkpoint is whole, one with holes is better than none: what is missing is lost


class Protocol:
    """The machine of one life of an element: pure, no clock, no I/O, no randomness but from `surroundings.seed`."""

    subscriptions: frozenset[type] = frozenset()  # which events it is asked about; others cost nothing

    def __init__(self, surroundings: Surroundings, plan: RestorePlan) -> None:
        self.surroundings, self.plan = surroundings, plan

    def begin(self, cut: Cut | None, now: int) -> list[Command]:
        """A life begins, with the cut of the unit `WHOLE` that was restored; None: it begins afresh."""
        return []

    def handle(self, event: Event) -> list[Command]:
        return []

    @property
    def missed(self) -> Mapping[str, int]:
        """By unit: deadlines of checkpoints that passed without one."""
        return {}

    def snapshot(self) -> bytes:
        """What a checkpoint taken now is to remember of this machine: `Cut.protocol`."""
        return b""


def nothing_refused(surroundings: Surroundings) -> str:
    return ""


@dataclass(frozen=True)
class ProtocolSpec:
    """A protocol by its name."""

    name: str
    plan: Callable[[Surroundings], RestorePlan]
    machine: Callable[[Surroundings, RestorePlan], Protocol]
    director: Callable[[Mapping[str, Surroundings]], "Director"]  # by element
    # The retention of a link that was not made persistent, where the consumer tolerates loss and where it does not.
    retention: tuple[Retention, Retention] = ("hold", "hold")
    refuses: Callable[[Surroundings], str] = nothing_refused  # why an element cannot run under it; "": it can
    # Whether logs between elements have only what is committed, where those who write them do not repeat themselves:
    # they have consumers who do not go back with them, or go back elsewhere.
    guarded: bool = False
    # Whether everybody goes back together, readers of logs too: a log that was asked for is then written again, and
    # what is in it already stands, so those who write it have to repeat themselves.
    together: bool = False
    lossy: bool = False  # held items that were sent may be forgotten where they would not fit into memory
    borders: Retention | None = None  # of links into and out of cycles, if it is another one
