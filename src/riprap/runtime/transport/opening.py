"""How a channel is opened: both ends prove that they know the run's token, and nothing travels that can be used again.

    consumer  CHALLENGE  a nonce, as soon as somebody connects
    producer  OPEN       a nonce of its own; its epoch and line; JSON: the channel and its columns; its proof
    consumer  HELLO      what it expects; its proof

A proof is an HMAC-SHA-256 under a key that is derived from the token. It covers the role, both nonces, the location
that the producer has dialled, the whole opening frame (epoch, line, channel, columns) and, in the consumer's answer,
that answer. So an opening that was overheard opens nothing, neither end can be made to sign for the other, and whoever
takes the port of an element that died can pass nothing on to another one: that listens elsewhere. Proofs are compared
in constant time. Before a producer has proved itself it may send one frame of at most 4,096 bytes, within 5 s; before a
consumer has, nothing that it says counts and no row goes to it.

The opening's number is the *line* that the producer lives under: elements that went back to different checkpoints of a
run do not speak with each other, because what one holds is from a past that the other has abandoned; they try again
until both have gone back.

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
    line: int = 0  # the recovery line that its sender lives under


class Handshake:
    """One opening, at either end. `location` is the consumer's, as it was announced."""

    def __init__(self, token: str, location: str, challenge: bytes = b"") -> None:
        self._key = hashlib.sha256(b"riprap channel\0" + token.encode()).digest()
        self._location = hashlib.sha256(location.encode()).digest()
        self._challenge = challenge
        self._opened = b""  # what is signed of the opening frame, and its body

    # At the consumer --------------------------------------------------------------------------------------------------

    def challenge(self) -> bytes:
        """The first frame of a connection, with a new nonce."""
        self._challenge = nonce()
        return pack(WireHeader(FrameKind.CHALLENGE, 0), self._challenge)

    def admits(self, frame: bytes, body: memoryview | None) -> bool:
        """Whether an opening frame was made for this challenge by somebody who knows the token."""
        self._opened = signed(frame) + (b"" if body is None else body.tobytes())
        return hmac.compare_digest(credentials(frame)[1], self._proof(b"producer"))

    def answer(self, header: WireHeader) -> bytes:
        """The first frame that a producer gets from a consumer which has admitted it."""
        return pack(header, proof=self._proof(b"consumer", signed(pack(header))))

    # At the producer --------------------------------------------------------------------------------------------------

    def opening(self, opening: Opening) -> bytes:
        """The frame that opens a channel, for the challenge that came."""
        text = json.dumps({"channel": opening.channel, "columns": opening.columns}).encode()
        text += _SPACE * (-len(text) & 7)
        if len(text) > MAX_ANSWER:
            raise DataError(f"channel {opening.channel} has a name that is too long to be opened")
        header, own = WireHeader(FrameKind.OPEN, len(text), epoch=opening.epoch, number=opening.line), nonce()
        self._opened = signed(pack(header, own)) + text
        return pack(header, own, self._proof(b"producer")) + text

    def believes(self, frame: bytes) -> bool:
        """Whether this answer is that of a consumer which has admitted this opening."""
        return bool(self._opened) and hmac.compare_digest(
            credentials(frame)[1], self._proof(b"consumer", signed(frame))
        )

    def _proof(self, role: bytes, answer: bytes = b"") -> bytes:
        what = role + self._challenge + self._location + hashlib.sha256(self._opened).digest() + answer
        return hmac.digest(self._key, what, "sha256")


def columns_of(schema: pa.Schema) -> list[list[str]]:
    """Names and types, or, where these are too long for a first frame, what stands for them."""
    columns = [[field.name, str(field.type)] for field in plain_schema(schema)]
    text = json.dumps(columns)
    if len(text.encode()) <= MAX_ANSWER // 2:
        return columns
    return [[f"{len(columns)} columns", hashlib.sha256(text.encode()).hexdigest()]]


def read_opening(header: WireHeader, body: memoryview | None) -> Opening:
    text = b"" if body is None else body.tobytes()
    try:
        given = json.loads(text)
        stream, source, target = given["channel"]
        if not (type(source) is type(target) is int and min(source, target) >= 0 and isinstance(stream, str)):
            raise ValueError("no channel")
        return Opening(ChannelId(stream, source, target), header.epoch, given["columns"], header.number)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataError(f"an opening that names no channel: {text[:200]!r}") from error
