"""Regular expressions over strings, in the syntax of RE2: matching takes time linear in the text, whatever the pattern.

A pattern is a constant and is checked when the expression is bound. It matches anywhere in a text unless it is
anchored. Groups count from 1 by their opening brackets, and 0 is all that matched; a replacement refers to them as
`$1`, as in Spark (`\\$` is a dollar).
"""

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from riprap.expressions.kinds import ValueKind
from riprap.expressions.text import constant_of
from riprap.expressions.typed import Mismatch, Typed, apply, arity, expect

# A backslash and what it takes as it is, a class of characters, or the bracket that opens a group.
_TOKEN = re.compile(r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]|\((?!\?)|\(\?P?<", re.DOTALL)
_REFERENCE = re.compile(r"\\(.)|\$(\d)|\$|\\$", re.DOTALL)


def like(arguments: Sequence[Typed]) -> Typed:
    """Whether the pattern matches some part of a text."""
    arity(arguments, 2, 2, "RLIKE")
    string = expect(arguments[0], (ValueKind.STRING,), "RLIKE")
    pattern = _pattern(arguments[1], "RLIKE")
    return apply(ValueKind.BOOLEAN, [string], kernel=lambda texts, _: pc.match_substring_regex(texts, pattern))


def extract(arguments: Sequence[Typed]) -> Typed:
    """A group of the first match; the empty text where the pattern does not match, or the group took no part."""
    arity(arguments, 2, 3, "REGEXP_EXTRACT")
    string = expect(arguments[0], (ValueKind.STRING,), "REGEXP_EXTRACT")
    pattern = _pattern(arguments[1], "REGEXP_EXTRACT")
    group = constant_of(arguments[2], ValueKind.INTEGER, "the group of REGEXP_EXTRACT") if len(arguments) == 3 else 1
    named, groups = _named(pattern)
    if not 0 <= group <= groups:
        has = f"{groups} group{'' if groups == 1 else 's'}"
        raise Mismatch(f"REGEXP_EXTRACT asks for group {group} of a pattern that has {has}; 0 is all that matched")

    def kernel(texts: Any, *_: Any) -> Any:
        found = pc.struct_field(pc.extract_regex(texts, named), [group])
        return pc.if_else(pc.is_valid(texts), pc.coalesce(found, pa.scalar("")), pa.scalar(None, pa.string()))

    return apply(ValueKind.STRING, [string], kernel=kernel)


def replace(arguments: Sequence[Typed]) -> Typed:
    """Every match that does not overlap one before it, replaced."""
    arity(arguments, 3, 3, "REGEXP_REPLACE")
    string = expect(arguments[0], (ValueKind.STRING,), "REGEXP_REPLACE")
    pattern = _pattern(arguments[1], "REGEXP_REPLACE")
    written = constant_of(arguments[2], ValueKind.STRING, "the replacement of REGEXP_REPLACE")
    by = _REFERENCE.sub(_rewritten, written)
    groups = _named(pattern)[1]
    asked = max((int(m.group(2)) for m in _REFERENCE.finditer(written) if m.group(2)), default=0)
    if asked > groups:
        raise Mismatch(f"the replacement {written!r} refers to group {asked} of a pattern that has {groups}")
    return apply(ValueKind.STRING, [string], kernel=lambda texts, *_: pc.replace_substring_regex(texts, pattern, by))


def _pattern(argument: Typed, who: str) -> str:
    pattern: str = constant_of(argument, ValueKind.STRING, f"the pattern of {who}")
    try:
        pc.match_substring_regex(pa.scalar(""), pattern)
    except pa.ArrowInvalid as error:
        why = str(error).removeprefix("Invalid regular expression: ")
        raise Mismatch(
            f"the pattern {pattern!r} of {who} is no regular expression ({why}); the syntax is RE2's, which has no "
            "look-around and no references back"
        ) from None
    return pattern


def _named(pattern: str) -> tuple[str, int]:
    """The pattern with every group named, itself in one, which is what Arrow needs to take them apart; and how many
    groups there are."""
    groups = 0

    def name(token: re.Match[str]) -> str:
        nonlocal groups
        if not token.group().startswith("("):
            return token.group()
        groups += 1
        return f"(?P<_{groups}>" if token.group() == "(" else token.group()

    return f"(?P<_0>{_TOKEN.sub(name, pattern)})", groups


def _rewritten(part: re.Match[str]) -> str:
    """A piece of a replacement as RE2 writes it."""
    if part.group(2) is not None:
        return "\\" + part.group(2)
    taken = part.group(1) if part.group(1) is not None else part.group()
    return "\\\\" if taken == "\\" else taken
