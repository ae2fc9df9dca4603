"""Text and bytes. Lengths and positions count code points; without a collation text compares by its bytes."""

import base64
import binascii
import math
import re
import urllib.parse
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from riprap.expressions.casts import castable
from riprap.expressions.decimals import EXACT
from riprap.expressions.formats import writer
from riprap.expressions.kinds import ValueKind
from riprap.expressions.signatures import function, rule, values
from riprap.expressions.typed import EvaluationError, Mismatch, Typed, agreed, arity

_FAMILY = "strings"

function("length(string) -> int", _FAMILY, "char_length", "character_length", "len", arrays=True)(
    lambda texts: pc.utf8_length(texts)
)
function("length(binary) -> int", _FAMILY, arrays=True)(lambda data: pc.binary_length(data))
function("octet_length(string) -> int", _FAMILY)(lambda text: len(text.encode()))
function("octet_length(binary) -> int", _FAMILY)(len)
function("bit_length(string) -> int", _FAMILY)(lambda text: 8 * len(text.encode()))
function("bit_length(binary) -> int", _FAMILY)(lambda data: 8 * len(data))
function("lower(string) -> string", _FAMILY, "lcase")(str.lower)
function("upper(string) -> string", _FAMILY, "ucase")(str.upper)
function("trim(string) -> string", _FAMILY)(lambda text: text.strip(" "))
function("btrim(string, [string]) -> string", _FAMILY)(lambda text, characters=" ": text.strip(characters))
function("ltrim(string) -> string", _FAMILY)(lambda text: text.lstrip(" "))
function("ltrim(string, string) -> string", _FAMILY)(lambda characters, text: text.lstrip(characters))
function("rtrim(string) -> string", _FAMILY)(lambda text: text.rstrip(" "))
function("rtrim(string, string) -> string", _FAMILY)(lambda characters, text: text.rstrip(characters))
function("contains(string, string) -> boolean", _FAMILY)(lambda text, part: part in text)
function("contains(binary, binary) -> boolean", _FAMILY)(lambda data, part: part in data)
function("startswith(string, string) -> boolean", _FAMILY)(str.startswith)
function("startswith(binary, binary) -> boolean", _FAMILY)(bytes.startswith)
function("endswith(string, string) -> boolean", _FAMILY)(str.endswith)
function("endswith(binary, binary) -> boolean", _FAMILY)(bytes.endswith)
function("reverse(string) -> string", _FAMILY)(lambda text: text[::-1])
function("ascii(string) -> int", _FAMILY)(lambda text: ord(text[0]) if text else 0)
function("chr(bigint) -> string", _FAMILY, "char")(lambda n: "" if n < 0 else chr(n & 0xFF))
function("space(int) -> string", _FAMILY)(lambda count: " " * max(0, count))
function("repeat(string, int) -> string", _FAMILY)(lambda text, count: text * max(0, count))
function("left(string, int) -> string", _FAMILY)(lambda text, count: text[: max(0, count)])
function("left(binary, int) -> binary", _FAMILY)(lambda data, count: data[: max(0, count)])
function("right(string, int) -> string", _FAMILY)(lambda text, count: text[-count:] if count > 0 else "")
function("base64(binary) -> string", _FAMILY)(lambda data: base64.b64encode(data).decode())
function("hex(bigint) -> string", _FAMILY)(lambda number: f"{number & (1 << 64) - 1:X}")
function("hex(string) -> string", _FAMILY)(lambda text: text.encode().hex().upper())
function("hex(binary) -> string", _FAMILY)(lambda data: data.hex().upper())
function("is_valid_utf8(string) -> boolean", _FAMILY)(lambda text: True)
function("make_valid_utf8(string) -> string", _FAMILY)(lambda text: text)
function("validate_utf8(string) -> string", _FAMILY)(lambda text: text)
function("try_validate_utf8(string) -> string", _FAMILY)(lambda text: text)
function("quote(string) -> string", _FAMILY)(lambda text: "'" + text.replace("'", "\\'") + "'")
function("url_encode(string) -> string", _FAMILY)(
    lambda text: urllib.parse.quote_plus(text, safe="*-._").replace("~", "%7E")
)


@function("substring(string, int, [int]) -> string", _FAMILY, "substr")
def substring(text: str, position: int, count: int | None = None) -> str:
    return _slice(text, position, count)  # type: ignore[no-any-return]


