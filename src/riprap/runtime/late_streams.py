"""Which streams take what comes late.

Under partial fault tolerance a producer that is down is not waited for. What it brings when it is back, at or below a
key that has passed, is *late*: it is given to the operators behind what has passed, counted, and what it causes travels
on likewise (`messages.py`). A stream that says `late = "drop"` loses it, and counts that.

So does every stream that leads, by any way, to somebody who tells by the order of keys what was had already: replicas
of a group and those behind them, who recomputes, and who records the state continuously.
"""

from riprap.protocols.channels import ChannelId
from riprap.runtime.layout import Layout

_BY_KEYS = frozenset(("remember", "copy", "recompute"))  # retentions whose ends know items by their keys


def accepts_late(layout: Layout, channel: ChannelId) -> bool:
    """Whether items that come late on the channel are had by its consumer."""
    stream = layout.stream(channel)
    if stream.late == "drop" or layout.retention(channel) in _BY_KEYS:
        return False
    behind = layout.graph.reachable(stream.target)
    if any(a.continuous is not None or a.ha_group is not None for a in (layout.graph[n].annotations for n in behind)):
        return False
    return not any(link.retention in _BY_KEYS for link in layout.links if link.stream.source in behind)
