"""Errors that a user can cause. Each message is one or two sentences: what was wrong, what was expected, what to do.

`exit_code` is the exit code of the command line. Any exception that is not a `RiprapError` is a bug in Riprap and is
shown with its traceback.

    1  a check that the user requested failed (damage, a bound not met)
    2  bad input: arguments, a graph, an expression, a plan, data
    3  the environment lacks something (Java, a Spark setting, disk)
"""

import os
import re
import sysconfig
import traceback
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import ClassVar
from unicodedata import category

_SECRET_USER = re.compile(r"(?<=://)[^\s:@/]*:\S*@")  # a secret may contain / and @
_SECRET_VALUE = re.compile(
    r"([?&;](?:sig|signature|password|pwd|token|secret|accesskey|x-amz-\w[\w-]*)=)[^&;\s]+", re.IGNORECASE
)
_PACKAGE = str(Path(__file__).parents[1])


class RiprapError(Exception):
    """Base of every error that bad input or a bad environment can cause. Secrets of addresses are not shown."""

    exit_code: ClassVar[int] = 2

    def __init__(self, *arguments: object) -> None:
        super().__init__(*(without_secrets(each) if isinstance(each, str) else each for each in arguments))


def without_secrets(text: str) -> str:
    """The text without `key:secret@` in addresses, and without the values of signatures and passwords in them."""
    return _SECRET_VALUE.sub(r"\1…", _SECRET_USER.sub("", text))


class GraphError(RiprapError):
    """An invalid stream graph: unknown column, duplicate name, port not connected, forbidden cycle."""


class ExpressionError(RiprapError):
    """An expression string that does not parse or does not type-check against its schema."""


class PlanError(RiprapError):
    """A plan that names unknown operators or keys, or that contradicts the graph or itself."""


class DataError(RiprapError):
    """Input data that is unreadable, damaged, out of order, or has the wrong schema."""


class UsageError(RiprapError):
    """Arguments that contradict each other or are out of range."""


class CheckFailed(RiprapError):
    """A check that the user requested failed."""

    exit_code: ClassVar[int] = 1


class MissingPrerequisite(RiprapError):
    """The environment lacks something: Java, a Spark setting, a free port, disk space."""

    exit_code: ClassVar[int] = 3


def users_line(error: BaseException) -> str:
    """`FILE, line N`: the innermost line of user code in an exception's traceback; "" if there is none.

    User code is outside of this package, the standard library and installed packages. If there is no such frame,
    installed packages count as user code.
    """
    frames = traceback.extract_tb(error.__traceback__)
    libraries = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    for excluded in ((_PACKAGE, *libraries), (_PACKAGE, *libraries[:2])):
        for frame in reversed(frames):
            if not frame.filename.startswith(("<", *(directory + os.sep for directory in excluded))):
                return f"{frame.filename}, line {frame.lineno}"
    return ""


def as_sentence(text: str, most: int = 800) -> str:
    """A message for display: on one line, without terminal control characters, at most about `most` characters.

    Messages contain names and values of users verbatim; this function makes them harmless.
    """
    line = harmless(" ".join(text.split()))
    return line if len(line) <= most else f"{line[: most // 2]} … {line[-most // 2 :]}"


def harmless(text: str) -> str:
    """Text that is safe to print to a terminal: control characters (C0 and C1), characters that change the reading
    direction, and characters that cannot be encoded are escaped. Spaces, tabs and line ends stay."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in "\n\t" or category(char) == "Zs" else ascii(char)[1:-1] for char in text
    )


def known(names: Iterable[object], wanted: object = None) -> str:
    """`a, b, c` for a message, followed by a suggestion if `wanted` looks like a misspelling of one of them."""
    listed = [str(name) for name in names]
    if not listed:
        return "none"
    guess = get_close_matches(str(wanted), listed, n=1) if wanted is not None else []
    text = ", ".join(listed[:40]) + (f" and {len(listed) - 40} more" if len(listed) > 40 else "")
    return f"{text} (did you mean {guess[0]}?)" if guess else text
