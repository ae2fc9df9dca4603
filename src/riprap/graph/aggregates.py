"""The functions of an aggregate, with Spark's names and meaning: `sum(price * size) AS total`, and user-defined ones.

Nulls: `count(*)` counts tuples, `count(x)` those whose x is not null; first and last are the oldest and newest tuple's
value, null or not, unless nulls are ignored; all others ignore nulls and are null if no value remains (a collected
array is empty). `FILTER (WHERE …)` restricts a call to tuples for which the condition is true.
Order: NaN is above every number and equals itself. Percentiles sort -0.0 before 0.0, as in Spark.
Numbers: integers are summed exactly in 64 bits (overflow is an error); floats are summed exactly and rounded once.
Moments are computed over the window's tuples, oldest first. So every result depends only on the contents of the window.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from riprap.base.errors import GraphError, known
from riprap.expressions import Expression, parse
from riprap.graph.order_keys import TS_TYPE
from riprap.graph.types import not_a_key

MOMENTS = ("stddev_samp", "stddev_pop", "var_samp", "var_pop", "skewness", "kurtosis")
PAIRED = ("covar_samp", "covar_pop", "corr", "max_by", "min_by")  # functions of two arguments
BITS = ("bit_and", "bit_or", "bit_xor")
COLLECTED = ("collect_list", "collect_set")
BOUNDS = ("window_start", "window_end")  # of the window itself
_SHARED = ("percentile", "percentile_approx")  # a share between 0 and 1 follows the argument
_PICKED = ("first", "last", "any_value")  # a second argument says whether they ignore nulls
_RENAMED = {
    "mean": "avg",
    "std": "stddev_samp",
    "stddev": "stddev_samp",
    "variance": "var_samp",
    "first_value": "first",
    "last_value": "last",
    "any_value": "first",
    "approx_percentile": "percentile_approx",
    "array_agg": "collect_list",
    "bool_and": "min",
    "every": "min",
    "bool_or": "max",
    "some": "max",
    "any": "max",
}
_BOOLEAN = ("bool_and", "every", "bool_or", "some", "any")
_PLAIN = ("sum", "count", "avg", "min", "max", "first", "last", "mode")
_REWRITTEN = ("median", "count_if", "approx_count_distinct")
_COMPARING = ("count_distinct", "min", "max", "mode", "collect_set")
FUNCTIONS = (*_PLAIN, *_RENAMED, *_REWRITTEN, *_SHARED, *MOMENTS, *PAIRED, *BITS, *COLLECTED, *BOUNDS)

_FUNCTION = re.compile(r"^\s*(\w+)\s*\(")
_REST = re.compile(
    r"^\s*(?P<nulls>(ignore|respect)\s+nulls\b)?\s*(filter\s*\(\s*where\b(?P<filter>.*)\))?\s*\bas\s+`?(?P<name>\w+)`?\s*$",
    re.IGNORECASE | re.DOTALL,
)
_DISTINCT = re.compile(r"distinct\b", re.IGNORECASE)


@dataclass(frozen=True)
class AggregateCall:
    """One output column: a function over an expression's values in the window."""

    name: str
    function: str  # "count_distinct", "apply" for a user's, or one of FUNCTIONS that is not another one's name
    argument: Expression | None  # None for count(*)
    user_function: Callable[[Any], Any] | None = None  # of the window's values as a numpy array
    user_type: pa.DataType | None = None  # what user_function returns: float64 or int64
    share: float | None = None  # of a percentile, from 0 to 1
    # The other argument of a function of two; for first and last: only tuples for which it is not null count.
    second: Expression | None = None
    boolean: bool = False  # the argument must be boolean

    @property
    def arguments(self) -> tuple[Expression, ...]:
        return tuple(each for each in (self.argument, self.second) if each is not None)

    def output_field(self, argument: pa.DataType | None, nullable: bool, second: pa.DataType | None = None) -> pa.Field:
        """The output column of this call for arguments of these types."""
        function = self.function
        compared = second if function in ("max_by", "min_by") else argument if function in _COMPARING else None
        if compared is not None and (why := not_a_key(compared)):
            raise GraphError(f"what {self.name} compares {why}")
        if function in ("count", "count_distinct"):
            return pa.field(self.name, pa.int64(), nullable=False)
        if function in BOUNDS:
            return pa.field(self.name, TS_TYPE, nullable=False)
        if argument is None:
            raise GraphError(f"{function}(*) is undefined; replace the star by an expression")
        self._check(argument, second)
        if function in COLLECTED:
            return pa.field(self.name, pa.list_(argument), nullable=False)
        if function == "apply":
            return pa.field(self.name, self.user_type, nullable=False)
        if function in MOMENTS or function in ("covar_samp", "covar_pop", "corr"):
            return pa.field(self.name, pa.float64())
        if function in ("avg", "percentile"):
            return pa.field(self.name, pa.float64(), nullable)
        if function == "sum":
            return pa.field(self.name, pa.int64() if pa.types.is_integer(argument) else pa.float64(), nullable)
        return pa.field(self.name, argument, nullable or self.second is not None)

    def _check(self, argument: pa.DataType, second: pa.DataType | None) -> None:
        function = self.function
        if function in (*_PLAIN[:1], "avg", *_SHARED, "apply", *MOMENTS) and not _numeric(argument):
            moment = pa.types.is_timestamp(argument) or pa.types.is_date32(argument)
            if function != "percentile_approx" or not moment:
                raise GraphError(f"{function} of {argument}: {self.name} needs a numeric argument")
        if function in ("covar_samp", "covar_pop", "corr") and not (_numeric(argument) and _numeric(second)):
            raise GraphError(f"{function} of {argument} and {second}: {self.name} needs two numeric arguments")
        if function in BITS and not pa.types.is_integer(argument):
            raise GraphError(f"{function} of {argument}: {self.name} needs an integer argument")
        if self.boolean and not pa.types.is_boolean(argument):
            raise GraphError(f"{self.name} is of {argument}; bool_and, bool_or, every and some need a condition")


