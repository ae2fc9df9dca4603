"""The functions of an aggregate: `sum(price * size) AS total`, and user-defined functions.

Nulls: `count(*)` counts tuples, `count(x)` those whose x is not null; sum, avg, min and max ignore nulls and are null
if no value remains; first and last are the oldest and newest tuple's value, null or not.
`count(distinct x)` is the number of distinct values, ignoring nulls (NaN equals NaN). `percentile(x, 0.9)` is the value
at position 0.9 · (n − 1) of the n values in ascending order, counted from 0, with linear interpolation. -0.0 sorts
before 0.0, as in Spark, and NaN last. `median(x)` is `percentile(x, 0.5)`.
Numbers: integers are summed exactly in 64 bits (overflow is an error); floats are summed exactly and rounded once, so
the result depends only on the contents of the window. NaN makes a sum NaN; min and max order NaN above every number.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from riprap.base.errors import GraphError, known
from riprap.expressions import Expression, parse

FUNCTIONS = ("sum", "count", "avg", "min", "max", "first", "last", "percentile", "median")
_CALL = re.compile(r"^\s*(\w+)\s*\((.*)\)\s+as\s+(\w+)\s*$", re.IGNORECASE | re.DOTALL)
_DISTINCT = re.compile(r"distinct\b", re.IGNORECASE)


@dataclass(frozen=True)
class AggregateCall:
    """One output column: a function over an expression's values in the window."""

    name: str
    function: str  # one of FUNCTIONS but median, "count_distinct", or "apply" for a user's
    argument: Expression | None  # None for count(*)
    user_function: Callable[[Any], Any] | None = None  # of the window's values as a numpy array
    user_type: pa.DataType | None = None  # what user_function returns: float64 or int64
    share: float | None = None  # of a percentile, from 0 to 1

    def output_field(self, argument: pa.DataType | None, nullable: bool) -> pa.Field:
        """The output column of this call for an argument of that type."""
        if self.function in ("count", "count_distinct"):
            return pa.field(self.name, pa.int64(), nullable=False)
        if argument is None:
            raise GraphError(f"{self.function}(*) is undefined; replace the star by an expression")
        numeric = pa.types.is_integer(argument) or pa.types.is_floating(argument)
        if self.function in ("sum", "avg", "percentile", "apply") and not numeric:
            raise GraphError(f"{self.function} of {argument}: {self.name} needs a numeric argument")
        if self.function in ("min", "max") and (pa.types.is_string(argument) or pa.types.is_binary(argument)):
            raise GraphError(f"{self.function} of {argument}: use first or last, or sort, for text")
        if self.function == "apply":
            return pa.field(self.name, self.user_type, nullable=False)
        if self.function in ("avg", "percentile"):
            return pa.field(self.name, pa.float64(), nullable)
        if self.function == "sum":
            return pa.field(self.name, pa.int64() if pa.types.is_integer(argument) else pa.float64(), nullable)
        return pa.field(self.name, argument, nullable)


def parse_call(text: str) -> AggregateCall:
    """`"sum(price * size) AS total"` → the call."""
    match = _CALL.match(text)
    if match is None:
        raise GraphError(f"cannot read {text!r} as an aggregate: write 'sum(price) AS total'")
    function, argument, name = match.group(1).lower(), match.group(2).strip(), match.group(3)
    if function not in FUNCTIONS:
        raise GraphError(
            f"aggregate function {function} is unknown; known: {known(FUNCTIONS, function)}; or use apply()"
        )
    if argument == "*":
        if function != "count":
            raise GraphError(f"{function}(*) is undefined; replace the star by an expression")
        return AggregateCall(name, function, None)
    if function == "median":
        return AggregateCall(name, "percentile", parse(argument), share=0.5)
    if function == "percentile":
        argument, share = _shared(text, argument)
        return AggregateCall(name, function, parse(argument), share=share)
    distinct = _DISTINCT.match(argument)
    if distinct is None:
        return AggregateCall(name, function, parse(argument))
    if function != "count":
        raise GraphError(f"{text!r}: only count supports DISTINCT; leave it out, or write 'count(distinct x) AS n'")
    return AggregateCall(name, "count_distinct", parse(argument[distinct.end() :]))


def _shared(text: str, arguments: str) -> tuple[str, float]:
    """The argument of a percentile, and its share."""
    argument, comma, last = arguments.rpartition(",")
    try:
        share = float(last)
    except ValueError:
        comma = ""
    if not comma or not 0.0 <= share <= 1.0:
        raise GraphError(f"{text!r}: a percentile needs an expression and a number from 0 to 1: percentile(price, 0.9)")
    return argument, share


def apply(function: Callable[[Any], Any], argument: str, *, name: str, type: str = "float64") -> AggregateCall:
    """A user-defined function over a window: `function(values)` with the window's values, oldest first.

    `values` is a numpy array of float64 (NaN for null) or int64 (no nulls allowed); the result is a `type` (float64 or
    int64). The function is compiled if Numba can compile it.
    """
    if type not in ("float64", "int64"):
        raise GraphError(f"apply(…, type={type!r}): the result of a user's function is float64 or int64")
    return AggregateCall(name, "apply", parse(argument), function, pa.float64() if type == "float64" else pa.int64())
