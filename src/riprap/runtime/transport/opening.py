"""How a producer opens a channel: the first frame of a connection.

Its header carries the SHA-256 of the run's token, which is compared in constant time before the body is made room for.
Its number is the *line* that the producer lives under: elements that went back to different checkpoints of a run do not
speak with each other, because what one holds is from a past that the other has abandoned; they try again until both
have gone back.

The body is JSON: `{"channel": [stream, producer's shard, consumer's shard], "columns": [[name, type], …]}`.
"""

import hashlib
import hmac
import json
from typing import NamedTuple

import pyarrow as pa

from riprap.base.errors import DataError
from riprap.graph.types import plain_schema
from riprap.protocols.channels import ChannelId
from riprap.runtime.transport.frame import MAX_ANSWER, FrameKind, Header, pack

_SPACE = b" "


class Opening(NamedTuple):
    channel: ChannelId
    epoch: int
    columns: list[list[str]]
    line: int = 0  # the recovery line that its sender lives under


def digest_of(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def same_digest(given: bytes, expected: bytes) -> bool:
    """In constant time."""
    return hmac.compare_digest(given, expected)


def columns_of(schema: pa.Schema) -> list[list[str]]:
    """Names and types, or, where these are too long for a first frame, what stands for them."""
    columns = [[field.name, str(field.type)] for field in plain_schema(schema)]
    text = json.dumps(columns)
    if len(text.encode()) <= MAX_ANSWER // 2:
        return columns
    return [[f"{len(columns)} columns", hashlib.sha256(text.encode()).hexdigest()]]


def opening_frame(opening: Opening, digest: bytes) -> bytes:
    text = json.dumps({"channel": opening.channel, "columns": opening.columns}).encode()
    text += _SPACE * (-len(text) & 7)
    if len(text) > MAX_ANSWER:
        raise DataError(f"channel {opening.channel} has a name that is too long to be opened")
    return pack(Header(FrameKind.OPEN, len(text), epoch=opening.epoch, number=opening.line), digest) + text


def read_opening(header: Header, body: memoryview | None) -> Opening:
    text = b"" if body is None else body.tobytes()
    try:
        given = json.loads(text)
        stream, source, target = given["channel"]
        if not (type(source) is type(target) is int and min(source, target) >= 0 and isinstance(stream, str)):
            raise ValueError("no channel")
        return Opening(ChannelId(stream, source, target), header.epoch, given["columns"], header.number)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataError(f"an opening that names no channel: {text[:200]!r}") from error