@function("substring(binary, int, [int]) -> binary", _FAMILY)
def _subbinary(data: bytes, position: int, count: int | None = None) -> bytes:
    return _slice(data, position, count)  # type: ignore[no-any-return]


def _slice(text: Any, position: int, count: int | None) -> Any:
    """From a position that counts from 1, or from the end if negative; 0 is read as 1."""
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    stop = len(text) if count is None else start + count
    return text[max(0, start) : max(0, stop)] if stop > start else text[:0]


@function("substring_index(string, string, int) -> string", _FAMILY)
def substring_index(text: str, delimiter: str, count: int) -> str:
    if not delimiter or not count:
        return ""
    if count > 0:
        at = -1
        for _ in range(count):
            at = text.find(delimiter, at + 1)
            if at < 0:
                return text
        return text[:at]
    at = len(text) + len(delimiter) - 1
    for _ in range(-count):
        at = text.rfind(delimiter, 0, max(0, at - 1 + len(delimiter)))
        if at < 0:
            return text
    return text[at + len(delimiter) :]


@function("split_part(string, string, int) -> string", _FAMILY)
def split_part(text: str, delimiter: str, part: int) -> str:
    if part == 0:
        raise EvaluationError("the part of SPLIT_PART counts from 1, or from the end if negative; it is 0")
    parts = text.split(delimiter) if delimiter else [text]
    place = part - 1 if part > 0 else len(parts) + part
    return parts[place] if 0 <= place < len(parts) else ""


@function("instr(string, string) -> int", _FAMILY)
def instr(text: str, part: str) -> int:
    return text.find(part) + 1


@function("locate(string, string, [int]) -> int", _FAMILY, "position", nulls=True)
def locate(part: str | None, text: str | None, start: int | None = 1) -> int | None:
    if start is None:
        return 0
    if part is None or text is None:
        return None
    if start < 1:
        return 0
    return text.find(part, start - 1) + 1 if part else 1


