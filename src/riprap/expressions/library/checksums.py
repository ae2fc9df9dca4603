"""Hashes and checksums: of bytes, and Spark's own of values of any types (HASH, XXHASH64)."""

import hashlib
import struct
import zlib
from collections.abc import Callable
from decimal import Context
from typing import Any

import pyarrow as pa
import xxhash

from riprap.expressions.kinds import FLOAT, INT, LONG, ValueKind, kind_of
from riprap.expressions.signatures import function, rule, values
from riprap.expressions.typed import Mismatch, Typed, arity

_FAMILY = "hashes"
_MASK = (1 << 32) - 1
_SEED = 42
_WIDE = Context(prec=80)

function("md5(binary) -> string", _FAMILY)(lambda data: hashlib.md5(data, usedforsecurity=False).hexdigest())
function("sha(binary) -> string", _FAMILY, "sha1")(lambda data: hashlib.sha1(data, usedforsecurity=False).hexdigest())
function("crc32(binary) -> bigint", _FAMILY)(zlib.crc32)


@function("sha2(binary, int) -> string", _FAMILY)
def sha2(data: bytes, bits: int) -> str | None:
    if bits not in (0, 224, 256, 384, 512):
        return None
    return hashlib.new(f"sha{bits or 256}", data).hexdigest()


def _murmur_word(word: int, seed: int) -> int:
    word = word * 0xCC9E2D51 & _MASK
    word = (word << 15 | word >> 17) & _MASK
    seed ^= word * 0x1B873593 & _MASK
    seed = (seed << 13 | seed >> 19) & _MASK
    return (seed * 5 + 0xE6546B64) & _MASK


def _murmur(data: bytes, seed: int) -> int:
    """Murmur3 with Spark's treatment of the last bytes, each of which counts as a word."""
    whole = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        seed = _murmur_word(word, seed)
    for byte in data[whole:]:
        seed = _murmur_word((byte - 256 if byte > 127 else byte) & _MASK, seed)
    seed ^= len(data)
    seed = (seed ^ seed >> 16) * 0x85EBCA6B & _MASK
    seed = (seed ^ seed >> 13) * 0xC2B2AE35 & _MASK
    return seed ^ seed >> 16


def _xx(data: bytes, seed: int) -> int:
    return xxhash.xxh64_intdigest(data, seed)


_Fold = Callable[[Any, int], int]  # of a value into a hash


def _fold(type_: pa.DataType, hashed: Callable[[bytes, int], int]) -> _Fold:
    kind = kind_of(type_)
    match kind:
        case ValueKind.STRING:
            return lambda text, seed: hashed(text.encode(), seed)
        case ValueKind.BINARY:
            return hashed
        case ValueKind.FLOAT:
            layout = "<f" if type_ == FLOAT else "<d"
            return lambda x, seed: hashed(struct.pack(layout, float("nan") if x != x else x + 0.0), seed)
        case ValueKind.DECIMAL:
            scale = type_.scale
            if type_.precision <= 18:
                return lambda x, seed: hashed(struct.pack("<q", int(x.scaleb(scale))), seed)
            return lambda x, seed: hashed(_java_bytes(int(x.scaleb(scale, _WIDE))), seed)
        case ValueKind.ARRAY:
            element = _or_null(_fold(type_.value_type, hashed))
            return lambda items, seed: _all(((element, item) for item in items), seed)
        case ValueKind.MAP:
            raise Mismatch("a hash of a map is not defined: its entries have no order")
        case ValueKind.STRUCT:
            fields = [_or_null(_fold(field.type, hashed)) for field in type_]
            return lambda row, seed: _all(zip(fields, row, strict=True), seed)
        case ValueKind.NULL:
            return lambda value, seed: seed
    narrow = kind in (ValueKind.BOOLEAN, ValueKind.DATE) or (kind is ValueKind.INTEGER and type_.bit_width <= 32)
    return lambda number, seed: hashed(struct.pack("<i" if narrow else "<q", int(number)), seed)


def _or_null(fold: _Fold) -> _Fold:
    return lambda value, seed: seed if value is None else fold(value, seed)


def _all(parts: Any, seed: int) -> int:
    for fold, value in parts:
        seed = fold(value, seed)
    return seed


def _java_bytes(number: int) -> bytes:
    """As `BigInteger.toByteArray`."""
    size = ((number if number >= 0 else ~number).bit_length()) // 8 + 1
    return number.to_bytes(size, "big", signed=True)


def _hash_rule(name: str, type_: pa.DataType, hashed: Callable[[bytes, int], int]) -> None:
    bits = type_.bit_width

    @rule(f"{name}(any...)", _FAMILY)
    def typed(arguments: list[Typed]) -> Typed:
        arity(arguments, 1, None, name.upper())
        folds = [_or_null(_fold(each.type, hashed)) for each in arguments]

        def compute(*row: Any) -> int:
            result = _all(zip(folds, row, strict=True), _SEED)
            return result - (1 << bits) if result >> bits - 1 else result

        return Typed(type_, False, compute=values(compute, type_, nulls=True))


_hash_rule("hash", INT, _murmur)
_hash_rule("xxhash64", LONG, _xx)
