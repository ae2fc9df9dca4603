"""String functions. Lengths and positions count code points. Arrow computes them; null in, null out."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from riprap.expressions.kinds import ValueKind
from riprap.expressions.typed import Mismatch, Typed, apply, arity, expect


def _mapped(function: Callable[[Any], Any], result: ValueKind) -> Callable[[str, Sequence[Typed]], Typed]:
    """A function of one string."""

    def rule(name: str, arguments: Sequence[Typed]) -> Typed:
        arity(arguments, 1, 1, name)
        argument = expect(arguments[0], (ValueKind.STRING,), name)
        return apply(result, [argument], kernel=function)

    return rule


length = _mapped(pc.utf8_length, ValueKind.INTEGER)
lower, upper = _mapped(pc.utf8_lower, ValueKind.STRING), _mapped(pc.utf8_upper, ValueKind.STRING)
# Spaces only, as in Spark; not tabs or newlines.
trim = _mapped(lambda strings: pc.utf8_trim(strings, " "), ValueKind.STRING)
trim_left = _mapped(lambda strings: pc.utf8_ltrim(strings, " "), ValueKind.STRING)
trim_right = _mapped(lambda strings: pc.utf8_rtrim(strings, " "), ValueKind.STRING)


def concatenate(arguments: Sequence[Typed]) -> Typed:
    """NULL if any argument is."""
    strings = [expect(argument, (ValueKind.STRING,), "CONCAT or ||") for argument in arguments]
    empty = pa.scalar("")
    return apply(ValueKind.STRING, strings, kernel=lambda *texts: pc.binary_join_element_wise(*texts, empty))


def constant_of(argument: Typed, kind: ValueKind, what: str) -> Any:
    """The value of an argument that must be constant."""
    if argument.kind is not kind or argument.constant is None or argument.constant.value is None:
        raise Mismatch(f"{what} must be a constant {kind.value}, not {argument}")
    return argument.constant.value


def substring(arguments: Sequence[Typed]) -> Typed:
    """From a position that counts from 1, or from the end if negative; 0 is read as 1."""
    arity(arguments, 2, 3, "SUBSTRING")
    string = expect(arguments[0], (ValueKind.STRING,), "SUBSTRING")
    position = constant_of(arguments[1], ValueKind.INTEGER, "the position of SUBSTRING")
    count = constant_of(arguments[2], ValueKind.INTEGER, "the length of SUBSTRING") if len(arguments) == 3 else None
    start = position - 1 if position > 0 else position
    stop = None if count is None else start + max(count, 0)
    if stop is not None and start < 0 <= stop:
        stop = None  # counted from the end, and reaching it
    if count is not None and count <= 0:
        start, stop = 0, 0
    return apply(
        ValueKind.STRING, [string], kernel=lambda texts, *_: pc.utf8_slice_codeunits(texts, start=start, stop=stop)
    )


def starts_with(arguments: Sequence[Typed]) -> Typed:
    arity(arguments, 2, 2, "STARTSWITH")
    string = expect(arguments[0], (ValueKind.STRING,), "STARTSWITH")
    prefix = constant_of(arguments[1], ValueKind.STRING, "the prefix of STARTSWITH")
    return apply(ValueKind.BOOLEAN, [string], kernel=lambda texts, _: pc.starts_with(texts, prefix))


def like(arguments: Sequence[Typed]) -> Typed:
    """`%` matches any text, `_` one code point, and a backslash escapes the next character."""
    string = expect(arguments[0], (ValueKind.STRING,), "LIKE")
    pattern = constant_of(arguments[1], ValueKind.STRING, "the pattern of LIKE")
    return apply(ValueKind.BOOLEAN, [string], kernel=lambda texts, _: pc.match_like(texts, pattern))
