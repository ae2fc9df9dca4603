"""Errors that a user can cause. Each message is one sentence or two: what was wrong, what was expected, what to do.

`exit_code` is what the command line exits with. Anything that is not a `RiprapError` is a bug of ours and is
shown with its traceback.

    1  a check that was asked for found something wrong (damage, a bound not met)
    2  bad input: arguments, a graph, an expression, a plan, data
    3  the environment lacks something (Java, a Spark setting, disk)
"""

import os
import sysconfig
import traceback
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import ClassVar
from unicodedata import category

_PACKAGE = str(Path(__file__).parents[1])


class RiprapError(Exception):
    """Base of every error that bad input or a bad environment can cause."""

    exit_code: ClassVar[int] = 2


class GraphError(RiprapError):
    """A stream graph that cannot be: unknown column, duplicate name, port not connected, forbidden cycle."""


class ExpressionError(RiprapError):
    """An expression string that does not parse or does not type-check against its schema."""


class PlanError(RiprapError):
    """A plan that names unknown operators or keys, or that contradicts the graph or itself."""


class DataError(RiprapError):
    """Input data that is unreadable, damaged, of another schema, or out of order."""


class UsageError(RiprapError):
    """Arguments that do not fit together or are outside their range."""


class CheckFailed(RiprapError):
    """A check that the user asked for found something wrong."""

    exit_code: ClassVar[int] = 1


class MissingPrerequisite(RiprapError):
    """The environment lacks something: Java, a Spark setting, a free port, disk space."""

    exit_code: ClassVar[int] = 3


def users_line(error: BaseException) -> str:
    """`FILE, line N` of the user's own code that an exception came through last; "" where there is none.

    That is the innermost frame of its traceback outside this package, Python's library and installed packages; outside
    this package alone where all of the user's code is installed.
    """
    frames = traceback.extract_tb(error.__traceback__)
    places = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    for foreign in ((_PACKAGE, *places), (_PACKAGE, *places[:2])):
        for frame in reversed(frames):
            if not frame.filename.startswith(("<", *(place + os.sep for place in foreign))):
                return f"{frame.filename}, line {frame.lineno}"
    return ""


def as_sentence(text: str, most: int = 800) -> str:
    """A message as it is shown: on one line, nothing in it that a terminal obeys, and not endless.

    Names and values of users are in messages as they are; here is where that becomes harmless.
    """
    line = harmless(" ".join(text.split()))
    return line if len(line) <= most else f"{line[: most // 2]} … {line[-most // 2 :]}"


def harmless(text: str) -> str:
    """Text as a terminal may get it: what it would obey (control characters, those of the second block too), what turns
    the direction of reading, and what cannot be encoded is escaped. Spaces, tabs and the ends of lines stay."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" or category(letter) == "Zs" else ascii(letter)[1:-1]
        for letter in text
    )


def known(names: Iterable[object], wanted: object = None) -> str:
    """`a, b, c` for a message, with a guess first when `wanted` looks like a slip of one of them."""
    listed = [str(name) for name in names]
    if not listed:
        return "none"
    guess = get_close_matches(str(wanted), listed, n=1) if wanted is not None else []
    text = ", ".join(listed[:40]) + (f" and {len(listed) - 40} more" if len(listed) > 40 else "")
    return f"{text} (did you mean {guess[0]}?)" if guess else text
