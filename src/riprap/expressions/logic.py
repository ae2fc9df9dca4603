"""Typing rules of booleans and choices: comparisons, AND OR NOT, IS NULL, IN, CASE (and IF), COALESCE, NULLIF, LEAST.

NaN equals itself and is above every number; -0.0 equals 0.0; strings compare by UTF-8 bytes, which is the order of code
points. Only the chosen branch counts: an overflow in a branch that is not chosen for the row is no error.
"""

from collections.abc import Sequence

from riprap.expressions.comparing import comparing, extreme_of
from riprap.expressions.kinds import BOOLEAN, HELD_BY_ARROW, ValueKind, kind_of
from riprap.expressions.typed import Mismatch, Typed, agreed, apply, arity

_ONE_TYPE = "all results need one type"


def compare(symbol: str, arguments: Sequence[Typed]) -> Typed:
    type_ = agreed(arguments, f"{symbol} compares two values of one type")
    if kind_of(type_) is ValueKind.MAP:
        raise Mismatch(f"{symbol} cannot compare maps")
    takes = [type_] * len(arguments)
    if symbol == "<=>":
        return Typed(BOOLEAN, False, takes=tuple(takes), compute=comparing(symbol, type_))
    compute = comparing(symbol, type_) if kind_of(type_) in HELD_BY_ARROW else None
    return apply(BOOLEAN, arguments, takes, compute=compute)


def _truths(arguments: Sequence[Typed], what: str) -> None:
    for argument in arguments:
        if argument.kind not in (ValueKind.BOOLEAN, ValueKind.NULL, ValueKind.STRING):
            raise Mismatch(f"{what} takes a boolean, not {argument}")


def and_or(name: str, arguments: Sequence[Typed]) -> Typed:
    _truths(arguments, name)
    return apply(BOOLEAN, arguments, [BOOLEAN] * len(arguments))


def negation(arguments: Sequence[Typed]) -> Typed:
    arity(arguments, 1, 1, "NOT")
    _truths(arguments, "NOT")
    return apply(BOOLEAN, arguments, [BOOLEAN])


def is_null(arguments: Sequence[Typed]) -> Typed:
    arity(arguments, 1, 1, "IS NULL")
    return Typed(BOOLEAN, False)


def is_in(arguments: Sequence[Typed]) -> Typed:
    """`x IN (a, b)` is `x = a OR x = b`."""
    arity(arguments, 2, None, "IN")
    type_ = agreed(arguments, "IN compares values of one type")
    return apply(BOOLEAN, arguments, [type_] * len(arguments))


def case(arguments: Sequence[Typed]) -> Typed:
    """Condition, value, condition, value, …, default."""
    _truths(arguments[0:-1:2], "a condition")
    results = [*arguments[1:-1:2], arguments[-1]]
    return apply(agreed(results, f"CASE or IF: {_ONE_TYPE}"), results)


def coalesce(arguments: Sequence[Typed]) -> Typed:
    arity(arguments, 1, None, "COALESCE")
    return Typed(agreed(arguments, f"COALESCE: {_ONE_TYPE}"), all(argument.nullable for argument in arguments))


def extreme(name: str, arguments: Sequence[Typed]) -> Typed:
    """The least or greatest of the arguments that are not null."""
    arity(arguments, 2, None, name)
    type_ = agreed(arguments, f"{name} compares values of one type")
    if kind_of(type_) is ValueKind.MAP:
        raise Mismatch(f"{name} cannot compare maps")
    compute = extreme_of(name, type_) if kind_of(type_) in (*HELD_BY_ARROW, ValueKind.BOOLEAN) else None
    null = all(argument.nullable for argument in arguments)
    return Typed(type_, null, takes=(type_,) * len(arguments), compute=compute)
