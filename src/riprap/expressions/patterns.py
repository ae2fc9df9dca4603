"""Regular expressions over strings, in the syntax of RE2: matching time is linear in the text, for every pattern.

A pattern is a constant and is checked when the expression is bound. It matches anywhere in a text unless it is
anchored. Groups are numbered from 1 by their opening parentheses; 0 is the whole match. A replacement refers to them
as `$1`, as in Spark (`\\$` is a dollar).
"""

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from riprap.expressions.kinds import ValueKind
from riprap.expressions.text import constant_of
from riprap.expressions.typed import Mismatch, Typed, apply, arity, expect

# A backslash with the character that it escapes, a character class, or the parenthesis that opens a group.
_TOKEN = re.compile(r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]|\((?!\?)|\(\?P?<", re.DOTALL)
_REFERENCE = re.compile(r"\\(.)|\$(\d)|\$|\\$", re.DOTALL)


def like(arguments: Sequence[Typed]) -> Typed:
    """Whether the pattern matches some part of a text."""
    arity(arguments, 2, 2, "RLIKE")
    string = expect(arguments[0], (ValueKind.STRING,), "RLIKE")
    pattern = _pattern(arguments[1], "RLIKE")
    return apply(ValueKind.BOOLEAN, [string], kernel=lambda texts, _: pc.match_substring_regex(texts, pattern))


def extract(arguments: Sequence[Typed]) -> Typed:
    """A group of the first match; empty text if the pattern does not match, or the group is not part of the match."""
    arity(arguments, 2, 3, "REGEXP_EXTRACT")
    string = expect(arguments[0], (ValueKind.STRING,), "REGEXP_EXTRACT")
    pattern = _pattern(arguments[1], "REGEXP_EXTRACT")
    group = constant_of(arguments[2], ValueKind.INTEGER, "the group of REGEXP_EXTRACT") if len(arguments) == 3 else 1
    named, groups = _named(pattern)
    if not 0 <= group <= groups:
        has = f"{groups} group{'' if groups == 1 else 's'}"
        raise Mismatch(f"REGEXP_EXTRACT asks for group {group} of a pattern that has {has}; 0 is the whole match")

    def kernel(texts: Any, *_: Any) -> Any:
        found = pc.struct_field(pc.extract_regex(texts, named), [group])
        return pc.if_else(pc.is_valid(texts), pc.coalesce(found, pa.scalar("")), pa.scalar(None, pa.string()))

    return apply(ValueKind.STRING, [string], kernel=kernel)


def replace(arguments: Sequence[Typed]) -> Typed:
    """Replace every match that does not overlap an earlier one."""
    arity(arguments, 3, 3, "REGEXP_REPLACE")
    string = expect(arguments[0], (ValueKind.STRING,), "REGEXP_REPLACE")
    pattern = _pattern(arguments[1], "REGEXP_REPLACE")
    written = constant_of(arguments[2], ValueKind.STRING, "the replacement of REGEXP_REPLACE")
    by = _REFERENCE.sub(_rewritten, written)
    groups = _named(pattern)[1]
    highest = max((int(m.group(2)) for m in _REFERENCE.finditer(written) if m.group(2)), default=0)
    if highest > groups:
        raise Mismatch(f"the replacement {written!r} refers to group {highest} of a pattern that has {groups}")
    return apply(ValueKind.STRING, [string], kernel=lambda texts, *_: pc.replace_substring_regex(texts, pattern, by))


def _pattern(argument: Typed, function: str) -> str:
    pattern: str = constant_of(argument, ValueKind.STRING, f"the pattern of {function}")
    try:
        pc.match_substring_regex(pa.scalar(""), pattern)
    except pa.ArrowInvalid as error:
        why = str(error).removeprefix("Invalid regular expression: ")
        raise Mismatch(
            f"the pattern {pattern!r} of {function} is not a regular expression ({why}); the syntax is RE2's, "
            "which has no look-around and no backreferences"
        ) from None
    return pattern


def _named(pattern: str) -> tuple[str, int]:
    """The pattern with every group named, and all of it in a group, as Arrow needs to extract them; and the number of
    groups.
    """
    groups = 0

    def name(token: re.Match[str]) -> str:
        nonlocal groups
        if not token.group().startswith("("):
            return token.group()
        groups += 1
        return f"(?P<_{groups}>" if token.group() == "(" else token.group()

    return f"(?P<_0>{_TOKEN.sub(name, pattern)})", groups


def _rewritten(part: re.Match[str]) -> str:
    """A part of a replacement in RE2's syntax."""
    if part.group(2) is not None:
        return "\\" + part.group(2)
    character = part.group(1) if part.group(1) is not None else part.group()
    return "\\\\" if character == "\\" else character
