"""Text files that a person or another program wrote: JSON and TOML, read with bounds, every slip told in one sentence.

The one reader of such files. What it returns is made of plain values: no number is NaN or infinite or a whole one of
more than 64 bits, nothing is nested deeper than the reader itself bears, and no file is larger than `LARGEST`.
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
    """The text of a file. `what` it is, for messages, as in "plan"; `own`: it lies in a directory that we own."""
    named = f"{what} {path}" if what else str(path)
    try:
        with open_file(path) if own else Path(path).open("rb") as file:
            data = file.read(LARGEST + 1)  # and not by the file's size: that of a pipe or a device is 0
        if len(data) > LARGEST:
            raise kind(f"cannot read {named}: it has more than {LARGEST >> 20} MiB; give the file that was meant")
        return data.decode("utf-8")
    except FileNotFoundError:
        raise kind(f"cannot read {named}: No such file" if what else f"there is no file {path}") from None
    except OSError as error:
        raise kind(f"cannot read {named}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise kind(
            f"cannot read {named}: it is not UTF-8 text (byte {error.start}); give the file that was meant"
        ) from None


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
    """A value in a message, on one line and not too long."""
    try:
        text = " ".join(repr(value).split())
    except RecursionError:
        return "something deeply nested"
    return text if len(text) <= most else text[: most - 1] + "…"


def _toml(text: str, wrong: str, kind: Kind) -> dict[str, Any]:
    def parse() -> dict[str, Any]:
        found = tomllib.loads(text, parse_float=_finite)
        left: list[Any] = [found]
        while left:  # its whole numbers cannot be looked at while they are read
            each = left.pop()
            if isinstance(each, dict):
                left.extend(each.values())
            elif isinstance(each, list):
                left.extend(each)
            elif isinstance(each, int):
                _bounded(each)
        return found

    found: dict[str, Any] = _parsed(parse, wrong, kind)
    return found


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
        raise ValueError(f"{text} is not a number that can be worked with")
    return number


def _whole(text: str) -> int:
    return _bounded(int(text))


def _bounded(number: int) -> int:
    if not -(2**63) <= number < 2**64:
        raise ValueError("a whole number has more than 64 bits")
    return number
