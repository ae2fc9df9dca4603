"""The options of a command, each spelled once: as a field of a frozen dataclass.

    @dataclass(frozen=True, kw_only=True)
    class RunOptions:
        seconds: float | None = option(None, "End after this time, as in 60s.", flag="--for", read=seconds)

The keywords of the Python function, the options of the command line (`cli/derived.py`) and their help derive from the
fields. Below the command line, messages name an option by its field in backticks (`seconds`); the command line writes
the flag instead.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar

from riprap.base.errors import UsageError, known

_KEY = "option"
_O = TypeVar("_O")


@dataclass(frozen=True)
class Flag:
    """An option on the command line."""

    help: str
    name: str | None  # None: from the name of the field
    metavar: str | None
    shown: str | None  # in place of the default
    number: bool  # on the command line, whatever else the field takes in Python
    repeated: bool  # on the command line
    least: float | None  # of a number
    read: Callable[[str], Any] | None  # parses the text of the command line; None: the value itself


def option(
    default: Any,
    help: str,
    *,
    flag: str | None = None,
    metavar: str | None = None,
    shown: str | None = None,
    number: bool = False,
    repeated: bool = False,
    least: float | None = None,
    read: Callable[[str], Any] | None = None,
) -> Any:
    """A field with its flag. `default` may be a factory, such as `dict`."""
    metadata = {_KEY: Flag(help, flag, metavar, shown, number, repeated, least, read)}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def flags(options: type) -> dict[str, tuple[Flag, Any]]:
    """The flag and the default of each field."""
    found = {}
    for each in fields(options):
        default = each.default_factory() if each.default_factory is not MISSING else each.default
        found[each.name] = each.metadata[_KEY], default
    return found


def made(options: Callable[..., _O], given: Mapping[str, Any]) -> _O:
    """The options with these values; an unknown name raises `UsageError`."""
    names = [each.name for each in fields(options)]  # type: ignore[arg-type]
    for name in given:
        if name not in names:
            raise UsageError(f"option {name} does not exist: the options are {known(sorted(names), name)}")
    return options(**given)


_F = TypeVar("_F", bound=Callable[..., Any])


def takes(options: type) -> Callable[[_F], _F]:
    """Shows the fields as keywords in the signature of a function that takes them as `**options`."""

    def decorated(function: _F) -> _F:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        taken = {each.name for each in own}
        keywords = [
            inspect.Parameter(
                each.name, inspect.Parameter.KEYWORD_ONLY, default=flags(options)[each.name][1], annotation=each.type
            )
            for each in fields(options)
            if each.name not in taken
        ]
        function.__signature__ = signature.replace(parameters=[*own, *keywords])  # type: ignore[attr-defined]
        return function

    return decorated
