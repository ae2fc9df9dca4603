"""JSON and CSV. A malformed record is NULL, as Spark reads it in its permissive mode."""

import csv
import io
import json
import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa

from riprap.expressions import formats
from riprap.expressions.decimals import fitted
from riprap.expressions.kinds import FLOAT, TIMES, ValueKind, kind_of
from riprap.expressions.signatures import function, rule, values
from riprap.expressions.type_names import UnknownType, name_of, type_of
from riprap.expressions.typed import EvaluationError, Mismatch, Typed, arity

_FAMILY = "JSON and CSV"


class _Number(str):
    """A number as it was written."""


class _Pairs(list[tuple[str, Any]]):
    """The members of an object, in order."""


@lru_cache(maxsize=1)
def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=_Pairs, parse_int=_Number, parse_float=_Number, parse_constant=_Number, strict=False
    )


_SPACE = " \t\r\n"


def _loaded(text: str, *, rest: bool = True) -> Any:
    """The value at the start of a text; raises `ValueError`. `rest`: nothing may follow it."""
    value, end = _decoder().raw_decode(text.lstrip(_SPACE))
    if rest and text.lstrip(_SPACE)[end:].strip(_SPACE):
        raise ValueError
    return value


def _dumped(value: Any) -> str:
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, _Pairs):
        return "{" + ",".join(f"{_quoted(key)}:{_dumped(item)}" for key, item in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_dumped, value)) + "]"
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\x7f")


# Paths ----------------------------------------------------------------------------------------------------------------

_STEP = re.compile(r"\.(\*|[^.\[\]]+)|\['([^']*)'\]|\[(\d+|\*)\]")


@lru_cache(maxsize=512)
def _steps(path: str) -> tuple[Any, ...] | None:
    if not path.startswith("$"):
        return None
    steps: list[Any] = []
    at = 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            return None
        name, quoted, index = found.groups()
        if index is not None:
            steps.append("*" if index == "*" else int(index))
        else:
            steps.append(("key", name if name is not None else quoted))
        at = found.end()
    return tuple(steps)


def _found(value: Any, steps: tuple[Any, ...]) -> list[Any]:
    """The values that a path leads to; null is none."""
    if not steps:
        return [] if value is None else [value]
    step, rest = steps[0], steps[1:]
    if isinstance(step, tuple):
        if isinstance(value, _Pairs):
            for key, item in value:
                if key == step[1] or step[1] == "*":
                    return _found(item, rest)
        return []
    if not isinstance(value, list) or isinstance(value, _Pairs):
        return []
    if step == "*":
        return [each for item in value for each in _found(item, rest)]
    return _found(value[step], rest) if step < len(value) else []


@function("get_json_object(string, string) -> string", _FAMILY)
def get_json_object(text: str, path: str) -> str | None:
    steps = _steps(path)
    if steps is None:
        return None
    try:
        found = _found(_loaded(text, rest=False), steps)
    except (ValueError, RecursionError):
        return None
    if not found:
        return None
    if len(found) == 1:
        (only,) = found
        if "*" in steps and isinstance(only, str) and not isinstance(only, _Number):
            return _dumped(only)
        return only if isinstance(only, str) else _dumped(only)
    return _dumped(found)


@function("json_array_length(string) -> int", _FAMILY)
def json_array_length(text: str) -> int | None:
    try:
        value = _loaded(text, rest=False)
    except (ValueError, RecursionError):
        return None
    return len(value) if isinstance(value, list) and not isinstance(value, _Pairs) else None


@function("json_object_keys(string) -> array<string>", _FAMILY)
def json_object_keys(text: str) -> list[str] | None:
    try:
        value = _loaded(text, rest=False)
    except (ValueError, RecursionError):
        return None
    return [key for key, _ in value] if isinstance(value, _Pairs) else None


# Schemas and options --------------------------------------------------------------------------------------------------


def schema_of_text(argument: Typed, function_: str) -> pa.DataType:
    """`a INT, b STRING` is a struct; a type is itself."""
    text = argument.known
    if not isinstance(text, str):
        raise Mismatch(f"the schema of {function_} must be constant text, as in 'a INT, b STRING', not {argument}")
    for form in (text, f"struct<{text}>"):
        try:
            return type_of(form)
        except UnknownType:
            continue
    raise Mismatch(f"{text!r} is not a schema: write columns, as in 'a INT, b STRING'")


def _options(arguments: list[Typed], at: int, function_: str) -> None:
    if len(arguments) > at:
        raise Mismatch(f"{function_} takes no options here; leave them out")


class _Unreadable(Exception):
    """A JSON value that is no value of a type."""


