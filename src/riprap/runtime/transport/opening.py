"""How a channel is opened: both ends prove that they know the run's token, and nothing can be replayed.

    consumer  CHALLENGE  a nonce, as soon as a process connects
    producer  OPEN       its own nonce; its epoch and line; JSON: the channel and its columns; its proof
    consumer  HELLO      the item that it expects; its proof

A proof is an HMAC-SHA-256 under a key that is derived from the token. It covers the role, both nonces, the location
that the producer has dialled, the whole opening frame (epoch, line, channel, columns) and, in the consumer's answer,
that answer. So an overheard opening opens nothing, neither end can be made to sign for the other, and a process that
takes the port of a dead element cannot relay to another one, which listens elsewhere. Proofs are compared in constant
time. Before its proof a producer may send one frame of at most 4,096 bytes, within 5 s. Before its proof a consumer's
frames are ignored, and no row is sent to it.

The opening's number is the producer's recovery *line*. Elements under different recovery lines do not connect: one
would hold state that the other has rolled back. They try again until both have rolled back.

The body is JSON: `{"channel": [stream, producer's shard, consumer's shard], "columns": [[name, type], …]}`.
"""

import hashlib
import hmac
import json
from typing import NamedTuple

import pyarrow as pa

from riprap.base.errors import DataError
from riprap.base.randomness import nonce
from riprap.graph.types import plain_schema
from riprap.protocols.channels import ChannelId
from riprap.runtime.transport.wire_frame import MAX_ANSWER, FrameKind, WireHeader, credentials, pack, signed

_SPACE = b" "


class Opening(NamedTuple):
    channel: ChannelId
    epoch: int
    columns: list[list[str]]
    line: int = 0  # the sender's recovery line


class Handshake:
    """One opening, at either end. `location` is the consumer's, as it was announced."""

    def __init__(self, token: str, location: str, challenge: bytes = b"") -> None:
        self._key = hashlib.sha256(b"riprap channel\0" + token.encode()).digest()
        self._location = hashlib.sha256(location.encode()).digest()
        self._challenge = challenge
        self._opened = b""  # the signed part of the opening frame, and its body

    # At the consumer --------------------------------------------------------------------------------------------------

    def challenge(self) -> bytes:
        """The first frame of a connection, with a new nonce."""
        self._challenge = nonce()
        return pack(WireHeader(FrameKind.CHALLENGE, 0), self._challenge)

    def admits(self, frame: bytes, body: memoryview | None) -> bool:
        """Whether the sender of an opening frame has seen this challenge and knows the token."""
        self._opened = signed(frame) + (b"" if body is None else body.tobytes())
        return hmac.compare_digest(credentials(frame)[1], self._proof(b"producer"))

    def answer(self, header: WireHeader) -> bytes:
        """The first frame from a consumer to a producer that it has admitted."""
        return pack(header, proof=self._proof(b"consumer", signed(pack(header))))

    # At the producer --------------------------------------------------------------------------------------------------

    def opening(self, opening: Opening) -> bytes:
        """The frame that opens a channel, for the received challenge."""
        text = json.dumps({"channel": opening.channel, "columns": opening.columns}).encode()
        text += _SPACE * (-len(text) & 7)
        if len(text) > MAX_ANSWER:
            raise DataError(f"channel {opening.channel} has a name that is too long to be opened")
        header, own = WireHeader(FrameKind.OPEN, len(text), epoch=opening.epoch, number=opening.line), nonce()
        self._opened = signed(pack(header, own)) + text
        return pack(header, own, self._proof(b"producer")) + text

    def believes(self, frame: bytes) -> bool:
        """Whether this answer is from a consumer that knows the token and has admitted this opening."""
        return bool(self._opened) and hmac.compare_digest(
            credentials(frame)[1], self._proof(b"consumer", signed(frame))
        )

    def _proof(self, role: bytes, answer: bytes = b"") -> bytes:
        what = role + self._challenge + self._location + hashlib.sha256(self._opened).digest() + answer
        return hmac.digest(self._key, what, "sha256")


def columns_of(schema: pa.Schema) -> list[list[str]]:
    """Names and types, or their hash if they are too long for a first frame."""
    columns = [[field.name, str(field.type)] for field in plain_schema(schema)]
    text = json.dumps(columns)
    if len(text.encode()) <= MAX_ANSWER // 2:
        return columns
    return [[f"{len(columns)} columns", hashlib.sha256(text.encode()).hexdigest()]]


def read_opening(header: WireHeader, body: memoryview | None) -> Opening:
    text = b"" if body is None else body.tobytes()
    try:
        fields = json.loads(text)
        stream, source, target = fields["channel"]
        if not (type(source) is type(target) is int and min(source, target) >= 0 and isinstance(stream, str)):
            raise ValueError("no channel")
        return Opening(ChannelId(stream, source, target), header.epoch, fields["columns"], header.number)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataError(f"an opening that names no channel: {text[:200]!r}") from error
