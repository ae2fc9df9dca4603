"""All functions and operators of the language, with the rules that type-check them."""

from collections.abc import Callable, Sequence

from riprap.expressions import arithmetic, logic, moments, patterns, text
from riprap.expressions.typed import Typed

Rule = Callable[[Sequence[Typed]], Typed]


def _named(rule: Callable[[str, Sequence[Typed]], Typed], *names: str) -> dict[str, Rule]:
    """A rule for several functions gets the function's name."""

    def bound(name: str) -> Rule:
        return lambda arguments: rule(name, arguments)

    return {name: bound(name) for name in names}


RULES: dict[str, Rule] = {
    **_named(arithmetic.add_subtract_multiply, "+", "-", "*"),
    "/": arithmetic.divide,
    "%": arithmetic.remainder,
    "NEGATE": arithmetic.negate,
    **_named(arithmetic.same_number, "ABS", "FLOOR", "CEIL"),
    "ROUND": arithmetic.round_,
    **_named(arithmetic.real, "SQRT", "EXP", "POWER"),
    **_named(arithmetic.logarithm, "LN", "LOG"),
    "ISNAN": arithmetic.is_nan,
    **_named(logic.compare, "=", "<>", "<", "<=", ">", ">="),
    **_named(logic.and_or, "AND", "OR"),
    "NOT": logic.negation,
    "IS NULL": logic.is_null,
    "IN": logic.is_in,
    "CASE": logic.case,
    "COALESCE": logic.coalesce,
    "NULLIF": logic.null_if,
    **_named(logic.extreme, "LEAST", "GREATEST"),
    **_named(text.length, "LENGTH"),
    **_named(text.lower, "LOWER"),
    **_named(text.upper, "UPPER"),
    **_named(text.trim, "TRIM"),
    **_named(text.trim_left, "LTRIM"),
    **_named(text.trim_right, "RTRIM"),
    "SUBSTRING": text.substring,
    "CONCAT": text.concatenate,
    "STARTSWITH": text.starts_with,
    "LIKE": text.like,
    "RLIKE": patterns.like,
    "REGEXP_EXTRACT": patterns.extract,
    "REGEXP_REPLACE": patterns.replace,
    **_named(moments.calendar_part, "YEAR", "MONTH", "DAY"),
    **_named(moments.clock_part, "HOUR", "MINUTE", "SECOND", "UNIX_MICROS"),
}
