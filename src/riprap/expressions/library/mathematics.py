"""Mathematics, bits, and arithmetic that gives NULL where it would fail (TRY_ADD and its like)."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from riprap.expressions import arithmetic
from riprap.expressions.kinds import DOUBLE, FLOAT, ValueKind, kind_of
from riprap.expressions.signatures import function, rule, values
from riprap.expressions.type_names import name_of
from riprap.expressions.typed import EvaluationError, Typed, arity

_FAMILY = "mathematics"


def _real(name: str, compute: Callable[[Any], Any], *also: str) -> None:
    """A function of one double that NumPy has."""

    def over(array: pa.Array) -> pa.Array:
        with np.errstate(all="ignore"):
            computed = compute(array.fill_null(0.0).to_numpy())
        return pa.array(computed, DOUBLE, mask=np.asarray(array.is_null()))

    function(f"{name}(double) -> double", _FAMILY, *also, arrays=True)(over)


for _name in ("acos", "asin", "atan", "cos", "sin", "tan", "cosh", "sinh", "tanh", "expm1"):
    _real(_name, getattr(np, {"acos": "arccos", "asin": "arcsin", "atan": "arctan"}.get(_name, _name)))
_real("acosh", lambda x: np.log(x + np.sqrt(x * x - 1.0)))
_real("asinh", lambda x: np.where(np.isinf(x) | (x == 0), x, np.sign(x) * np.log(np.abs(x) + np.sqrt(x * x + 1.0))))
_real("atanh", lambda x: 0.5 * (np.log1p(x) - np.log1p(-x)))
_real("cbrt", np.cbrt)
_real("cot", lambda x: 1.0 / np.tan(x))
_real("csc", lambda x: 1.0 / np.sin(x))
_real("sec", lambda x: 1.0 / np.cos(x))
_real("degrees", lambda x: x * (180.0 / np.pi))
_real("radians", lambda x: x * (np.pi / 180.0))
_real("rint", np.rint)
_real("signum", lambda x: np.where(x == 0, x, np.sign(x)), "sign")

function("e() -> double", _FAMILY)(lambda: math.e)
function("pi() -> double", _FAMILY)(lambda: math.pi)
function("log1p(double) -> double", _FAMILY)(lambda x: None if x <= -1.0 else math.log1p(x))
function("hypot(double, double) -> double", _FAMILY)(math.hypot)
function("nanvl(double, double) -> double", _FAMILY, nulls=True)(
    lambda x, other: other if x is not None and x != x else x
)
function("atan2(double, double) -> double", _FAMILY)(lambda y, x: math.atan2(y + 0.0, x + 0.0))
function("factorial(int) -> bigint", _FAMILY)(lambda n: math.factorial(n) if 0 <= n <= 20 else None)
function("bit_count(boolean) -> int", _FAMILY)(int)
function("bit_count(integral) -> int", _FAMILY)(lambda n: (n & (1 << 64) - 1).bit_count())


@function("bit_get(integral, int) -> tinyint", _FAMILY, "getbit")
def bit_get(number: int, position: int) -> int:
    if not 0 <= position < 64:
        raise EvaluationError(f"a bit's position is from 0 to 63, not {position}")
    return number >> position & 1


def _signed(number: int, bits: int) -> int:
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> bits - 1 else number


for _bits, _type in ((32, "int"), (64, "bigint")):
    function(f"shiftleft({_type}, int) -> {_type}", _FAMILY)(
        lambda number, by, bits=_bits: _signed(number << by % bits, bits)
    )
    function(f"shiftright({_type}, int) -> {_type}", _FAMILY)(lambda number, by, bits=_bits: number >> by % bits)
    function(f"shiftrightunsigned({_type}, int) -> {_type}", _FAMILY)(
        lambda number, by, bits=_bits: _signed((number & (1 << bits) - 1) >> by % bits, bits)
    )


@function("width_bucket(double, double, double, bigint) -> bigint", _FAMILY)
def width_bucket(value: float, low: float, high: float, count: int) -> int | None:
    if (
        count <= 0
        or count == 2**63 - 1
        or value != value
        or low == high
        or not (math.isfinite(low) and math.isfinite(high))
    ):
        return None
    lower, upper = min(low, high), max(low, high)
    if low < high:
        if value < lower:
            return 0
        return count + 1 if value >= upper else int(count * (value - lower) / (upper - lower)) + 1
    if value > upper:
        return 0
    return count + 1 if value <= lower else int(count * (upper - value) / (upper - lower)) + 1


def _trying(symbol: str) -> Callable[[list[Typed]], Typed]:
    """The operator, with NULL for a value that cannot be computed."""

    def typed(arguments: list[Typed]) -> Typed:
        arity(arguments, 2, 2, f"TRY_{symbol}")
        if symbol == "/":
            result = arithmetic.divide(arguments)
        elif symbol == "%":
            result = arithmetic.remainder("%", arguments)
        else:
            result = arithmetic.add_subtract_multiply(symbol, arguments)
        operate = result.compute or _operation(symbol, result.type)
        return Typed(result.type, True, takes=result.takes, compute=nullable(operate, result.type))

    return typed


def nullable(compute: Callable[..., pa.Array], type_: pa.DataType) -> Callable[..., pa.Array]:
    """The same function, with NULL for rows in which it fails."""

    def tried(*arrays: pa.Array) -> pa.Array:
        try:
            return compute(*arrays)
        except EvaluationError:
            rows = []
            for row in range(len(arrays[0])):
                try:
                    rows.append(compute(*(array.slice(row, 1) for array in arrays)))
                except EvaluationError:
                    rows.append(pa.nulls(1, type_))
            return pa.concat_arrays(rows)

    return tried


def _operation(symbol: str, type_: pa.DataType) -> Callable[..., pa.Array]:
    real = kind_of(type_) is ValueKind.FLOAT

    def compute(a: Any, b: Any) -> Any:
        if symbol in "/%" and not b:
            return None
        match symbol:
            case "+":
                result = a + b
            case "-":
                result = a - b
            case "*":
                result = a * b
            case "/":
                result = a / b
            case _:
                result = (
                    math.fmod(a, b)
                    if real and math.isfinite(a)
                    else math.nan
                    if real
                    else abs(a) % abs(b) * (-1 if a < 0 else 1)
                )
        return float(np.float32(result)) if type_ == FLOAT else result

    def guarded(a: Any, b: Any) -> Any:
        if real:
            with np.errstate(all="ignore"):
                result = compute(np.float64(a), np.float64(b))
            return None if result is None else float(result)
        return compute(a, b)

    return values(guarded, type_)


for _word, _symbol in (("add", "+"), ("subtract", "-"), ("multiply", "*"), ("divide", "/"), ("mod", "%")):
    rule(f"try_{_word}(number, number)", _FAMILY)(_trying(_symbol))


@rule("typeof(any)", "other")
def typeof(arguments: list[Typed]) -> Typed:
    arity(arguments, 1, 1, "TYPEOF")
    name = name_of(arguments[0].type)
    return Typed(pa.string(), False, compute=lambda array: pa.array([name] * len(array)))
