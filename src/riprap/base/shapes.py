"""Values out of files, held to the shape that they are to have: that of a dataclass, by its annotations.

JSON and TOML know numbers, text, lists and tables; what was written by hand, by another version or by nobody has them
in the wrong places. Checked here once, such a value is one sentence; else it is an exception in the middle of a report.
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

# What taking apart a value of another shape raises.
MISSHAPEN = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


@contextmanager
def taken_apart(wrong: str, *, kind: type[RiprapError] = DataError) -> Iterator[None]:
    """Whatever goes wrong in here is because what was read is of another shape; `wrong` says so, and what to do."""
    try:
        yield
    except MISSHAPEN as error:
        raise kind(f"{wrong} ({type(error).__name__}: {shortened(str(error))})") from None


def shaped(cls: type[T], values: object, where: str) -> T:
    """An instance of a dataclass of these values; lists become tuples. `where` they are, for the sentence."""
    if not isinstance(values, Mapping):
        raise DataError(f"{where}: expected a table of values, got {shortened(values)}")
    hints = get_type_hints(cls)
    known = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    for name in values:
        if name not in known:
            raise DataError(f"{where}: {shortened(name)} means nothing here; there are {', '.join(known)}")
    found = {}
    for name, field in known.items():
        if name in values:
            found[name] = _fitted(hints[name], values[name], f"{where}: {name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise DataError(f"{where}: {name} is missing")
    return cls(**found)


def _fitted(hint: Any, value: Any, where: str) -> Any:
    fitted = _fit(hint, value)
    if fitted is _NOT:
        raise DataError(f"{where} is {shortened(value)}; expected {_said(hint)}")
    return fitted


_NOT: Any = object()


def _fit(hint: Any, value: Any) -> Any:
    """The value as its hint has it, or `_NOT`."""
    if isinstance(hint, NewType):
        hint = hint.__supertype__
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return next((fitted for each in inner if (fitted := _fit(each, value)) is not _NOT), _NOT)
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
    found = tuple(_fit(hint, value) for hint, value in zip(hints, values, strict=True))
    return _NOT if any(each is _NOT for each in found) else found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _said(hint: Any) -> str:
    words = {int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "nothing"}
    if isinstance(hint, NewType):
        hint = hint.__supertype__
    inner = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(dict.fromkeys(_said(each) for each in inner))
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, inner))
    if get_origin(hint) in (tuple, Sequence):
        return f"a list of such as {_said(inner[0])}"
    if get_origin(hint) is Mapping:
        return "a table"
    return words.get(hint, "text" if hint is Path else str(hint))
