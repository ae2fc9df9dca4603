"""Checks values from files against the annotations of a dataclass.

A JSON or TOML file that was edited by hand, written by another version or damaged may have values of the wrong type.
Checked here once, such a value is one clear error; otherwise it would be an exception in the middle of a report.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields
from math import isfinite
from pathlib import Path
from types import UnionType
from typing import Any, Literal, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

from riprap.base.documents import shortened
from riprap.base.errors import DataError, RiprapError

T = TypeVar("T")

# What code raises when it reads a value of the wrong shape.
MISSHAPEN = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


@contextmanager
def raising_misshapen(wrong: str, *, kind: type[RiprapError] = DataError) -> Iterator[None]:
    """Turn an exception in the block, which a value of the wrong shape caused, into an error with the text `wrong`."""
    try:
        yield
    except MISSHAPEN as error:
        raise kind(f"{wrong} ({type(error).__name__}: {shortened(str(error))})") from None


def shaped(cls: type[T], values: object, where: str) -> T:
    """An instance of a dataclass with these values; lists become tuples. `where` names their origin in errors."""
    if not isinstance(values, Mapping):
        raise DataError(f"{where}: expected a table of values, got {shortened(values)}")
    hints = get_type_hints(cls)
    known = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    for name in values:
        if name not in known:
            raise DataError(f"{where}: {shortened(name)} is unknown; known: {', '.join(known)}")
    checked = {}
    for name, field in known.items():
        if name in values:
            checked[name] = _fitted(hints[name], values[name], f"{where}: {name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise DataError(f"{where}: {name} is missing")
    return cls(**checked)


def _fitted(hint: Any, value: Any, where: str) -> Any:
    fitted = _fit(hint, value)
    if fitted is _NOT:
        raise DataError(f"{where} is {shortened(value)}; expected {_described(hint)}")
    return fitted


_NOT: Any = object()


def _fit(hint: Any, value: Any) -> Any:
    """The value converted to its hint, or `_NOT`."""
    if isinstance(hint, NewType):
        hint = hint.__supertype__
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return next((fitted for member in inner if (fitted := _fit(member, value)) is not _NOT), _NOT)
    if origin is Literal:
        return value if isinstance(value, str | int) and value in inner else _NOT
    if origin is tuple or origin is Sequence:
        if not isinstance(value, list | tuple):
            return _NOT
        wanted = inner if origin is tuple and inner[-1:] != (...,) else (inner[0],) * len(value)
        return _all(wanted, value)
    if origin is Mapping:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            return _NOT
        fitted = _all((inner[1],) * len(value), value.values())
        return _NOT if fitted is _NOT else dict(zip(value, fitted, strict=True))
    if hint is type(None):
        return value if value is None else _NOT
    if hint is float:
        return float(value) if _is_number(value) else _NOT
    if hint is Path:
        return Path(value) if isinstance(value, str | Path) else _NOT
    return value if type(value) is hint else _NOT


def _all(hints: Sequence[Any], values: Any) -> Any:
    if len(hints) != len(values):
        return _NOT
    fitted = tuple(_fit(hint, value) for hint, value in zip(hints, values, strict=True))
    return _NOT if any(value is _NOT for value in fitted) else fitted


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _described(hint: Any) -> str:
    words = {int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "nothing"}
    if isinstance(hint, NewType):
        hint = hint.__supertype__
    inner = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(dict.fromkeys(_described(member) for member in inner))
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, inner))
    if get_origin(hint) in (tuple, Sequence):
        return f"a list of values, each {_described(inner[0])}"
    if get_origin(hint) is Mapping:
        return "a table"
    return words.get(hint, "text" if hint is Path else str(hint))
