"""The director: the part of a protocol that sees all elements. Pure; hosted by the coordinator and the simulated host.

It learns of every incarnation and every durable checkpoint, and decides what is committed, where to roll back to, and
which checkpoints to delete. It may crash at any moment, also in the middle of a rollback. What it must not forget it
writes with `Persist`, which is on disk before the commands after it are executed. A new director starts with these
records and then gets `Joined` for every live element, with all checkpoints of the element.

A *line* is a recovery line, by number; 0 is the start of the run. Every incarnation runs under one. `RollBack` puts a
new line in force: live elements get a new epoch and restart from their checkpoint without a new process, and an element
that is down starts there when it recovers. A checkpoint that becomes durable under an older line is void: the host
deletes it and does not report it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from riprap.protocols.cut import CheckpointId, Cut

# Events ---------------------------------------------------------------------------------------------------------------


class Joined(NamedTuple):
    """An incarnation of an element has started, or was running when this director started."""

    pe: str
    epoch: int
    line: int
    checkpoints: Mapping[CheckpointId, Cut]  # that are on disk and not void


class Lost(NamedTuple):
    """An incarnation of an element has failed, or is suspected to have failed: its heartbeat timed out."""

    pe: str
    epoch: int


class Silent(NamedTuple):
    """An incarnation has missed heartbeats. It may only be slow: it is not declared dead."""

    pe: str
    epoch: int


class Finished(NamedTuple):
    """An element has processed all of its input. Its process stays until all elements have finished."""

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
    """A message from the protocol of an element (`events.SendToDirector`)."""

    pe: str
    epoch: int
    message: Mapping[str, Any]


class DirectorTick(NamedTuple):
    now: int  # microseconds


Event = Joined | Lost | Silent | Finished | CheckpointDurable | FromElement | DirectorTick

# Commands, executed in order ------------------------------------------------------------------------------------------


class Persist(NamedTuple):
    """Log this JSON object durably before the commands that follow are executed."""

    record: Mapping[str, Any]


class SendToElement(NamedTuple):
    """Send a message to the protocol of an element, which gets `events.FromDirector`. Lost if the element is down."""

    pe: str
    message: Mapping[str, Any]


class RollBack(NamedTuple):
    """Put line `line` in force. `targets` has every element that rolls back, with its checkpoint of the unit `WHOLE`;
    None: to its initial state. Others keep their state and run under the new line from now on.
    """

    line: int
    targets: Mapping[str, CheckpointId | None]


class Delete(NamedTuple):
    """Delete checkpoints that no rollback will use.

    `void`: they lie ahead of a line. Nothing is released for them: the input before them may be needed again, and the
    remaining checkpoints may be void too, or belong to an incarnation that rolls back past them.
    """

    ids: tuple[CheckpointId, ...]
    void: bool = False


class RestartElement(NamedTuple):
    """Replace the incarnation of an element, whose state is known to be wrong."""

    pe: str


Command = Persist | SendToElement | RollBack | Delete | RestartElement

# Where an incarnation starts: with its own newest checkpoint, without any, or with this one, which may be another
# element's. None: not known yet, so it has to wait.
StartPoint = Literal["own", "anew"] | CheckpointId | None
OWN_CHECKPOINT: StartPoint = "own"
NO_CHECKPOINT: StartPoint = "anew"


class Director:
    """Ignores every event: enough for a protocol without rounds and lines."""

    def begin(self, log: Sequence[Mapping[str, Any]]) -> list[Command]:
        """Start with the records that earlier directors logged, oldest first."""
        return []

    def handle(self, event: Event) -> list[Command]:
        return []

    def start_point(self, pe: str, epoch: int) -> StartPoint:
        """Where this incarnation of an element starts, unless a line determines it. May be called repeatedly."""
        return OWN_CHECKPOINT

    def validate(self) -> None:
        """Raise `AssertionError` for a broken invariant. Tests and the simulation call it between two events."""

    def terms(self) -> Mapping[str, int]:
        """For elements that open channels under a term instead of their epoch: the last term issued."""
        return {}

    def report(self) -> Mapping[str, Any]:
        """What the live table and the summary show about it: a JSON object."""
        return {}
