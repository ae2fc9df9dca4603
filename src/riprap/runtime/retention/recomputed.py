"""The retention *recompute*: nothing is retained once it is sent, and a consumer recomputes what it misses."""

from riprap.protocols.channel import Delivered
from riprap.protocols.cut import InletCut
from riprap.runtime.element.ledger import InputChannelRecord
from riprap.runtime.retention.holding import HoldingOutput
from riprap.runtime.retention.kind import RetentionKind, SavedInput


class RecomputedOutput(HoldingOutput):
    """Holds only what has not been sent: a consumer that misses more recomputes it.

    While a restarted consumer processes what was held for it, new items are held too, and no other channel is blocked.
    """

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        self._catching_up = False

    def consumer_up(self, next_: int, delivered: Delivered) -> None:
        super().consumer_up(next_, delivered)
        self._catching_up = self._held.unsent

    def flush(self) -> None:
        super().flush()
        self._held.release_sent()
        self._catching_up = self._catching_up and self._held.unsent

    @property
    def blocked(self) -> bool:  # type: ignore[override]
        return not self._catching_up and super().blocked


class RecomputeRetention(RetentionKind):
    """An input resumes at the checkpoint; the items between it and what the producer sends are recomputed."""

    name, recovery, output = "recompute", "recompute", RecomputedOutput
    recomputed = by_keys = True

    def input_start(self, record: InputChannelRecord, saved: SavedInput) -> tuple[int, int]:
        return self.resumed_at(record, saved, InletCut(0, 0, -1, -1))