def _numeric(type_: pa.DataType | None) -> bool:
    return type_ is not None and bool(pa.types.is_integer(type_) or pa.types.is_floating(type_))


def parse_call(text: str) -> AggregateCall:
    """`"sum(price * size) FILTER (WHERE size > 0) AS total"` → the call."""
    head = _FUNCTION.match(text)
    stop = _closing(text, head.end()) if head is not None else 0
    rest = _REST.match(text[stop:]) if stop else None
    if head is None or rest is None:
        raise GraphError(f"cannot read {text!r} as an aggregate: write 'sum(price) AS total'")
    spelled, inside = head.group(1).lower(), text[head.end() : stop - 1].strip()
    if spelled not in FUNCTIONS:
        raise GraphError(f"aggregate function {spelled} is unknown; known: {known(FUNCTIONS, spelled)}; or use apply()")
    ignoring = (rest.group("nulls") or "").lower().startswith("ignore")
    condition = rest.group("filter")
    if condition is not None:
        parse(condition)
    function, name = _RENAMED.get(spelled, spelled), rest.group("name")
    distinct = _DISTINCT.match(inside)
    if distinct is not None:
        if function == "collect_list":
            function = "collect_set"
        elif function == "count":
            function = "count_distinct"
        elif function not in ("min", "max", "collect_set"):
            raise GraphError(f"{text!r}: {spelled} does not support DISTINCT; leave it out, or write count(distinct x)")
        inside = inside[distinct.end() :]
    arguments = _split(inside)
    if function in _PICKED and len(arguments) == 2:
        ignoring, arguments = ignoring or arguments.pop().lower() == "true", arguments[:1]
    if ignoring and function not in _PICKED:
        raise GraphError(f"{text!r}: only first, last and any_value can ignore nulls; the others always do")
    if function in BOUNDS:
        if arguments or condition is not None:
            raise GraphError(f"{text!r}: {function}() has no argument and no filter")
        return AggregateCall(name, function, None)
    return _call(text, name, function, arguments, condition, ignoring, boolean=spelled in _BOOLEAN)


