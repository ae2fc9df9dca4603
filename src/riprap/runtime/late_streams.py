"""Which streams deliver late items.

Under partial fault tolerance a merge does not wait for a producer that is down. What it sends after its restart, at or
below a key that has passed, is *late*: it is delivered after the items that have passed, and counted, and the output
that it triggers is late too (`messages.py`). A stream with `late = "drop"` drops it, and counts it as lost.

So does every stream with a path to an operator that recognises delivered items by the order of keys: replicas of a
group and operators behind them, recomputed ones, and ones with continuous checkpoints.
"""

from riprap.protocols.channels import ChannelId
from riprap.runtime.layout import Layout


def accepts_late(layout: Layout, channel: ChannelId) -> bool:
    """Whether late items of the channel are delivered to its consumer."""
    stream = layout.stream(channel)
    if stream.late == "drop" or layout.kind(channel).by_keys:
        return False
    downstream = layout.graph.reachable(stream.target)
    if any(
        a.continuous is not None or a.ha_group is not None for a in (layout.graph[n].annotations for n in downstream)
    ):
        return False
    return not any(link.kind.by_keys for link in layout.links if link.stream.source in downstream)
