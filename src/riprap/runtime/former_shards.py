"""Changing the number of shards of a resumed run: one operator at a time, with continuous checkpoints.

Data on disk stays where it is. New shards are numbered after the old ones, so each has its own name, ledger and logs.
The logs of old shards are ended; consumers read them to the end, beside those of the new shards. The producers are not
affected: they still partition the operator's input over as many logs as it had shards at first, and each new shard
reads the logs that may have rows for it. `takeover.py` describes how it gets its state.

Changes that do not fit this scheme are refused before anything starts.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from riprap.base.errors import UsageError
from riprap.graph.order_keys import SEQ

if TYPE_CHECKING:
    from riprap.runtime.layout import Fragment, Layout


ENDING = 2**31 - 1  # the epoch under which the log of an old shard is ended: no incarnation follows


def with_former(fragment: "Fragment", before: "Layout | None") -> "Fragment":
    """The fragment with its former numbers of shards."""
    old = None if before is None else next((f for f in before.fragments if f.name == fragment.name), None)
    if old is None:
        return fragment
    return replace(fragment, former=old.former if old.shards == fragment.shards else (*old.former, old.shards))


def check_change(before: "Layout", after: "Layout") -> None:
    """Raise for what cannot change when a run is resumed."""
    graph, old, new = after.graph, shards_of(before), shards_of(after)
    changed = [name for name in new if old[name] != new[name]]
    for name in changed:
        if graph[name].annotations.continuous is None:
            raise UsageError(
                f"{_was(name, old, new)}: each shard recovers from its own log and checkpoints, and only continuous "
                f"checkpoints can be repartitioned; resume with {old[name]}, or start another run"
            )
    if [fragment.members for fragment in before.fragments] != [fragment.members for fragment in after.fragments]:
        raise UsageError(
            f"{_was(changed[0], old, new)}: then other operators would share a process than before, and their data on "
            f"disk belongs together; resume with {old[changed[0]]}, or start another run"
        )
    if len(changed) > 1:
        raise UsageError(
            f"{_was(changed[0], old, new)}, and {changed[1]} in {new[changed[1]]} instead of {old[changed[1]]}: change "
            "one of them, and the other in the next resume"
        )
    for name in changed:
        _check_streams(before, after, name, f"{_was(name, old, new)}, and", f"resume with {old[name]}")


def shards_of(layout: "Layout") -> dict[str, int]:
    """The number of shards of every operator."""
    return {name: fragment.shards for fragment in layout.fragments for name in fragment.members}


def _was(name: str, old: Mapping[str, int], new: Mapping[str, int]) -> str:
    return f"this run had {name} in {old[name]} shard{'s' * (old[name] != 1)} and would have it in {new[name]}"


def _check_streams(before: "Layout", after: "Layout", name: str, was: str, instead: str) -> None:
    graph = after.graph
    for link in after.links:
        stream = link.stream
        if stream.target == name:
            keys = graph[name].partition_keys[stream.target_port]
            if not keys or stream.partitioning == "broadcast":
                raise UsageError(f"{was} {stream.id} is not partitioned by a key: {instead}")
            if graph.stream_shape(stream).marks:
                raise UsageError(f"{was} {stream.id} carries punctuations, which every shard passes on: {instead}")
        elif stream.source == name:
            for version in (before.link(stream.id), link):
                if version.target.shards > 1 and (not version.by or version.by == (SEQ,)):
                    raise UsageError(f"{was} {stream.id} is not partitioned by a key: {instead}")
