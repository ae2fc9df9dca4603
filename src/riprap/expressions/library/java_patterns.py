"""Java's regular expressions as Python's. What differs in syntax is rewritten; what Python lacks is refused."""

import re
from functools import lru_cache

from riprap.expressions.typed import EvaluationError

_LINE_END = "\n\r\u0085\u2028\u2029"
_LETTERS = (
    r"a-zA-Z\u00aa\u00b5\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02c1\u0370-\u03ff\u0400-\u052f\u0531-\u0587"
    r"\u05d0-\u05ea\u0620-\u064a\u0900-\u0963\u0e01-\u0e30\u1e00-\u1fff\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf"
    r"\u4e00-\u9fff\uac00-\ud7a3"
)
_CLASSES = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0b\f\r",
    "L": _LETTERS,
    "Lu": r"A-Z\u00c0-\u00d6\u00d8-\u00de\u0391-\u03a9\u0410-\u042f",
    "Ll": r"a-z\u00df-\u00f6\u00f8-\u00ff\u03b1-\u03c9\u0430-\u044f",
    "N": r"0-9\u00b2\u00b3\u00b9\u00bc-\u00be\u0660-\u0669\u0966-\u096f",
    "Nd": r"0-9\u0660-\u0669\u0966-\u096f",
    "P": r"!-#%-*,-/:;?@\[-\]_{}\u00a1\u00a7\u00ab\u00b6\u00b7\u00bb\u00bf\u2010-\u2027\u2030-\u205e\u3001-\u3003",
}
_SIMPLE = {
    "z": r"\Z",
    "Z": r"(?=\n?\Z)",
    "h": r"[ \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000]",
    "R": r"(?:\r\n|[\n-\r\u0085\u2028\u2029])",
    "e": r"\x1b",
}


@lru_cache(maxsize=1024)
def java_pattern(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(_rewritten(pattern), re.ASCII)
    except (re.error, IndexError, ValueError) as error:
        raise EvaluationError(f"{pattern!r} is not a regular expression that can be evaluated ({error})") from None


def _rewritten(pattern: str) -> str:
    out, at, inside = [], 0, 0
    dotall = "(?s" in pattern
    while at < len(pattern):
        letter = pattern[at]
        if letter == "\\":
            text, at = _escaped(pattern, at, inside=inside > 0)
            out.append(text)
            continue
        if letter == "[" and not inside:
            inside = 1
            if pattern[at + 1 : at + 2] == "^":
                out.append("[^")
                at += 2
            else:
                out.append("[")
                at += 1
            continue
        if inside and letter == "[":
            raise ValueError("a class within a class")
        if inside and letter == "]":
            inside = 0
        elif inside and pattern.startswith("&&", at):
            raise ValueError("an intersection of classes")
        elif not inside and letter == "." and not dotall:
            out.append(f"[^{_LINE_END}]")
            at += 1
            continue
        elif (
            not inside
            and letter == "("
            and pattern.startswith("(?<", at)
            and pattern[at + 3 : at + 4] not in ("=", "!")
        ):
            out.append("(?P<")
            at += 3
            continue
        out.append(letter)
        at += 1
    return "".join(out)


def _escaped(pattern: str, at: int, *, inside: bool) -> tuple[str, int]:
    letter = pattern[at + 1]
    if letter == "Q":
        end = pattern.find("\\E", at)
        stop = len(pattern) if end < 0 else end
        return re.escape(pattern[at + 2 : stop]), stop + 2
    if letter in "pP":
        if pattern[at + 2] == "{":
            end = pattern.index("}", at)
            name, stop = pattern[at + 3 : end], end + 1
        else:
            name, stop = pattern[at + 2], at + 3
        ranges = _CLASSES.get(name.removeprefix("Is"))
        if ranges is None or (inside and letter == "P"):
            raise ValueError(f"the class {name}")
        return ranges if inside else f"[{'^' * (letter == 'P')}{ranges}]", stop
    if letter == "x" and pattern[at + 2 : at + 3] == "{":
        end = pattern.index("}", at)
        return re.escape(chr(int(pattern[at + 3 : end], 16))), end + 1
    if letter == "k":
        end = pattern.index(">", at)
        return f"(?P={pattern[at + 3 : end]})", end + 1
    if letter in _SIMPLE and not inside:
        return _SIMPLE[letter], at + 2
    if not letter.isalnum():
        return re.escape(letter), at + 2
    return "\\" + letter, at + 2


@lru_cache(maxsize=1024)
def like_pattern(pattern: str, escape: str, *, ignoring_case: bool) -> re.Pattern[str]:
    """`%` matches any text and `_` one character, unless escaped."""
    out, at = [], 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == escape:
            if at + 1 == len(pattern):
                raise EvaluationError(f"the pattern {pattern!r} of LIKE ends with its escape character")
            if pattern[at + 1] not in ("%", "_", escape):
                raise EvaluationError(
                    f"the pattern {pattern!r} of LIKE escapes {pattern[at + 1]!r}, which means nothing: "
                    f"write {escape * 2!r} for the escape character"
                )
            at += 1
            out.append(re.escape(pattern[at]))
        else:
            out.append(".*" if letter == "%" else "." if letter == "_" else re.escape(letter))
        at += 1
    return re.compile("".join(out), re.DOTALL | (re.IGNORECASE if ignoring_case else 0))


_REFERENCE = re.compile(r"\\(.)|\$\{(\w+)\}|\$(\d+)|\\$|\$", re.DOTALL)


def replaced(match: re.Match[str], replacement: str) -> str:
    """A replacement in Java's syntax, `$1` or `${name}` for groups, for one match."""

    def part(found: re.Match[str]) -> str:
        literal, name, number = found.groups()
        if literal is not None:
            return literal
        if name is not None:
            return match[name] or ""
        if number is None:
            raise EvaluationError(f"the replacement {replacement!r} has a $ without a group: write \\$ for a dollar")
        digits = number
        while len(digits) > 1 and int(digits) > len(match.groups()):
            digits = digits[:-1]
        if int(digits) > len(match.groups()):
            raise EvaluationError(f"the replacement {replacement!r} refers to group {digits}, which does not exist")
        return (match[int(digits)] or "") + number[len(digits) :]

    return _REFERENCE.sub(part, replacement)
