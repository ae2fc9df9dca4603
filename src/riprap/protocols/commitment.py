"""Committed channels: what is given out on them can be seen once nobody will go back to before it.

A sink is *eager* (its rows are there as soon as they are given out) or *committed*. An element keeps what it has given
out on a committed channel to itself, and in its checkpoints, until its director says which checkpoint of it nobody will
go back to before; then it shows what lies before that one. So what was shown is never taken back, whatever operators do
when they work again: exactly once, also where they are not deterministic. It costs as much latency as lies between a
row and the next line.

The word is the checkpoint itself, and is said again to every life that joins: one that begins from a checkpoint does
not know whether that one counts.
"""

from collections.abc import Mapping
from typing import Any

from riprap.protocols.cut import CheckpointId
from riprap.protocols.director import SendToElement
from riprap.protocols.events import Command, Publish
from riprap.protocols.protocol import Surroundings

SINKS = ("eager", "committed")


def showing(elements: Mapping[str, Surroundings]) -> frozenset[str]:
    """The elements with committed channels."""
    return frozenset(pe for pe, s in elements.items() if any(output.committed for output in s.outputs.values()))


def committed(id: CheckpointId) -> SendToElement:
    """To the element whose checkpoint it is: nobody will go back to before it."""
    return SendToElement(id.pe, {"committed": list(id[1:])})


def shown(pe: str, message: Mapping[str, Any]) -> list[Command]:
    """What an element does with that word."""
    return [Publish(CheckpointId(pe, *message["committed"]))]
