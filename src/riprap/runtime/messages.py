"""What travels on a channel between two processing elements.

A channel leads from one shard of a stream's producer to one shard of its consumer. Its *items* are rows and
punctuations, numbered from 0 in the order of the stream; the numbers go on over restarts of either side. A message
holds consecutive rows, or one punctuation, or nothing but progress or the end. So whoever knows the number of the next
item that it expects can tell, of any message, what is new, what is repeated and what is missing, however the items
were cut into messages.
"""

from dataclasses import dataclass
from enum import IntEnum

from riprap.graph.keys import OrderKey
from riprap.operators.views import Views


class Kind(IntEnum):
    ROWS = 1
    PUNCTUATION = 2
    PROGRESS = 3  # nothing at or below `progress` will follow
    END = 4  # nothing will follow
    MARKER = 5  # of the protocol: its header says what; it has no items, and nothing is joined across it


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a channel. `epoch` is the producer's life that sent it."""

    kind: Kind
    epoch: int
    number: int  # of its first item; for PROGRESS and END, of the item that would come next
    batch: Views | None = None  # ROWS only, never empty: the physical columns
    punctuation: OrderKey | None = None  # PUNCTUATION only
    progress: OrderKey | None = None  # known once this message is delivered; END: END_KEY
    born: int = 0  # wall clock, microseconds: when the oldest tuple that caused this entered the app; 0: unknown
    header: bytes = b""  # of the protocol; opaque to channels, which never join messages with different headers

    @property
    def items(self) -> int:
        if self.batch is not None:
            return self.batch.rows
        return 1 if self.kind is Kind.PUNCTUATION else 0