def _padding(text: Any, length: int, pad: Any) -> Any:
    need = max(0, length - len(text))
    return (pad * (need // len(pad) + 1))[:need] if pad else pad[:0]


@function("lpad(string, int, [string]) -> string", _FAMILY)
def lpad(text: str, length: int, pad: str = " ") -> str:
    return _padding(text, length, pad) + text[: max(0, length)]  # type: ignore[no-any-return]


@function("rpad(string, int, [string]) -> string", _FAMILY)
def rpad(text: str, length: int, pad: str = " ") -> str:
    return text[: max(0, length)] + _padding(text, length, pad)  # type: ignore[no-any-return]


function("lpad(binary, int, [binary]) -> binary", _FAMILY)(
    lambda data, length, pad=b"\0": _padding(data, length, pad) + data[: max(0, length)]
)
function("rpad(binary, int, [binary]) -> binary", _FAMILY)(
    lambda data, length, pad=b"\0": data[: max(0, length)] + _padding(data, length, pad)
)


@function("replace(string, string, [string]) -> string", _FAMILY)
def replace(text: str, part: str, by: str = "") -> str:
    return text.replace(part, by) if part else text


@function("translate(string, string, string) -> string", _FAMILY)
def translate(text: str, letters: str, by: str) -> str:
    table: dict[int, str | None] = {}
    for place, letter in enumerate(letters):
        table.setdefault(ord(letter), by[place] if place < len(by) else None)
    return text.translate(table)


@function("initcap(string) -> string", _FAMILY)
def initcap(text: str) -> str:
    words = text.lower().split(" ")
    return " ".join(word[:1].title() + word[1:] for word in words)


@function("overlay(string, string, int, [int]) -> string", _FAMILY)
def overlay(text: str, by: str, position: int, count: int = -1) -> str:
    length = len(by) if count < 0 else count
    return _slice(text, 1, position - 1) + by + _slice(text, position + length, None)  # type: ignore[no-any-return]


@function("find_in_set(string, string) -> int", _FAMILY)
def find_in_set(text: str, listed: str) -> int:
    parts = listed.split(",")
    return parts.index(text) + 1 if "," not in text and text in parts else 0


@rule("concat_ws(string, any...)", _FAMILY)
def concat_ws(arguments: list[Typed]) -> Typed:
    """Passes over NULL, and joins the elements of arrays."""
    arity(arguments, 1, None, "CONCAT_WS")
    string, strings = pa.string(), pa.list_(pa.string())
    takes = [strings if each.kind is ValueKind.ARRAY else string for each in arguments]

    def joined(separator: str | None, *parts: Any) -> str | None:
        if separator is None:
            return None
        flat = [piece for part in parts for piece in (part if isinstance(part, list) else [part]) if piece is not None]
        return separator.join(flat)

    return Typed(string, True, takes=tuple(takes), compute=values(joined, string, nulls=True))


@rule("concat(T, T...)", _FAMILY)
def concat(arguments: list[Typed]) -> Typed:
    """Of text, of bytes, or of arrays; NULL if any argument is."""
    kinds = {each.kind for each in arguments} - {ValueKind.NULL}
    if ValueKind.ARRAY in kinds:
        type_ = agreed(arguments, "CONCAT joins arrays of one type")
        joined = values(lambda *parts: [value for part in parts for value in part], type_)
        return Typed(type_, True, takes=(type_,) * len(arguments), compute=joined)
    if kinds == {ValueKind.BINARY}:
        return Typed(pa.binary(), True, compute=values(lambda *parts: b"".join(parts), pa.binary()))
    if any(not castable(each.type, pa.string()) for each in arguments):
        raise Mismatch(f"CONCAT takes strings, not {' and '.join(map(str, arguments))}")
    takes = (pa.string(),) * len(arguments)
    null = any(each.nullable for each in arguments)

    def joined_text(*texts: pa.Array) -> pa.Array:
        return pc.binary_join_element_wise(*texts, "") if texts else pa.array([""])

    return Typed(pa.string(), null, takes=takes, compute=joined_text)


@rule("elt(int, T...)", _FAMILY)
def elt(arguments: list[Typed]) -> Typed:
    arity(arguments, 2, None, "ELT")
    binary = all(each.kind is ValueKind.BINARY for each in arguments[1:])
    type_ = pa.binary() if binary else pa.string()

    def picked(place: int | None, *choices: Any) -> Any:
        if place is None:
            return None
        if not 1 <= place <= len(choices):
            raise EvaluationError(f"ELT asks for choice {place} of {len(choices)}")
        return choices[place - 1]

    takes = (pa.int32(), *[type_] * (len(arguments) - 1))
    return Typed(type_, True, takes=takes, compute=values(picked, type_, nulls=True))


@function("unbase64(string) -> binary", _FAMILY)
def unbase64(text: str) -> bytes:
    body = re.sub(r"[^A-Za-z0-9+/]", "", text.split("=")[0])
    if len(body) % 4 == 1:
        raise EvaluationError(f"{text!r} is not base64")
    return binascii.a2b_base64(body + "=" * (-len(body) % 4))


@function("unhex(string) -> binary", _FAMILY)
def unhex(text: str) -> bytes | None:
    try:
        return bytes.fromhex("0" * (len(text) % 2) + text) if not re.search(r"\s", text) else None
    except ValueError:
        return None


_CHARSETS = {
    "us-ascii": "ascii",
    "iso-8859-1": "latin-1",
    "utf-8": "utf-8",
    "utf-16be": "utf-16-be",
    "utf-16le": "utf-16-le",
    "utf-16": "utf-16-be",
    "utf-32": "utf-32-be",
}


def _charset(name: str) -> str:
    known = _CHARSETS.get(name.lower())
    if known is None:
        raise EvaluationError(f"{name!r} is not a character set: expected {', '.join(_CHARSETS).upper()}")
    return known


@function("encode(string, string) -> binary", _FAMILY)
def encode(text: str, charset: str) -> bytes:
    try:
        return (b"\xfe\xff" if charset.lower() == "utf-16" and text else b"") + text.encode(_charset(charset))
    except UnicodeEncodeError:
        raise EvaluationError(f"{text!r} cannot be written in {charset}") from None


@function("decode(binary, string) -> string", _FAMILY)
def decode(data: bytes, charset: str) -> str:
    try:
        if charset.lower() == "utf-16":
            return data.decode("utf-16" if data[:2] in (b"\xfe\xff", b"\xff\xfe") else "utf-16-be")
        return data.decode(_charset(charset))
    except UnicodeDecodeError:
        raise EvaluationError(f"bytes {data!r} are not text in {charset}") from None


@function("soundex(string) -> string", _FAMILY)
def soundex(text: str) -> str:
    codes = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "01230127022455012623017202", strict=True))
    if not text or not ("A" <= text[0].upper() <= "Z" and text[0].isascii()):
        return text
    out, last = [text[0].upper()], codes[text[0].upper()]
    for letter in text[1:].upper():
        code = codes.get(letter) if letter.isascii() else None
        if code is None:
            last = "0"
            continue
        if code == "7":
            continue
        if code not in ("0", last):
            out.append(code)
        last = code
    return "".join(out)[:4].ljust(4, "0")


