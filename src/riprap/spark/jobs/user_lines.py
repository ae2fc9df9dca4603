"""Where in the user's files something was made: file, line, and the variable or function that gets the result."""

import ast
import os
import sys
import sysconfig
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyspark

_LIBRARIES = tuple(
    str(path) + os.sep
    for path in {
        Path(__file__).parents[2],
        Path(pyspark.__file__).parent,
        *(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    }
)
_CALLERS = tuple(str(Path(__file__).with_name(name)) for name in ("scripts.py", "pipelines.py"))


@dataclass(frozen=True)
class UserLine:
    file: str
    number: int

    def __str__(self) -> str:
        return f"{shown(self.file)}, line {self.number}" if self.file else ""


NOWHERE = UserLine("", 0)


def shown(file: str) -> str:
    """The file as the user would write it: relative to the working directory where it is below it."""
    relative = os.path.relpath(file) if os.path.isabs(file) else file
    return file if relative.startswith("..") else relative


def users_place() -> UserLine:
    """The innermost line of user code on the stack."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(("<", *_LIBRARIES)):
            return UserLine(file, frame.f_lineno)
        if file.endswith(_CALLERS):  # what called these is not the job's code
            return NOWHERE
        frame = frame.f_back  # type: ignore[assignment]
    return NOWHERE


@dataclass(frozen=True)
class Statement:
    """The statement around a line, and what it gives its value to: a variable, or for return the function."""

    first: int
    label: str


def statement_at(place: UserLine) -> Statement:
    found = Statement(place.number, "")
    for first, last, label in _statements(place.file):  # outer ones first
        if first <= place.number <= last:
            found = Statement(first, label)
    return found


@lru_cache(maxsize=64)
def _statements(file: str) -> tuple[tuple[int, int, str], ...]:
    try:
        tree = ast.parse(Path(file).read_text("utf-8"))
    except (OSError, SyntaxError, ValueError):
        return ()
    found: list[tuple[int, int, str]] = []
    _collect(tree, "", found)
    return tuple(found)


def _collect(node: ast.AST, function: str, found: list[tuple[int, int, str]]) -> None:
    for child in ast.iter_child_nodes(node):
        inside = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if isinstance(child, ast.stmt):
            simple = not hasattr(child, "body")
            if simple:
                found.append((child.lineno, child.end_lineno or child.lineno, _label(child, function)))
        _collect(child, inside, found)


def _label(statement: ast.stmt, function: str) -> str:
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id
    if isinstance(statement, ast.Return) and function != "main":
        return function
    return ""
