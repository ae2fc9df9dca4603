"""Virtual checkpoints, in an element: its live state may become part of a recovery line.

On "halt" it halts and captures its state; on "resume" it continues and confirms. Both messages may arrive repeatedly:
the director sends them until they are answered. `lines.py` has the other side.
"""

from collections.abc import Callable, Mapping
from typing import Any

from riprap.protocols.events import Command, Halt, SendToDirector, TakeCheckpoint


def live_tag(line: int) -> int:
    """The tag of the checkpoint of the live state for a line; others have tags above 0."""
    return -line


def is_virtual_message(message: Mapping[str, Any]) -> bool:
    return "halt" in message or "resume" in message


class Virtual:
    def __init__(self) -> None:
        self._halted_for = 0  # the newest line that it halted for

    def handle(self, message: Mapping[str, Any], capture: Callable[[], TakeCheckpoint]) -> list[Command]:
        if "resume" in message:
            current = message["resume"] >= self._halted_for  # else it has halted for a newer line
            resume: list[Command] = [Halt(False)] if current else []
            return [*resume, SendToDirector({"resumed": message["resume"]})]
        line = int(message["halt"])
        if line <= self._halted_for:
            return []
        self._halted_for = line
        return [Halt(True), capture()._replace(tag=live_tag(line))]
