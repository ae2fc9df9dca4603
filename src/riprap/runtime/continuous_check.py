"""Where continuous checkpoints cannot be: told when a graph is laid out, before anything starts."""

from typing import TYPE_CHECKING

from riprap.base.errors import UsageError
from riprap.graph.specs import Aggregate, Join
from riprap.graph.windows import Punctuated, Session
from riprap.protocols.partial import PARTIAL

if TYPE_CHECKING:
    from riprap.runtime.layout import Fragment, Layout


def check_continuous(layout: "Layout", fragment: "Fragment") -> None:
    """Continuous checkpoints need input that can be read again, and an element with one stateful operator."""
    graph = layout.graph
    for spec in (graph[name] for name in fragment.members):
        if spec.annotations.continuous is None:
            continue
        has = f"{spec.name} has continuous checkpoints"
        windows = (*spec.windows, *((spec.every,) if isinstance(spec, Aggregate) else ()))
        if not isinstance(spec, Aggregate | Join) or any(
            isinstance(window, Punctuated | Session) for window in windows
        ):
            raise UsageError(
                f"{has}, which are for aggregates over windows of count or time and for joins: give it an interval"
            )
        if fragment.group:
            raise UsageError(f"{has} and is in HA group {fragment.group}, whose replicas save nothing of their own")
        if layout.protocol.name != PARTIAL.name:
            raise UsageError(f"{has}, which go with the protocol partial and not with {layout.protocol.name}")
        for other in (graph[name] for name in fragment.members):
            if other is not spec and any(other.stateful):
                raise UsageError(
                    f"{has} and would share its element with {other.name}, which has state too: use --fuse auto"
                )
            if not other.deterministic:
                raise UsageError(f"{has}, and {other.name} in its element is not deterministic: give it an interval")
        for link in layout.links:
            if link.target == fragment and link.retention != "log":
                raise UsageError(
                    f"{has}, and its input {link.stream.id} could not be read again: make it persistent, with "
                    f"persist() or backup() at {link.stream.source}"
                )
            if link.source == fragment and link.stream.source != spec.name:
                raise UsageError(f"{has}, and {link.stream.id} leaves its element in front of it: use --fuse none")
