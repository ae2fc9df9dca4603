"""Committed channels: output becomes visible once no rollback can undo it.

A sink is *eager* (its rows are visible as soon as they are emitted) or *committed*. An element withholds the output of
a committed channel, and saves it in its checkpoints, until the director commits one of these checkpoints; then it
publishes the output before that one. So published output is never revoked, whatever operators do when they process
input again: exactly once, even if they are not deterministic. The cost is latency: the time from a row to the next
committed checkpoint.

The director announces the committed checkpoint again to every incarnation that joins: a restored element does not know
whether the checkpoint that it started from is committed.
"""

from collections.abc import Mapping
from typing import Any

from riprap.protocols.cut import CheckpointId
from riprap.protocols.director import SendToElement
from riprap.protocols.events import Command, Publish
from riprap.protocols.protocol import Surroundings

SINKS = ("eager", "committed")


def committing_elements(elements: Mapping[str, Surroundings]) -> frozenset[str]:
    """The elements with committed channels."""
    return frozenset(pe for pe, s in elements.items() if any(output.committed for output in s.outputs.values()))


def announce_committed(id: CheckpointId) -> SendToElement:
    """Tell the owner of the checkpoint that it is committed: no rollback will go past it."""
    return SendToElement(id.pe, {"committed": list(id[1:])})


def publish_committed(pe: str, message: Mapping[str, Any]) -> list[Command]:
    """The element's reaction to `announce_committed`."""
    return [Publish(CheckpointId(pe, *message["committed"]))]
