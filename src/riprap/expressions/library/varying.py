"""Functions that differ from run to run in Spark. Here they follow from a tuple's order key, so that a recovery and a
trial compute the same: random numbers are a hash of it. The parser adds the key, and replaces the functions of the
clock by the tuple's event time.
"""

import math
import struct
from typing import Any
from uuid import UUID

import xxhash

from riprap.expressions.signatures import function

_FAMILY = "varying"


def _word(ts: int, seq: int, call: int, seed: int) -> int:
    return xxhash.xxh64_intdigest(struct.pack("<qqqq", ts, seq, call, seed & (1 << 63) - 1))


def _share(*key: Any) -> float:
    return (_word(*key) >> 11) * 2.0**-53


@function("rand(timestamp, bigint, int, [bigint]) -> double", _FAMILY, "random")
def rand(ts: int, seq: int, call: int, seed: int = 0) -> float:
    return _share(ts, seq, call, seed)


@function("randn(timestamp, bigint, int, [bigint]) -> double", _FAMILY)
def randn(ts: int, seq: int, call: int, seed: int = 0) -> float:
    first, second = 1.0 - _share(ts, seq, call, seed), _share(ts, seq, call, ~seed)
    return math.sqrt(-2.0 * math.log(first)) * math.cos(2.0 * math.pi * second)


@function("uuid(timestamp, bigint, int, [bigint]) -> string", _FAMILY)
def uuid(ts: int, seq: int, call: int, seed: int = 0) -> str:
    high, low = _word(ts, seq, call, seed), _word(ts, seq, call, ~seed)
    return str(UUID(int=high << 64 | low, version=4))
