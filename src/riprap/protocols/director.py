"""The director: the part of a protocol that sees all elements. Pure; hosted by the coordinator and the simulated host.

It hears of lives and of every durable checkpoint, and says what is committed, where to go back, and what may be
deleted. It may die at any moment, also half-way through a going back: what it must not forget it decides with
`Persist`,
which is on disk before anything that follows it in the list is done. A new one begins with what was logged, and then
hears `Joined` from every element that lives, with all the checkpoints that the element has.

A *line* is a recovery line, by number; 0 is the beginning of the run. Every life works under one. `RollBack` puts a new
one in force: elements that live get a new epoch and begin again from their checkpoint without dying, and one that is
down begins there when it comes back. A checkpoint that becomes durable under an older line is void: the host deletes it
and does not tell of it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from riprap.protocols.cut import CheckpointId, Cut

# Events ---------------------------------------------------------------------------------------------------------------


class Joined(NamedTuple):
    """A life of an element has begun, or was there when this director began."""

    pe: str
    epoch: int
    line: int
    checkpoints: Mapping[CheckpointId, Cut]  # that are on disk and not void


class Lost(NamedTuple):
    """A life of an element is over, or suspected to be: it gives no sign."""

    pe: str
    epoch: int


class Silent(NamedTuple):
    """A life has missed some signs. It may be only slow: nobody has given it up."""

    pe: str
    epoch: int


class Finished(NamedTuple):
    """An element has come to the end of its work. It lives on, until all have."""

    pe: str
    epoch: int


class CheckpointDurable(NamedTuple):
    """A checkpoint is durable, under the line in force."""

    id: CheckpointId
    cut: Cut
    line: int
    tag: int
    forced: bool
    bytes: int
    taken: int  # microseconds from the capture until it was durable


class FromElement(NamedTuple):
    """The protocol of an element says something (`events.SendToDirector`)."""

    pe: str
    epoch: int
    message: Mapping[str, Any]


class DirectorTick(NamedTuple):
    now: int  # microseconds


Event = Joined | Lost | Silent | Finished | CheckpointDurable | FromElement | DirectorTick

# Commands, in their order ---------------------------------------------------------------------------------------------


class Persist(NamedTuple):
    """Remember this, a JSON object, before anything that follows is done."""

    record: Mapping[str, Any]


class SendToElement(NamedTuple):
    """To the protocol of an element: it hears `events.Told`. Lost if the element is down."""

    pe: str
    message: Mapping[str, Any]


class RollBack(NamedTuple):
    """Put line `line` in force. `targets` has every element that goes back, with its checkpoint of the unit `WHOLE`;
    None: to the beginning. Others stay as they are, and work under the new line from now on.
    """

    line: int
    targets: Mapping[str, CheckpointId | None]


class Delete(NamedTuple):
    """Nobody will go back to these.

    `void`: because they lie ahead of a line. What they left behind may be needed again, so nothing is released for
    them, whatever is left: that may be void too, or of a life that goes back to before it.
    """

    ids: tuple[CheckpointId, ...]
    void: bool = False


class RestartElement(NamedTuple):
    """The life of an element is to end, and another one to begin: it is known to be wrong."""

    pe: str


Command = Persist | SendToElement | RollBack | Delete | RestartElement

# Where a life begins: with its own newest checkpoint, without any, with this one, which may be another element's. None:
# that is not known yet, and it has to wait.
StartPoint = Literal["own", "anew"] | CheckpointId | None
OWN_CHECKPOINT: StartPoint = "own"
NO_CHECKPOINT: StartPoint = "anew"


class Director:
    """Does nothing, whatever happens: what a protocol without rounds and lines needs."""

    def begin(self, log: Sequence[Mapping[str, Any]]) -> list[Command]:
        """With what directors before this one have logged, oldest first."""
        return []

    def handle(self, event: Event) -> list[Command]:
        return []

    def start_point(self, pe: str, epoch: int) -> StartPoint:
        """Where this life of an element begins, unless a line says it. It may be asked again and again."""
        return OWN_CHECKPOINT

    def terms(self) -> Mapping[str, int]:
        """Of elements that open channels under another number than the epoch of their life, the last one issued."""
        return {}

    def report(self) -> Mapping[str, Any]:
        """What the live table and the summary show of it: a JSON object."""
        return {}
