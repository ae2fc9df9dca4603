"""Another number of shards in a run that goes on: for one operator at a time, with continuous checkpoints.

What is on disk stays where it is. New shards are numbered on from the old ones, so that each has a name, a ledger and
logs of its own; the old ones' logs are ended, and their consumers read them to the end beside those of the new ones.
The producers of the operator know of nothing: they go on dividing its input over as many logs as it had shards at
first, and each new shard reads those in which rows of its own can be. Where it gets its state from `takeover.py`
says.

Refused is, before anything starts, whatever that does not fit.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from riprap.base.errors import UsageError
from riprap.graph.order_keys import SEQ

if TYPE_CHECKING:
    from riprap.runtime.layout import Fragment, Layout


ENDING = 2**31 - 1  # the epoch of who ends the log of an old shard: no life of it follows


def with_former(fragment: "Fragment", before: "Layout | None") -> "Fragment":
    """The fragment with the numbers of shards that it had before."""
    old = None if before is None else next((f for f in before.fragments if f.name == fragment.name), None)
    if old is None:
        return fragment
    return replace(fragment, former=old.former if old.shards == fragment.shards else (*old.former, old.shards))


def check_change(before: "Layout", after: "Layout") -> None:
    """Raise for what cannot change between two parts of a run."""
    graph, old, new = after.graph, shards_of(before), shards_of(after)
    changed = [name for name in new if old[name] != new[name]]
    for name in changed:
        if graph[name].annotations.continuous is None:
            raise UsageError(
                f"{_was(name, old, new)}: each shard comes back from its own log and checkpoints, and only continuous "
                f"checkpoints can be divided anew; resume with {old[name]}, or begin another run"
            )
    if [fragment.members for fragment in before.fragments] != [fragment.members for fragment in after.fragments]:
        raise UsageError(
            f"{_was(changed[0], old, new)}: then other operators would share a process than before, and what they left "
            f"on disk belongs together; resume with {old[changed[0]]}, or begin another run"
        )
    if len(changed) > 1:
        raise UsageError(
            f"{_was(changed[0], old, new)}, and {changed[1]} in {new[changed[1]]} instead of {old[changed[1]]}: change "
            "one of them, and the other when the run has gone on"
        )
    for name in changed:
        _check_streams(before, after, name, f"{_was(name, old, new)}, and", f"resume with {old[name]}")


def shards_of(layout: "Layout") -> dict[str, int]:
    """Of every operator."""
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
                raise UsageError(f"{was} {stream.id} is not divided by a key: {instead}")
            if graph.stream_shape(stream).marks:
                raise UsageError(f"{was} on {stream.id} come punctuations, which every shard passes on: {instead}")
        elif stream.source == name:
            for one in (before.link(stream.id), link):
                if one.target.shards > 1 and (not one.by or one.by == (SEQ,)):
                    raise UsageError(f"{was} its shards feed those of {stream.target} by no key: {instead}")
