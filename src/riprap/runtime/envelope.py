"""The envelope: all of a message but its rows, as bytes beside the record batch (Flight's `app_metadata`).

    offset  size  field
    0       1     version, 1
    1       1     kind: 1 rows, 2 punctuation, 3 progress, 4 end
    2       1     flags: 1 a punctuation key follows, 2 a progress key follows
    3       1     0
    4       8     epoch of the producer
    12      8     number of the first item
    20      8     born, microseconds since 1970 UTC, 0: unknown
    28      28    punctuation key, if flagged: ts int64, src int32, seq int64, n int64
    …       28    progress key, if flagged
    …       rest  header of the protocol

Integers are signed and little-endian. The channel is not in it: a connection carries one channel, named when it opens.

Back on the same connection come *answers* of the consumer:

    0       1     version, 1
    1       1     kind: 1 hello, the first; 2 acknowledgement; 3 goodbye, the last: this consumer ends
    2       8     epoch of the consumer
    10      8     the next item that it expects: it has taken all below
"""

from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

import pyarrow as pa

from riprap.base.errors import DataError
from riprap.graph.keys import OrderKey
from riprap.runtime.messages import Kind, Message

VERSION = 1
_FIXED = Struct("<BBBxqqq")
_KEY = Struct("<qiqq")
_ANSWER = Struct("<BBqq")
_PUNCTUATION, _PROGRESS = 1, 2
_KINDS = {int(kind): kind for kind in Kind}


def encode(message: Message) -> bytes:
    flags = 0
    keys = b""
    if message.punctuation is not None:
        flags |= _PUNCTUATION
        keys += _KEY.pack(*message.punctuation)
    if message.progress is not None:
        flags |= _PROGRESS
        keys += _KEY.pack(*message.progress)
    fixed = _FIXED.pack(VERSION, message.kind, flags, message.epoch, message.number, message.born)
    return fixed + keys + message.header


def decode(metadata: bytes, batch: pa.RecordBatch | None) -> Message:
    """The message again, from its envelope and its rows."""
    try:
        version, kind, flags, epoch, number, born = _FIXED.unpack_from(metadata)
        if version != VERSION:
            raise DataError(f"an envelope of version {version}, where {VERSION} is spoken: run one version everywhere")
        at = _FIXED.size
        punctuation = progress = None
        if flags & _PUNCTUATION:
            punctuation = OrderKey(*_KEY.unpack_from(metadata, at))
            at += _KEY.size
        if flags & _PROGRESS:
            progress = OrderKey(*_KEY.unpack_from(metadata, at))
            at += _KEY.size
    except StructError as error:
        raise DataError(f"an envelope of {len(metadata)} bytes that ends too early ({error})") from error
    if kind not in _KINDS:
        raise DataError(f"an envelope of the unknown kind {kind}; expected one of {', '.join(map(str, _KINDS))}")
    if (batch is not None) != (kind == Kind.ROWS) or (punctuation is not None) != (kind == Kind.PUNCTUATION):
        raise DataError(f"an envelope of kind {_KINDS[kind].name} whose rows or punctuation key do not fit its kind")
    return Message(_KINDS[kind], epoch, number, batch, punctuation, progress, born, metadata[at:])


class AnswerKind(IntEnum):
    HELLO = 1
    ACKNOWLEDGEMENT = 2
    GOODBYE = 3


class Answer(NamedTuple):
    kind: AnswerKind
    epoch: int
    next: int


def encode_answer(answer: Answer) -> bytes:
    return _ANSWER.pack(VERSION, *answer)


def decode_answer(metadata: bytes) -> Answer:
    try:
        version, kind, epoch, following = _ANSWER.unpack(metadata)
        if version != VERSION:
            raise DataError(f"an answer of version {version}, where {VERSION} is spoken: run one version everywhere")
        return Answer(AnswerKind(kind), epoch, following)
    except (StructError, ValueError) as error:
        raise DataError(f"an answer of {len(metadata)} bytes that cannot be read ({error})") from error
