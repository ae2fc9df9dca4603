"""Messages on a channel between two processing elements.

A channel leads from one shard of a stream's producer to one shard of its consumer. Its *items* are rows and
punctuations, numbered from 0 in the order of the stream; the numbers continue over restarts of either side. A message
holds consecutive rows, or one punctuation, or only a watermark or the end. So a consumer that knows the number of the
item it expects next can tell what is new, repeated or missing in any message, however the items were batched.

Late items travel in separate messages, which have `at`: the place in the order where a merge put them instead of their
own. Their keys still identify them.
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
    MARKER = 5  # of the protocol, defined by its header; it has no items, and no messages are joined across it


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a channel. `epoch` is of the producer's incarnation that sent it."""

    kind: MessageKind
    epoch: int
    number: int  # of its first item; for WATERMARK and END, of the item that would come next
    batch: Views | None = None  # ROWS only, never empty: the physical columns
    punctuation: OrderKey | None = None  # PUNCTUATION only
    watermark: OrderKey | None = None  # valid once this message is delivered; END: END_KEY
    born: int = 0  # wall clock, microseconds: when the oldest tuple that caused this entered the app; 0: unknown
    header: bytes = b""  # of the protocol; opaque to channels, which never join messages with different headers
    at: OrderKey | None = None  # its items are late: they come after everything up to this key

    @property
    def items(self) -> int:
        if self.batch is not None:
            return self.batch.rows
        return 1 if self.kind is MessageKind.PUNCTUATION else 0


# In serialized messages (on the wire, in logs, spills and checkpoints) `at` precedes the header, behind a mark: few
# messages have it, and the header is opaque. A header that starts with the mark is marked too.
_MARK = b"\x00late"
_AT = struct.Struct("<qqqq")


def marked_header(message: Message) -> bytes:
    """The header, preceded by `at` if there is one."""
    if message.at is not None:
        return _MARK + b"\x01" + _AT.pack(*message.at) + message.header
    return _MARK + b"\x00" + message.header if message.header.startswith(_MARK) else message.header


def unmarked_header(data: bytes) -> tuple[bytes, OrderKey | None]:
    """The header and `at`: the inverse of `marked_header`."""
    if not data.startswith(_MARK):
        return data, None
    rest = data[len(_MARK) :]
    if rest[:1] == b"\x00":
        return rest[1:], None
    if rest[:1] != b"\x01" or len(rest) <= _AT.size:
        raise DataError("a message is marked as late and has no place in the order: its header is damaged")
    return rest[1 + _AT.size :], OrderKey(*_AT.unpack_from(rest, 1))
