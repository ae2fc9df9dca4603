"""Patterns: LIKE, RLIKE and the REGEXP functions, with Java's syntax."""

from typing import Any

from riprap.expressions.library.java_patterns import java_pattern, like_pattern, replaced
from riprap.expressions.signatures import function
from riprap.expressions.typed import EvaluationError

_FAMILY = "patterns"


@function("like(string, string, [string]) -> boolean", _FAMILY)
def like(text: str, pattern: str, escape: str = "\\") -> bool:
    return like_pattern(pattern, escape, ignoring_case=False).fullmatch(text) is not None


@function("ilike(string, string, [string]) -> boolean", _FAMILY)
def ilike(text: str, pattern: str, escape: str = "\\") -> bool:
    return like_pattern(pattern.lower(), escape, ignoring_case=False).fullmatch(text.lower()) is not None


@function("rlike(string, string) -> boolean", _FAMILY, "regexp", "regexp_like")
def rlike(text: str, pattern: str) -> bool:
    return java_pattern(pattern).search(text) is not None


def _group(pattern: Any, group: int, function: str) -> int:
    if not 0 <= group <= pattern.groups:
        has = f"{pattern.groups} group{'' if pattern.groups == 1 else 's'}"
        raise EvaluationError(f"{function} asks for group {group} of a pattern that has {has}; 0 is the whole match")
    return group


@function("regexp_extract(string, string, [int]) -> string", _FAMILY)
def regexp_extract(text: str, pattern: str, group: int = 1) -> str:
    compiled = java_pattern(pattern)
    found = compiled.search(text)
    return (found[_group(compiled, group, "REGEXP_EXTRACT")] or "") if found else ""


@function("regexp_extract_all(string, string, [int]) -> array<string>", _FAMILY)
def regexp_extract_all(text: str, pattern: str, group: int = 1) -> list[str]:
    compiled = java_pattern(pattern)
    return [m[_group(compiled, group, "REGEXP_EXTRACT_ALL")] or "" for m in compiled.finditer(text)]


@function("regexp_replace(string, string, string, [int]) -> string", _FAMILY)
def regexp_replace(text: str, pattern: str, replacement: str, position: int = 1) -> str:
    if position < 1:
        raise EvaluationError(f"the position of REGEXP_REPLACE counts from 1, not {position}")
    if position - 1 >= len(text) and position > 1:
        return text
    compiled = java_pattern(pattern)
    head, rest = text[: position - 1], text[position - 1 :]
    return head + compiled.sub(lambda match: replaced(match, replacement), rest)


@function("regexp_count(string, string) -> int", _FAMILY)
def regexp_count(text: str, pattern: str) -> int:
    return sum(1 for _ in java_pattern(pattern).finditer(text))


@function("regexp_substr(string, string) -> string", _FAMILY)
def regexp_substr(text: str, pattern: str) -> str | None:
    found = java_pattern(pattern).search(text)
    return (found[0] or None) if found else None


@function("regexp_instr(string, string, [int]) -> int", _FAMILY)
def regexp_instr(text: str, pattern: str, group: int = 0) -> int:
    found = java_pattern(pattern).search(text)
    return len(text[: found.start()].encode("utf-16-le")) // 2 + 1 if found else 0


@function("split(string, string, [int]) -> array<string>", _FAMILY)
def split(text: str, pattern: str, limit: int = -1) -> list[str]:
    """Unlike Python's, an empty match at the start adds no empty text."""
    if not text:
        return [""]
    if not pattern:
        parts = list(text)
        return [*parts[: limit - 1], "".join(parts[limit - 1 :])] if 0 < limit < len(parts) else parts
    parts, start = [], 0
    for found in java_pattern(pattern).finditer(text):
        if 0 < limit <= len(parts) + 1:
            break
        if found.end() == 0:
            continue
        parts.append(text[start : found.start()])
        start = found.end()
    return [*parts, text[start:]]
