"""A kind of retention: everything that differs from one kind to the next, as facts and functions.

Each kind has one file with its output channel and one object of a subclass of `RetentionKind`. No other code branches
on a kind: layout, restore, channels and counts ask the object. `tests/repo/test_retention_seam.py` enforces this.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from riprap.protocols.channel import Delivered, Retention
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import InletCut

if TYPE_CHECKING:
    from riprap.runtime.element.element_inputs import InputChannel
    from riprap.runtime.element.ledger import InputChannelRecord, Ledger, OutputChannelRecord
    from riprap.runtime.host import Host
    from riprap.runtime.retention.output_channel import OutputChannel

Recovery = Literal["gap", "buffer", "replay", "recompute", "failover", "while-down", "copies"]


class SavedInput(NamedTuple):
    """What the checkpoints that an element restores have of an input channel."""

    in_unit: bool  # the operator that it feeds has checkpoints
    cut: InletCut | None  # in the checkpoint of that operator
    whole: InletCut | None  # in the checkpoint of the whole element
    taken: bool  # delivered means taken: counts roll back with the state


class RetentionKind:
    """The defaults: an input resumes at the position of the previous incarnation, an output continues its numbers."""

    name: ClassVar[Retention]
    recovery: ClassVar[Recovery]  # what users call it
    output: ClassVar[type["OutputChannel"]]  # the outgoing side

    # Facts
    logged = False  # the consumer reads a persistent stream; else it is connected to the producer
    gaps = False  # items may be missing or late
    gapless = False  # the connection may skip no item, not even after it broke
    by_keys = False  # delivered items are recognised by their keys
    replicated = False  # several producers send, each under its own numbers
    per_copy = False  # each copy of the producer has its own connection, a strand
    by_term = False  # a producer opens the channel under a term, and closes it when another one is active
    recomputed = False  # the consumer recomputes missing items, and later ones wait
    acknowledged = False  # accepted items are acknowledged; which of them were missed is counted item by item
    rolls_back = False  # the input rolls back with the operator that it feeds
    never_silent = False  # some producer sends, sooner or later

    def gapless_under(self, settings: Mapping[str, Any]) -> bool:
        return self.gapless

    # Incoming side

    def start_input(self, input_: "InputChannel", restored: Delivered | None, *, copied: bool) -> None:
        """An incarnation starts. `restored`: the delivered position of the copy whose state it has."""

    # Restore

    def input_start(self, record: "InputChannelRecord", saved: SavedInput) -> tuple[int, int]:
        """The item that a new incarnation expects first, and its position in the log."""
        return record.next, -1

    def resumed_at(self, record: "InputChannelRecord", saved: SavedInput, origin: InletCut) -> tuple[int, int]:
        """The same for an input that resumes at a checkpoint; `origin`: without one."""
        cut = saved.cut or origin  # nothing has arrived from a new shard
        if saved.taken:
            record.next = record.retained_from = cut.taken
            record.missed = cut.missed
            return cut.taken, cut.taken_position
        return cut.passed, cut.passed_position

    def redelivered(self, *, whole: bool, retains: bool) -> bool:
        """Whether an operator gets again what it processed after its checkpoint. `whole`: the element rolls back as
        one; `retains`: the channel feeds this operator, which reports what it retains or has checkpoints.
        """
        return False

    def next_number(self, channel: ChannelId, ledger: "Ledger", host: "Host") -> int:
        """The number with which an output continues, where items are not emitted again under their numbers."""
        return ledger.outputs[channel].number

    # Counts

    def count_undone(self, record: "InputChannelRecord", saved: int, promised: int) -> None:
        """Count what a restart undoes. `saved`: received items in the restored states; `promised`: the event time up
        to which all outputs were emitted.
        """

    def emitted(self, record: "OutputChannelRecord") -> int:
        """How many items a producer has emitted."""
        return record.number
