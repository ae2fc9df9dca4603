"""Full replication: every operator in copies, every copy sends to every copy behind it, and what was seen is dropped.

Copies are deterministic, so they give out the same items, in the same order of keys; a consumer takes each item from
whoever brings it first. It needs to remember one key per stream, because copies ascend by key. (The published technique
keeps a table of tuples and clears it by punctuations.) That is only right without holes: a copy that left an item out
would carry the key past it. So a copy counts only while its numbers follow each other, and a copy that begins in the
middle is let in when everything before has been seen.

Values are not compared: what a corrupted copy brings under a key that nobody has brought yet is taken.

A copy that was restarted has lost its state. Were it to speak, it would bring wrong values under keys that nobody has
seen. It is *mute* until it has the state of a healthy one, and has come to where the others are.

    mute ──► restoring, from a snapshot that a healthy copy takes ──► catching up ──► speaking

Fault model: any crash that leaves one speaking copy of every operator; connections break, and lose what was on its way.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from riprap.graph.keys import OrderKey
from riprap.operators.columns import Keys
from riprap.protocols.channel import Had, Skip

HOLE = -1  # `Seen.fresh`: items are missing in front of these


class Seen:
    """What a consumer has taken of one stream, whichever copy brought it."""

    def __init__(self, had: Had | None = None) -> None:
        self.had = Had() if had is None else had
        self._next: dict[int, int] = {}  # by copy that is let in: the number that follows

    def admit(self, copy: int, number: int, since: OrderKey) -> bool:
        """A copy is about to bring all items above `since`, from this number on; whether it is let in.

        It is not while something at or below `since` may be unseen: then it has to wait, until `had` has come there.
        """
        if self.had.key < since:
            return False
        self._next[copy] = number
        return True

    def gone(self, copy: int) -> None:
        self._next.pop(copy, None)

    def fresh(self, copy: int, number: int, keys: Keys, progress: OrderKey | None = None) -> int:
        """How many of the first items were seen; the others are taken. `HOLE`: none is, and the copy is not let in."""
        expected = self._next.get(copy)
        if expected is None or number > expected:
            self.gone(copy)
            return HOLE
        self._next[copy] = max(expected, number + len(keys.ts))
        skip = Skip(self.had).of(keys)
        self.had = self.had.after(keys, progress)
        return skip


State = Literal["mute", "restoring", "catching_up", "speaking"]


@dataclass
class Copies:
    """The copies of one operator, as their director sees them: who speaks, and who gets whose state."""

    elements: Sequence[str]
    states: dict[str, State] = field(default_factory=dict)
    donors: dict[str, str] = field(default_factory=dict)  # by copy that is being restored

    def joined(self, pe: str, *, afresh: bool) -> tuple[str, str] | None:
        """A life has begun; `afresh`: nothing was lost before it. Gives (copy, donor) if a snapshot is to be taken."""
        self.states[pe] = "speaking" if afresh else "mute"
        return None if afresh else self._restore(pe)

    def lost(self, pe: str) -> list[tuple[str, str]]:
        """A life is over. Gives snapshots to be taken instead of those that it was to take."""
        self.states.pop(pe, None)
        self.donors.pop(pe, None)
        orphans = [copy for copy, donor in self.donors.items() if donor == pe]
        for copy in orphans:
            del self.donors[copy]
            self.states[copy] = "mute"
        return [found for copy in orphans if (found := self._restore(copy)) is not None]

    def restored(self, pe: str) -> None:
        """It has the state of its donor."""
        if self.states.get(pe) == "restoring":
            self.states[pe] = "catching_up"
            self.donors.pop(pe, None)

    def caught_up(self, pe: str) -> list[tuple[str, str]]:
        """It has come to where the others are. Gives snapshots for those that had nobody to take them from."""
        if self.states.get(pe) != "catching_up":
            return []
        self.states[pe] = "speaking"
        waiting = [copy for copy, state in self.states.items() if state == "mute"]
        return [found for copy in waiting if (found := self._restore(copy)) is not None]

    def _restore(self, pe: str) -> tuple[str, str] | None:
        speaking = [copy for copy in self.elements if self.states.get(copy) == "speaking"]
        if not speaking:
            return None
        self.states[pe], self.donors[pe] = "restoring", speaking[0]
        return pe, speaking[0]
