"""Virtual checkpoints: what an element does when its live state may be part of a recovery line.

Asked for a line it halts and captures what it has; told that it goes on from there it does, and says so. Both words may
come again: the director says them until it is answered. `lines.py` has the other side.
"""

from collections.abc import Callable, Mapping
from typing import Any

from riprap.protocols.events import Command, Halt, SendToDirector, TakeCheckpoint


def live_tag(line: int) -> int:
    """Of the checkpoint that an element takes of its live state for a line; others have tags above 0."""
    return -line


def concerns(message: Mapping[str, Any]) -> bool:
    return "halt" in message or "resume" in message


class Virtual:
    def __init__(self) -> None:
        self._asked = 0  # the newest line that it halted for

    def told(self, message: Mapping[str, Any], capture: Callable[[], TakeCheckpoint]) -> list[Command]:
        if "resume" in message:
            on: list[Command] = [Halt(False)] if message["resume"] >= self._asked else []  # it is no newer line's halt
            return [*on, SendToDirector({"resumed": message["resume"]})]
        line = int(message["halt"])
        if line <= self._asked:
            return []
        self._asked = line
        return [Halt(True), capture()._replace(tag=live_tag(line))]