@function("levenshtein(string, string, [int]) -> int", _FAMILY)
def levenshtein(left: str, right: str, threshold: int | None = None) -> int:
    before = list(range(len(right) + 1))
    for row, a in enumerate(left, 1):
        current = [row]
        for column, b in enumerate(right, 1):
            current.append(min(before[column] + 1, current[-1] + 1, before[column - 1] + (a != b)))
        before = current
    return -1 if threshold is not None and before[-1] > threshold else before[-1]


@function("luhn_check(string) -> boolean", _FAMILY)
def luhn_check(text: str) -> bool:
    if not re.fullmatch("[0-9]+", text):
        return False
    digits = [int(digit) for digit in reversed(text)]
    return (sum(digits[::2]) + sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2])) % 10 == 0


@function("mask(string, [string], [string], [string], [string]) -> string", _FAMILY, nulls=True)
def mask(
    text: str | None,
    upper: str | None = "X",
    lower: str | None = "x",
    digit: str | None = "n",
    other: str | None = None,
) -> str | None:
    if text is None:
        return None

    def letter(c: str) -> str:
        by = upper if c.isupper() else lower if c.islower() else digit if c.isdecimal() else other
        return c if by is None else by

    return "".join(map(letter, text))


@function("format_number(number, int) -> string", _FAMILY)
def format_number(number: Any, places: int) -> str | None:
    if places < 0:
        return None
    if isinstance(number, float) and (number != number or abs(number) == float("inf")):
        return "NaN" if number != number else "∞" if number > 0 else "-∞"
    exact = number if isinstance(number, Decimal) else Decimal(number)
    rounded = exact.quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN, EXACT)
    return f"{rounded:,.{places}f}"


@rule("format_string(string, any...)", _FAMILY, "printf")
def format_string(arguments: list[Typed]) -> Typed:
    """Java's conversions %d, %s, %x, %o, %f, %e, %c, %b, %% with width, precision and the flags - + 0 , and space."""
    arity(arguments, 1, None, "FORMAT_STRING")
    shown = [writer(each.type) for each in arguments[1:]]
    kinds = [each.kind for each in arguments[1:]]

    def written(format_: str | None, *parts: Any) -> str | None:
        return None if format_ is None else _printf(format_, parts, shown, kinds)

    takes = (pa.string(), *(each.type for each in arguments[1:]))
    return Typed(pa.string(), True, takes=takes, compute=values(written, pa.string(), nulls=True))


_CONVERSION = re.compile(r"%(?:(\d+)\$)?([-+ 0,#(]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])")


def _printf(format_: str, parts: tuple[Any, ...], shown: list[Any], kinds: list[ValueKind]) -> str:
    place = 0

    def convert(found: re.Match[str]) -> str:
        nonlocal place
        position, flags, width, precision, letter = found.groups()
        if letter in "%n":
            return "%" if letter == "%" else "\n"
        at = int(position) - 1 if position else place
        place += position is None
        if at >= len(parts):
            raise EvaluationError(f"the format {format_!r} has more conversions than there are values")
        value, kind = parts[at], kinds[at]
        text = _converted(letter, flags, precision, value, kind, shown[at], format_)
        if letter.isupper():
            text = text.upper()
        size = int(width or 0)
        if "0" in flags and value is not None and kind is not ValueKind.STRING:
            sign = text[:1] if text[:1] in "+-" else ""
            return sign + text[len(sign) :].rjust(size - len(sign), "0")
        return text.ljust(size) if "-" in flags else text.rjust(size)

    return _CONVERSION.sub(convert, format_)


