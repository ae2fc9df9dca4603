"""What travels on a channel between two processing elements.

A channel leads from one shard of a stream's producer to one shard of its consumer. Its *items* are rows and
punctuations, numbered from 0 in the order of the stream; the numbers go on over restarts of either side. A message
holds consecutive rows, or one punctuation, or nothing but progress or the end. So whoever knows the number of the next
item that it expects can tell, of any message, what is new, what is repeated and what is missing, however the items
were cut into messages.

What comes late, behind what its consumer has passed already, travels in messages of its own, which have `at`: the place
in the order where a merge put it, for want of its own. Its keys still say who it is.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum

from riprap.base.errors import DataError
from riprap.graph.order_keys import OrderKey
from riprap.operators.views import Views


class MessageKind(IntEnum):
    ROWS = 1
    PUNCTUATION = 2
    WATERMARK = 3  # nothing at or below `watermark` will follow
    END = 4  # nothing will follow
    MARKER = 5  # of the protocol: its header says what; it has no items, and nothing is joined across it


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a channel. `epoch` is the producer's life that sent it."""

    kind: MessageKind
    epoch: int
    number: int  # of its first item; for PROGRESS and END, of the item that would come next
    batch: Views | None = None  # ROWS only, never empty: the physical columns
    punctuation: OrderKey | None = None  # PUNCTUATION only
    watermark: OrderKey | None = None  # known once this message is delivered; END: END_KEY
    born: int = 0  # wall clock, microseconds: when the oldest tuple that caused this entered the app; 0: unknown
    header: bytes = b""  # of the protocol; opaque to channels, which never join messages with different headers
    at: OrderKey | None = None  # its items are late: they come behind everything up to this key

    @property
    def items(self) -> int:
        if self.batch is not None:
            return self.batch.rows
        return 1 if self.kind is MessageKind.PUNCTUATION else 0


# Where a message is bytes (on the wire, in logs, spills and checkpoints), `at` is in front of its header: few have one,
# and a header is opaque to all of them. A header that looks so itself is marked too.
_MARK = b"\x00late"
_AT = struct.Struct("<qqqq")


def marked_header(message: Message) -> bytes:
    """The header with `at` in front of it, if there is one."""
    if message.at is not None:
        return _MARK + b"\x01" + _AT.pack(*message.at) + message.header
    return _MARK + b"\x00" + message.header if message.header.startswith(_MARK) else message.header


def unmarked_header(data: bytes) -> tuple[bytes, OrderKey | None]:
    """The header and `at` that `marked_header` was given."""
    if not data.startswith(_MARK):
        return data, None
    rest = data[len(_MARK) :]
    if rest[:1] == b"\x00":
        return rest[1:], None
    if rest[:1] != b"\x01" or len(rest) <= _AT.size:
        raise DataError("a message whose header is that of a late one, and has no place in the order")
    return rest[1 + _AT.size :], OrderKey(*_AT.unpack_from(rest, 1))
