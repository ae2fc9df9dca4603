"""All functions and operators of the language, with the rules that type-check them."""

from collections.abc import Callable, Sequence
from typing import Any

from riprap.expressions import arithmetic, logic, moments
from riprap.expressions.library import LOADED
from riprap.expressions.signatures import ALIASES, FUNCTIONS, Rule
from riprap.expressions.typed import Typed

assert LOADED  # importing the library registers its functions


def _named(rule: Callable[[str, Sequence[Typed]], Typed], *names: str) -> dict[str, Rule]:
    """A rule for several functions gets the function's name."""

    def bound(name: str) -> Rule:
        return lambda arguments: rule(name, arguments)

    return {name: bound(name) for name in names}


# What `code_writer.py` writes as code.
WRITTEN: dict[str, Rule] = {
    **_named(arithmetic.add_subtract_multiply, "+", "-", "*"),
    "/": arithmetic.divide,
    "DIV": arithmetic.divide_whole,
    **_named(arithmetic.remainder, "%", "PMOD"),
    **_named(arithmetic.negate, "NEGATE", "ABS"),
    **_named(arithmetic.bits, "&", "|", "^", "~"),
    **_named(arithmetic.to_whole, "FLOOR", "CEIL"),
    **_named(arithmetic.round_, "ROUND", "BROUND"),
    **_named(arithmetic.real, "SQRT", "EXP", "POWER"),
    **_named(arithmetic.logarithm, "LN", "LOG"),
    "ISNAN": arithmetic.is_nan,
    **_named(logic.compare, "=", "<>", "<", "<=", ">", ">=", "<=>"),
    **_named(logic.and_or, "AND", "OR"),
    "NOT": logic.negation,
    "IS NULL": logic.is_null,
    "IN": logic.is_in,
    "CASE": logic.case,
    "COALESCE": logic.coalesce,
    **_named(logic.extreme, "LEAST", "GREATEST"),
    **_named(moments.calendar_part, "YEAR", "MONTH", "DAY"),
    **_named(moments.clock_part, "HOUR", "MINUTE", "SECOND", "UNIX_MICROS", "UNIX_MILLIS", "UNIX_SECONDS"),
}
_WRITTEN_ALIASES = {
    "CEILING": "CEIL",
    "CHARACTER_LENGTH": "LENGTH",
    "DAYOFMONTH": "DAY",
    "IFNULL": "COALESCE",
    "NVL": "COALESCE",
    "MOD": "%",
    "NEGATIVE": "NEGATE",
    "POW": "POWER",
    "ISNULL": "IS NULL",
    "EQUAL_NULL": "<=>",
}
WRITTEN_CALLS = (
    "abs(number)", "bround(number, [int])", "ceil(number, [int])", "ceiling = ceil", "coalesce(T...)",
    "day(date)", "dayofmonth = day", "equal_null(T, T)", "exp(double)", "floor(number, [int])", "greatest(T, T...)",
    "hour(timestamp)", "ifnull(T, T)", "isnan(double)", "isnull(any)", "least(T, T...)", "ln(double)",
    "log([double], double)", "minute(timestamp)", "mod(number, number)", "month(date)", "negative(number)",
    "nvl = ifnull",
    "pmod(number, number)", "pow = power", "power(double, double)", "round(number, [int])", "second(timestamp)",
    "sqrt(double)", "unix_micros(timestamp)", "unix_millis(timestamp)", "unix_seconds(timestamp)", "year(date)",
    "rand([seed])", "random([seed])", "randn([seed])", "uuid()",
)  # fmt: skip
# Forms that the parser rewrites with other functions.
REWRITTEN = {
    "IF": "if(boolean, T, T)",
    "NULLIF": "nullif(T, T)",
    "NVL2": "nvl2(any, T, T)",
    "ISNOTNULL": "isnotnull(any)",
    "DECODE": "decode(T, T, U, ..., [U])",
    "EXTRACT": "extract(field FROM source)",
    "DATE_PART": "date_part(field, source)",
    "DATEPART": "datepart(field, source)",
    "LOG10": "log10(double)",
    "LOG2": "log2(double)",
    "POSITIVE": "positive(number)",
    "ZEROIFNULL": "zeroifnull(number)",
    "NULLIFZERO": "nullifzero(number)",
    "CURRENT_TIMESTAMP": "current_timestamp()",
    "NOW": "now()",
    "CURRENT_DATE": "current_date()",
    "CURDATE": "curdate()",
    "LOCALTIMESTAMP": "localtimestamp()",
    "MONOTONICALLY_INCREASING_ID": "monotonically_increasing_id()",
    "CAST": "cast(any AS type)",
    "TRY_CAST": "try_cast(any AS type)",
    **{
        name.upper(): f"{name}(any)"
        for name in ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "date",
                     "timestamp", "string", "binary")
    },
}  # fmt: skip


def canonical(name: str) -> str:
    """The one spelling of a function, from any that Spark has; in capitals."""
    name = name.upper()
    return _WRITTEN_ALIASES.get(name) or ALIASES.get(name, name)


def rule_of(name: str) -> Callable[[Sequence[Any]], Typed]:
    return WRITTEN.get(name) or FUNCTIONS[name]


def is_known(name: str) -> bool:
    return name in WRITTEN or name in FUNCTIONS


def spellings() -> list[str]:
    """Every name by which a function can be called."""
    named = {name for name in WRITTEN if name.replace("_", "").isalnum() and name not in ("AND", "OR", "NOT", "NEGATE")}
    return sorted(
        (named - {"IN", "CASE", "DIV"}) | set(FUNCTIONS) | set(ALIASES) | set(_WRITTEN_ALIASES) | set(REWRITTEN)
    )