def _converted(
    letter: str, flags: str, precision: str | None, value: Any, kind: ValueKind, show: Any, format_: str
) -> str:
    lower = letter.lower()
    if value is None and lower != "b":
        return "null" if precision is None else "null"[: int(precision)]
    if lower == "s":
        text = show(value)
        return text if precision is None else text[: int(precision)]  # type: ignore[no-any-return]
    if lower == "b":
        return "false" if value is None else "true" if kind is not ValueKind.BOOLEAN else str(value).lower()
    whole, real = kind is ValueKind.INTEGER, kind in (ValueKind.FLOAT, ValueKind.DECIMAL)
    comma, plus = "," if "," in flags else "", "+" if "+" in flags else " " if " " in flags else ""
    if lower == "d" and whole:
        return format(value, f"{plus}{comma}d")
    if lower in "xo" and whole:
        return format(value if value >= 0 else value & (1 << 64) - 1, lower)
    if lower == "c" and whole:
        return chr(value)
    if lower in "fe" and real and isinstance(value, float) and not math.isfinite(value):
        return show(value)  # type: ignore[no-any-return]
    if lower == "f" and real:
        digits = int(precision or 6)
        exact = Decimal(repr(value)) if isinstance(value, float) else value
        return format(exact.quantize(Decimal(1).scaleb(-digits), "ROUND_HALF_UP", EXACT), f"{plus}{comma}.{digits}f")
    if lower == "e" and real:
        return format(value, f"{plus}.{int(precision or 6)}e")
    raise EvaluationError(f"the format {format_!r} has %{letter} for a value of another type ({kind.value})")


@function("url_decode(string) -> string", _FAMILY)
def url_decode(text: str) -> str:
    if re.search(r"%(?![0-9a-fA-F]{2})", text):
        raise EvaluationError(f"{text!r} is not an encoded URL")
    return urllib.parse.unquote_plus(text, errors="replace")


@function("try_url_decode(string) -> string", _FAMILY)
def try_url_decode(text: str) -> str | None:
    try:
        return url_decode(text)
    except EvaluationError:
        return None


_URL = re.compile(r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?\Z", re.DOTALL)


def _part_of_url(url: str, part: str, key: str | None) -> str | None:
    found = _URL.match(url)
    if found is None:
        return None
    scheme, authority, path, query, fragment = found.groups()
    if scheme is not None and authority is None and not path.startswith("/"):
        return {"PROTOCOL": scheme, "REF": fragment}.get(part)
    host = None
    if authority is not None:
        host = re.sub(r":\d*\Z", "", authority.rpartition("@")[2]) or None
    if key is not None:
        if part != "QUERY" or query is None:
            return None
        wanted = re.search(rf"(?:^|&){re.escape(key)}=([^&]*)", query)
        return wanted[1] if wanted else None
    user = authority.rpartition("@")[0] if authority and "@" in authority else None
    return {
        "HOST": host,
        "PATH": path,
        "QUERY": query,
        "REF": fragment,
        "PROTOCOL": scheme,
        "FILE": path + (f"?{query}" if query is not None else ""),
        "AUTHORITY": authority or None,
        "USERINFO": user,
    }.get(part)


@function("parse_url(string, string, [string]) -> string", _FAMILY)
def parse_url(url: str, part: str, key: str | None = None) -> str | None:
    if re.search(r"[\s\"<>\\^`{|}]", url) or re.search(r"%(?![0-9a-fA-F]{2})", url):
        raise EvaluationError(f"{url!r} is not a URL (TRY_PARSE_URL gives NULL for it)")
    return _part_of_url(url, part, key)


@function("try_parse_url(string, string, [string]) -> string", _FAMILY)
def try_parse_url(url: str, part: str, key: str | None = None) -> str | None:
    try:
        return parse_url(url, part, key)
    except EvaluationError:
        return None


@function("bin(bigint) -> string", _FAMILY)
def bin_(number: int) -> str:
    return f"{number & (1 << 64) - 1:b}"


@function("conv(string, int, int) -> string", _FAMILY)
def conv(text: str, source: int, target: int) -> str | None:
    """From one base to another, from 2 to 36; a negative target base gives a sign."""
    text = text.strip(" ")
    if not 2 <= source <= 36 or not 2 <= abs(target) <= 36 or not text:
        return None
    negative = text.startswith("-")
    number = 0
    for letter in text[negative:].lower():
        digit = "0123456789abcdefghijklmnopqrstuvwxyz".find(letter)
        if not 0 <= digit < source:
            break
        number = number * source + digit
        if number >= 1 << 64:
            raise EvaluationError(f"{text!r} in base {source} does not fit 64 bits")
    if negative:
        number = -number if target < 0 else -number & (1 << 64) - 1
    elif target < 0 and number >= 1 << 63:
        number -= 1 << 64
    digits, rest = "", abs(number)
    while rest:
        rest, digit = divmod(rest, abs(target))
        digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[digit] + digits
    return ("-" if number < 0 else "") + (digits or "0")
