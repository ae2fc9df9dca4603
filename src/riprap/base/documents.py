"""The only reader of JSON and TOML files that a person or another program wrote. Each mistake is one clear sentence.

It returns plain values within bounds: no number is NaN, infinite or an integer of more than 64 bits, nesting is limited
by the parser's recursion, and no file is larger than `LARGEST`.
"""

import json
import tomllib
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any

from riprap.base.errors import DataError, RiprapError
from riprap.base.files import open_file

LARGEST = 256 << 20  # bytes; a topology of a million tasks has 100 MB

Kind = type[RiprapError]


def read_text(path: Path | str, what: str = "", *, kind: Kind = DataError, own: bool = False) -> str:
    """The text of a file. `what`: its kind, for messages, as in "plan"; `own`: it is in a directory that we own."""
    named = f"{what} {path}" if what else str(path)
    try:
        with open_file(path) if own else Path(path).open("rb") as file:
            data = file.read(LARGEST + 1)  # do not rely on the file's size: that of a pipe or a device is 0
        if len(data) > LARGEST:
            raise kind(f"cannot read {named}: it is larger than {LARGEST >> 20} MiB; check the file name")
        return data.decode("utf-8")
    except FileNotFoundError:
        raise kind(f"cannot read {named}: No such file" if what else f"there is no file {path}") from None
    except OSError as error:
        raise kind(f"cannot read {named}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise kind(f"cannot read {named}: it is not UTF-8 text (byte {error.start}); check the file name") from None


def read_json(path: Path | str, what: str = "", *, kind: Kind = DataError, own: bool = False) -> Any:
    return parse_json(read_text(path, what, kind=kind, own=own), f"{what} {path}" if what else str(path), kind=kind)


def read_toml(path: Path | str, what: str = "", *, kind: Kind = DataError) -> dict[str, Any]:
    text = read_text(path, what, kind=kind)
    return _toml(text, f"cannot read {what} {path} as TOML", kind)


def parse_json(text: str, where: str, *, kind: Kind = DataError) -> Any:
    def parse() -> Any:
        return json.loads(text, parse_float=_finite, parse_constant=_finite, parse_int=_whole)

    return _parsed(parse, f"{where} is not JSON", kind)


def parse_toml(text: str, where: str, *, kind: Kind = DataError) -> dict[str, Any]:
    return _toml(text, f"{where} is not TOML", kind)


def shortened(value: Any, most: int = 60) -> str:
    """A value for a message: on one line, at most `most` characters."""
    try:
        text = " ".join(repr(value).split())
    except RecursionError:
        return "something deeply nested"
    return text if len(text) <= most else text[: most - 1] + "…"


def _toml(text: str, wrong: str, kind: Kind) -> dict[str, Any]:
    def parse() -> dict[str, Any]:
        document = tomllib.loads(text, parse_float=_finite)
        stack: list[Any] = [document]
        while stack:  # tomllib has no hook for integers
            value = stack.pop()
            if isinstance(value, dict):
                stack.extend(value.values())
            elif isinstance(value, list):
                stack.extend(value)
            elif isinstance(value, int):
                _bounded(value)
        return document

    document: dict[str, Any] = _parsed(parse, wrong, kind)
    return document


def _parsed(parse: Callable[[], Any], wrong: str, kind: Kind) -> Any:
    try:
        return parse()
    except json.JSONDecodeError as error:
        raise kind(f"{wrong}: {error.msg} at line {error.lineno}") from None
    except RecursionError:
        raise kind(f"{wrong}: it is nested too deeply") from None
    except ValueError as error:  # TOML, and numbers
        raise kind(f"{wrong}: {' '.join(str(error).split())}") from None


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


def _whole(text: str) -> int:
    return _bounded(int(text))


def _bounded(number: int) -> int:
    if not -(2**63) <= number < 2**64:
        raise ValueError("an integer has more than 64 bits")
    return number