_Read = Callable[[Any], Any]


@lru_cache(maxsize=256)
def _reader(type_: pa.DataType) -> _Read:
    """From a JSON value that is not null to a value of a type."""
    kind = kind_of(type_)
    if kind is ValueKind.STRING:
        return lambda value: value if isinstance(value, str) else _dumped(value)
    if kind is ValueKind.STRUCT:
        return _struct_reader(type_)
    if kind is ValueKind.ARRAY:
        element = _reader(type_.value_type)

        def read_array(value: Any) -> Any:
            if not isinstance(value, list) or isinstance(value, _Pairs):
                raise _Unreadable
            return [None if item is None else element(item) for item in value]

        return read_array
    if kind is ValueKind.MAP:
        item_of = _reader(type_.item_type)

        def read_map(value: Any) -> Any:
            if not isinstance(value, _Pairs):
                raise _Unreadable
            return list({key: (key, None if item is None else item_of(item)) for key, item in value}.values())

        return read_map
    return lambda value: _scalar(value, type_, kind)


def _struct_reader(type_: pa.DataType) -> _Read:
    names = {field.name: place for place, field in enumerate(type_)}
    reads = [_reader(field.type) for field in type_]

    def read(value: Any) -> Any:
        if not isinstance(value, _Pairs):
            raise _Unreadable
        row: list[Any] = [None] * len(reads)
        for key, item in value:
            place = names.get(key)
            if place is not None and item is not None:
                try:
                    row[place] = reads[place](item)
                except _Unreadable:
                    row[place] = None
        return tuple(row)

    return read


def _scalar(value: Any, type_: pa.DataType, kind: ValueKind) -> Any:
    number, text = isinstance(value, _Number), isinstance(value, str) and not isinstance(value, _Number)
    try:
        if kind is ValueKind.BOOLEAN and isinstance(value, bool):
            return value
        if kind is ValueKind.INTEGER and number and re.fullmatch(r"-?\d+", value):
            whole, limit = int(value), 1 << type_.bit_width - 1
            if -limit <= whole < limit:
                return whole
        if kind is ValueKind.FLOAT and (
            number or value in ("NaN", "Infinity", "-Infinity", "+INF", "-INF", "INF", "+Infinity")
        ):
            words = {"INF": "inf", "+INF": "inf", "-INF": "-inf"}
            real = float(words.get(value, value))
            import numpy as np

            return float(np.float32(real)) if type_ == FLOAT else real
        if kind is ValueKind.DECIMAL and (number or text):
            return fitted(Decimal(value), type_)
        if text and kind is ValueKind.DATE:
            return formats.read_date(value)
        if text and kind in TIMES:
            return formats.read_timestamp(value, zone=kind is ValueKind.TIMESTAMP)
        if text and kind is ValueKind.BINARY:
            import base64

            return base64.b64decode(value, validate=True)
    except (ArithmeticError, ValueError, formats.NotReadable, EvaluationError):
        pass
    raise _Unreadable


@rule("from_json(string, schema)", _FAMILY)
def from_json(arguments: list[Typed]) -> Typed:
    """A struct, array or map; NULL in fields that cannot be read, and for a text that is not JSON."""
    arity(arguments, 2, 3, "FROM_JSON")
    _options(arguments, 2, "FROM_JSON")
    type_ = schema_of_text(arguments[1], "FROM_JSON")
    read, kind = _reader(type_), kind_of(type_)
    if kind not in (ValueKind.STRUCT, ValueKind.ARRAY, ValueKind.MAP):
        raise Mismatch(f"FROM_JSON reads a struct, an array or a map, not {name_of(type_)}")
    empty = (None,) * type_.num_fields if kind is ValueKind.STRUCT else None

    def parsed(text: str, _: str) -> Any:
        if not text.strip(_SPACE):
            return None
        try:
            value = _loaded(text, rest=False)
            if kind is ValueKind.STRUCT and isinstance(value, list) and not isinstance(value, _Pairs):
                value = value[0] if len(value) == 1 else None
                if value is None:
                    return empty
            if kind is ValueKind.ARRAY and isinstance(value, _Pairs) and kind_of(type_.value_type) is ValueKind.STRUCT:
                value = [value]
            return read(value) if value is not None else None
        except (ValueError, RecursionError, _Unreadable):
            return empty

    return Typed(type_, True, takes=(pa.string(), pa.string()), compute=values(parsed, type_))


