"""All kinds of retention, by name."""

from collections.abc import Mapping

from riprap.protocols.channel import Retention
from riprap.runtime.retention.copying import CopyRetention
from riprap.runtime.retention.discarding import DiscardRetention
from riprap.runtime.retention.holding import HoldRetention
from riprap.runtime.retention.kind import RetentionKind
from riprap.runtime.retention.logged import LogRetention
from riprap.runtime.retention.recomputed import RecomputeRetention
from riprap.runtime.retention.remembering import RememberRetention
from riprap.runtime.retention.while_down import WhileDownRetention

OUTWARD = LogRetention.name  # channels that leave the app are always logged

KINDS: Mapping[Retention, RetentionKind] = {
    kind.name: kind
    for kind in (
        DiscardRetention(), HoldRetention(), LogRetention(), RecomputeRetention(), WhileDownRetention(),
        RememberRetention(), CopyRetention(),
    )
}  # fmt: skip
