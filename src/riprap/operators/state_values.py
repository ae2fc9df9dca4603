"""State of one key as data: values as JSON, never as pickled objects.

A value is written with a tag where JSON has no such type, and read as it was: numbers, text, bytes, dates, times,
decimals, lists, maps and rows. Equal content has equal text.
"""

import base64
import json
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from riprap.base.errors import DataError

_WRITTEN: tuple[tuple[type, str, Callable[[Any], Any]], ...] = (
    (datetime, "time", lambda value: value.isoformat()),  # before date, which it is a subclass of
    (date, "date", lambda value: value.isoformat()),
    (timedelta, "span", lambda value: [value.days, value.seconds, value.microseconds]),
    (Decimal, "decimal", str),
    (bytes, "bytes", lambda value: base64.b64encode(value).decode()),
    (bytearray, "bytes", lambda value: base64.b64encode(value).decode()),
    (tuple, "row", lambda value: [written(each) for each in value]),  # a Row of Spark too
    (list, "list", lambda value: [written(each) for each in value]),
    (dict, "map", lambda value: sorted(([written(k), written(v)] for k, v in value.items()), key=as_text)),
)
_READ: dict[str, Callable[[Any], Any]] = {
    "time": datetime.fromisoformat,
    "date": date.fromisoformat,
    "span": lambda parts: timedelta(*parts),
    "decimal": Decimal,
    "bytes": base64.b64decode,
    "row": lambda parts: tuple(read(each) for each in parts),
    "list": lambda parts: [read(each) for each in parts],
    "map": lambda pairs: {read(k): read(v) for k, v in pairs},
}


def written(value: Any) -> Any:
    """A value as what JSON has."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if hasattr(value, "to_pydatetime"):  # pandas
        return written(None if value != value else value.to_pydatetime())
    if hasattr(value, "tolist"):  # NumPy: a scalar, or an array as a list
        return written(value.tolist())
    for type_, tag, write in _WRITTEN:
        if isinstance(value, type_):
            return {tag: write(value)}
    for type_ in (bool, int, float, str):  # subclasses, such as enumerations of numbers
        if isinstance(value, type_):
            return type_(value)
    raise DataError(
        f"state cannot have a {type(value).__name__}; it has numbers, text, bytes, dates, times, decimals, lists, "
        "dictionaries and tuples of them"
    )


def read(value: Any) -> Any:
    """What `written` was given. Lists and dictionaries are new."""
    if isinstance(value, dict):
        ((tag, content),) = value.items()
        return _READ[tag](content)
    return value


def as_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


class KeyState:
    """All state of one key: variables by name, and timers in milliseconds.

    A variable is a list of [value, end], or of [key, value, end] for a map; `end` is when the time to live is over, in
    milliseconds, or None.
    """

    __slots__ = ("text", "timers", "variables")

    def __init__(self, text: str = "") -> None:
        self.text = text  # as saved
        found = json.loads(text) if text else {"timers": [], "variables": {}}
        self.timers: set[int] = set(found["timers"])
        self.variables: dict[str, list[list[Any]]] = found["variables"]

    def saved(self) -> str:
        """The text of the present content; "" if there is none."""
        kept = {name: entries for name, entries in self.variables.items() if entries}
        if not kept and not self.timers:
            return ""
        return as_text({"timers": sorted(self.timers), "variables": kept})

    def first_end(self) -> int | None:
        """When the first value's time to live is over."""
        ends = [e[-1] for entries in self.variables.values() for e in entries if e[-1] is not None]
        return min(ends) if ends else None

    def purge(self, now: int) -> None:
        """Remove the values whose time to live is over."""
        for name, entries in self.variables.items():
            self.variables[name] = [entry for entry in entries if entry[-1] is None or entry[-1] > now]