@rule("to_json(struct, map or array)", _FAMILY)
def to_json(arguments: list[Typed]) -> Typed:
    """Fields that are NULL are left out."""
    arity(arguments, 1, 2, "TO_JSON")
    _options(arguments, 1, "TO_JSON")
    if arguments[0].kind not in (ValueKind.STRUCT, ValueKind.ARRAY, ValueKind.MAP):
        raise Mismatch(f"TO_JSON takes a struct, an array or a map, not {arguments[0]}")
    write = _writer(arguments[0].type)
    return Typed(pa.string(), True, compute=values(write, pa.string()))


@lru_cache(maxsize=256)
def _writer(type_: pa.DataType) -> Callable[[Any], str]:
    kind = kind_of(type_)
    if kind is ValueKind.STRUCT:
        fields = [(_quoted(field.name), _writer(field.type)) for field in type_]
        return lambda row: (
            "{" + ",".join(f"{n}:{w(v)}" for (n, w), v in zip(fields, row, strict=True) if v is not None) + "}"
        )
    if kind is ValueKind.ARRAY:
        element = _writer(type_.value_type)
        return lambda items: "[" + ",".join("null" if item is None else element(item) for item in items) + "]"
    if kind is ValueKind.MAP:
        key_text, item_text = formats.writer(type_.key_type), _writer(type_.item_type)
        return lambda pairs: (
            "{" + ",".join(f"{_quoted(key_text(k))}:{'null' if v is None else item_text(v)}" for k, v in pairs) + "}"
        )
    show = formats.writer(type_)
    if kind is ValueKind.FLOAT:
        return lambda x: show(x) if x == x and abs(x) != float("inf") else _quoted(show(x))
    if kind in (ValueKind.INTEGER, ValueKind.BOOLEAN, ValueKind.DECIMAL):
        return show
    if kind is ValueKind.TIMESTAMP:
        return lambda t: _quoted(_iso(t) + "Z")
    if kind is ValueKind.TIMESTAMP_NTZ:
        return lambda t: _quoted(_iso(t))
    if kind is ValueKind.BINARY:
        import base64

        return lambda data: _quoted(base64.b64encode(data).decode())
    return lambda value: _quoted(show(value))


def _iso(micros: int) -> str:
    """With milliseconds."""
    date, _, time = formats.timestamp_text(micros).partition(" ")
    clock, _, fraction = time.partition(".")
    return f"{date}T{clock}.{fraction[:3].ljust(3, '0')}"


@rule("from_csv(string, schema)", _FAMILY)
def from_csv(arguments: list[Typed]) -> Typed:
    arity(arguments, 2, 3, "FROM_CSV")
    _options(arguments, 2, "FROM_CSV")
    type_ = schema_of_text(arguments[1], "FROM_CSV")
    if kind_of(type_) is not ValueKind.STRUCT:
        raise Mismatch("FROM_CSV reads columns, as in 'a INT, b STRING'")
    fields = [(field.type, kind_of(field.type)) for field in type_]

    def parsed(text: str, _: str) -> Any:
        cells = next(csv.reader(io.StringIO(text)), [""])
        row = [_cell(cell, *field) for cell, field in zip(cells, fields, strict=False)]
        return tuple(row + [None] * (len(fields) - len(row)))

    return Typed(type_, True, takes=(pa.string(), pa.string()), compute=values(parsed, type_))


def _cell(cell: str, type_: pa.DataType, kind: ValueKind) -> Any:
    from riprap.expressions.casts import converter

    if cell == "":
        return None
    if kind is ValueKind.STRING:
        return cell
    if kind in (ValueKind.INTEGER, ValueKind.BOOLEAN) and cell != cell.strip():
        return None
    try:
        return converter(pa.string(), type_)(cell)
    except EvaluationError:
        return None


@rule("to_csv(struct)", _FAMILY)
def to_csv(arguments: list[Typed]) -> Typed:
    arity(arguments, 1, 2, "TO_CSV")
    _options(arguments, 1, "TO_CSV")
    if arguments[0].kind is not ValueKind.STRUCT:
        raise Mismatch(f"TO_CSV takes a struct, not {arguments[0]}")
    kinds = [kind_of(field.type) for field in arguments[0].type]
    shown = [formats.writer(field.type) for field in arguments[0].type]

    def cell(kind: ValueKind, show: Callable[[Any], str], value: Any) -> str:
        if value is None:
            return ""
        if kind in TIMES:
            return _iso(value) + "Z" * (kind is ValueKind.TIMESTAMP)
        text = show(value).strip(" ")
        if kind is ValueKind.STRING and text == "":
            return '""'
        if re.search(r'[,"\n\r]', text):
            escaped = text.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"'
        return text

    def line(row: Any) -> str:
        return ",".join(cell(*part) for part in zip(kinds, shown, row, strict=True))

    return Typed(pa.string(), True, compute=values(line, pa.string()))
