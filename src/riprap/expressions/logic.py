"""Typing rules of booleans and choices: comparisons, AND OR NOT, IS NULL, IN, CASE (and IF), COALESCE, NULLIF, LEAST.

Floats compare as in IEEE 754 (NaN equals nothing, not even itself) and strings by UTF-8 bytes, which is the order of
code points. Only the chosen branch counts: an overflow in a branch that is not chosen for the row is no error.
"""

from collections.abc import Sequence

from riprap.expressions.kinds import NUMBERS, ValueKind
from riprap.expressions.typed import Mismatch, Typed, agreed, apply, arity, expect

_ONE_TYPE = "all results need one type"


def compare(symbol: str, arguments: Sequence[Typed]) -> Typed:
    agreed(arguments, f"{symbol} compares two values of one type{_hint(arguments)}")
    return apply(ValueKind.BOOLEAN, arguments)


def _hint(arguments: Sequence[Typed]) -> str:
    kinds = {argument.kind for argument in arguments}
    if ValueKind.STRING in kinds and ValueKind.TIMESTAMP in kinds:
        return " (write TIMESTAMP '…' for a constant time)"
    if ValueKind.STRING in kinds and ValueKind.DATE in kinds:
        return " (write DATE '…' for a constant date)"
    return " (CAST one of them)" if ValueKind.OTHER not in kinds else ""


def and_or(name: str, arguments: Sequence[Typed]) -> Typed:
    return apply(ValueKind.BOOLEAN, [expect(argument, (ValueKind.BOOLEAN,), name) for argument in arguments])


def negation(arguments: Sequence[Typed]) -> Typed:
    return apply(ValueKind.BOOLEAN, [expect(arguments[0], (ValueKind.BOOLEAN,), "NOT")])


def is_null(arguments: Sequence[Typed]) -> Typed:
    return Typed(ValueKind.BOOLEAN.type, False)


def is_in(arguments: Sequence[Typed]) -> Typed:
    """`x IN (a, b)` is `x = a OR x = b`."""
    arity(arguments, 2, None, "IN")
    agreed(arguments, "IN compares values of one type")
    return apply(ValueKind.BOOLEAN, arguments)


def case(arguments: Sequence[Typed]) -> Typed:
    """Condition, value, condition, value, …, default."""
    for argument in arguments[0:-1:2]:
        expect(argument, (ValueKind.BOOLEAN,), "a condition")
    results = [*arguments[1:-1:2], arguments[-1]]
    return apply(agreed(results, f"CASE or IF: {_ONE_TYPE}"), results)


def coalesce(arguments: Sequence[Typed]) -> Typed:
    kind = agreed(arguments, f"COALESCE: {_ONE_TYPE}")
    return Typed(kind.type, all(argument.nullable for argument in arguments))


def null_if(arguments: Sequence[Typed]) -> Typed:
    return apply(agreed(arguments, "NULLIF compares two values of one type"), arguments, nullable=True)


def extreme(name: str, arguments: Sequence[Typed]) -> Typed:
    """The least or greatest of the arguments that are not null."""
    arity(arguments, 2, None, name)
    kind = agreed(arguments, f"{name} compares values of one type")
    if kind not in (
        *NUMBERS,
        ValueKind.STRING,
        ValueKind.TIMESTAMP,
        ValueKind.DATE,
        ValueKind.INTERVAL,
        ValueKind.NULL,
    ):
        raise Mismatch(f"{name} takes numbers, strings, dates or timestamps, not {arguments[0]}")
    return Typed(kind.type, all(argument.nullable for argument in arguments))