def _call(
    text: str, name: str, function: str, arguments: list[str], condition: str | None, ignoring: bool, *, boolean: bool
) -> AggregateCall:
    share = None
    if function in _SHARED or function == "median":
        arguments, share = (arguments, 0.5) if function == "median" else _shared(text, function, arguments)
        function = "percentile" if function == "median" else function
    if function == "approx_count_distinct":  # a bound on the error may follow; the count is exact
        function, arguments = "count_distinct", arguments[:1]
    needed = 2 if function in PAIRED else 1
    if len(arguments) != needed:
        raise GraphError(f"{text!r}: {function} has {needed} argument{'s' * (needed > 1)}, not {len(arguments)}")
    first = arguments[0]
    if first == "*":
        if function != "count":
            raise GraphError(f"{function}(*) is undefined; replace the star by an expression")
        if condition is None:
            return AggregateCall(name, function, None)
        first = "1"
    if function == "count_if":
        function, first = "count", f"CASE WHEN {first} THEN 1 END"
    second: str | None = arguments[1] if needed == 2 else None
    if function in _PICKED:
        kept = [f"({first}) IS NOT NULL"] * ignoring + ([] if condition is None else [f"({condition})"])
        second = f"CASE WHEN {' AND '.join(kept)} THEN true END" if kept else None
    elif condition is not None and second is not None:  # a pair counts if neither is null
        second = f"CASE WHEN {condition} THEN {second} END"
    elif condition is not None:
        first = f"CASE WHEN {condition} THEN {first} END"
    return AggregateCall(
        name,
        function,
        parse(first),
        share=share,
        second=None if second is None else parse(second),
        boolean=boolean,
    )


def _shared(text: str, function: str, arguments: list[str]) -> tuple[list[str], float]:
    """The argument of a percentile, and its share; an approximate one may have an accuracy, which it exceeds."""
    try:
        share = float(arguments[1])
        more = [float(each) for each in arguments[2:]]
    except (ValueError, IndexError):
        share, more = -1.0, []
    if not 0.0 <= share <= 1.0 or len(more) > (function == "percentile_approx"):
        raise GraphError(f"{text!r}: a percentile needs an expression and a number from 0 to 1: percentile(price, 0.9)")
    return arguments[:1], share


def _closing(text: str, start: int) -> int:
    """The place behind the bracket that closes the one before `start`; 0: there is none."""
    depth = 1
    for place, letter in _outside_quotes(text, start):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return place + 1
    return 0


def _split(text: str) -> list[str]:
    """The parts between commas that are in no brackets or quotes."""
    cuts, depth = [-1], 0
    for place, letter in _outside_quotes(text, 0):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            cuts.append(place)
    parts = [text[cut + 1 : end].strip() for cut, end in zip(cuts, [*cuts[1:], len(text)], strict=True)]
    return [] if parts == [""] else parts


def _outside_quotes(text: str, start: int) -> list[tuple[int, str]]:
    out, quote = [], ""
    for place in range(start, len(text)):
        letter = text[place]
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"`":
            quote = letter
        else:
            out.append((place, letter))
    return out


def apply(function: Callable[[Any], Any], argument: str, *, name: str, type: str = "float64") -> AggregateCall:
    """A user-defined function over a window: `function(values)` with the window's values, oldest first.

    `values` is a numpy array of float64 (NaN for null) or int64 (no nulls allowed); the result is a `type` (float64 or
    int64). The function is compiled if Numba can compile it.
    """
    if type not in ("float64", "int64"):
        raise GraphError(f"apply(…, type={type!r}): the result of a user's function is float64 or int64")
    return AggregateCall(name, "apply", parse(argument), function, pa.float64() if type == "float64" else pa.int64())
