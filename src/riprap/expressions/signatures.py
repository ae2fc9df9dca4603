"""Functions by signature: `element_at(map<K,V>, K) -> V`. One registration says how a function is called, how its
arguments are converted, what it returns and how it is computed; documentation and messages follow from it.

A parameter is a type, a letter that stands for any type (the same letter is the same type, to which all such arguments
are converted), `any`, `number`, `integral` or `decimal`. `[int]` may be left out, `T...` may be repeated.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa

from riprap.expressions.kinds import DOUBLE, INT, NUMERIC, ValueKind, common_type, kind_of
from riprap.expressions.row_values import array_of, values_of
from riprap.expressions.type_names import name_of, type_of
from riprap.expressions.typed import Compute, EvaluationError, Mismatch, Typed, convertible

Rule = Callable[[Any], Typed]  # from the list of its arguments
_VARIABLES = ("T", "U", "K", "V")


@dataclass
class SparkFunction:
    """A function of Spark. `calls` are its signatures, for the reference."""

    name: str
    family: str
    calls: list[str] = field(default_factory=list)
    overloads: list["_Overload"] = field(default_factory=list)
    rule: Rule | None = None  # where types follow from more than a signature

    def __call__(self, arguments: Sequence[Any]) -> Typed:
        if self.rule is not None:
            return self.rule(arguments)
        for exact in (True, False):
            for overload in self.overloads:
                found = overload.matched(arguments, exact=exact)
                if found is not None:
                    return found
        given = " and ".join(map(str, arguments)) or "nothing"
        raise Mismatch(f"{self.name} is called as {' or '.join(self.calls)}, not with {given}")


FUNCTIONS: dict[str, SparkFunction] = {}
ALIASES: dict[str, str] = {}  # another name → the name


def _registered(name: str, family: str, call: str, also: Sequence[str]) -> SparkFunction:
    found = FUNCTIONS.setdefault(name, SparkFunction(name, family))
    found.calls.append(call)
    for other in also:
        ALIASES[other] = name
    return found


def function(
    signature: str, family: str, *also: str, nulls: bool = False, arrays: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function of values, which is NULL where an argument is. `nulls`: it is called with NULL (None), too.
    `arrays`: it is a function of whole Arrow arrays.
    """
    head, _, result = signature.partition(" -> ")
    name, _, rest = head.partition("(")
    parameters = [part.strip() for part in re.split(r",(?![^<]*>)(?![^(]*\))", rest[:-1]) if part.strip()]

    def register(implementation: Callable[..., Any]) -> Callable[..., Any]:
        overload = _Overload(tuple(parameters), result, implementation, nulls, arrays)
        _registered(name.upper(), family, head, also_upper).overloads.append(overload)
        return implementation

    also_upper = [other.upper() for other in also]
    return register


def rule(call: str, family: str, *also: str) -> Callable[[Rule], Rule]:
    """Register a function by the rule that type-checks it."""

    def register(implementation: Rule) -> Rule:
        name = call.partition("(")[0].upper()
        _registered(name, family, call, [other.upper() for other in also]).rule = implementation
        return implementation

    return register


@dataclass(frozen=True)
class _Overload:
    parameters: tuple[str, ...]
    result: str
    implementation: Callable[..., Any]
    nulls: bool
    arrays: bool

    def matched(self, arguments: Sequence[Typed], *, exact: bool) -> Typed | None:
        patterns = self._patterns(len(arguments))
        if patterns is None:
            return None
        bindings: dict[str, pa.DataType] = {}
        for pattern, argument in zip(patterns, arguments, strict=True):
            if not _bind(pattern, argument.type, bindings):
                return None
        takes = []
        for pattern, argument in zip(patterns, arguments, strict=True):
            type_ = _substituted(pattern, bindings, argument.type)
            if type_ is None or (type_ != argument.type and not convertible(argument, type_)):
                return None
            if exact and kind_of(type_) is not argument.kind and argument.kind is not ValueKind.NULL:
                return None
            takes.append(type_)
        first = takes[0] if takes else INT
        type_ = _substituted(_parsed(self.result), bindings, first)
        assert type_ is not None
        compute = self.implementation if self.arrays else values(self.implementation, type_, nulls=self.nulls)
        return Typed(type_, True, takes=tuple(takes), compute=compute)

    def _patterns(self, count: int) -> list[Any] | None:
        fixed = list(self.parameters)
        while fixed and fixed[-1].startswith("[") and len(fixed) > count:
            fixed.pop()
        if fixed and fixed[-1].endswith("..."):
            last = fixed.pop()[:-3]
            fixed += [last] * (count - len(fixed))
        if len(fixed) != count:
            return None
        return [_parsed(part.strip("[]")) for part in fixed]


@lru_cache(maxsize=512)
def _parsed(text: str) -> Any:
    """A type, a variable, a class of types, or ("array" or "map", its parts)."""
    if text == "void":
        return pa.null()
    if text in (*_VARIABLES, "any", "number", "integral", "decimal", "first"):
        return text
    for outer in ("array", "map"):
        if text.startswith(f"{outer}<"):
            inner = re.split(r",(?![^<]*>)", text[len(outer) + 1 : -1])
            parts = [_parsed(part.strip()) for part in inner]
            if any(isinstance(part, (str, tuple)) for part in parts):
                return (outer, *parts)
    return type_of(text)


def _bind(pattern: Any, type_: pa.DataType, bindings: dict[str, pa.DataType]) -> bool:
    """Whether a type fits the shape of a pattern; widens what its variables stand for."""
    if isinstance(pattern, str):
        kind = kind_of(type_)
        if pattern == "number":
            return kind in (*NUMERIC, ValueKind.NULL, ValueKind.STRING)
        if pattern == "integral":
            return kind in (ValueKind.INTEGER, ValueKind.NULL)
        if pattern == "decimal":
            return kind is ValueKind.DECIMAL
        if pattern in _VARIABLES:
            wider = common_type([bindings.get(pattern, pa.null()), type_])
            if wider is None:
                return False
            bindings[pattern] = wider
        return True
    if isinstance(pattern, tuple):
        outer, *parts = pattern
        if kind_of(type_) is ValueKind.NULL:
            return True
        if outer == "array":
            return kind_of(type_) is ValueKind.ARRAY and _bind(parts[0], type_.value_type, bindings)
        return (
            kind_of(type_) is ValueKind.MAP
            and _bind(parts[0], type_.key_type, bindings)
            and _bind(parts[1], type_.item_type, bindings)
        )
    return True


def _substituted(pattern: Any, bindings: dict[str, pa.DataType], own: pa.DataType) -> pa.DataType | None:
    if isinstance(pattern, pa.DataType):
        return pattern
    if isinstance(pattern, tuple):
        parts = [_substituted(part, bindings, pa.null()) for part in pattern[1:]]
        if None in parts:
            return None
        return pa.list_(parts[0]) if pattern[0] == "array" else pa.map_(*parts)
    if pattern in _VARIABLES:
        return bindings.get(pattern, pa.null())
    if pattern == "number":
        return own if kind_of(own) in NUMERIC else DOUBLE
    if pattern == "integral":
        return own if kind_of(own) is ValueKind.INTEGER else INT
    return own


def values(implementation: Callable[..., Any], type_: pa.DataType, *, nulls: bool = False) -> Compute:
    """A function of values as a function of arrays."""

    def compute(*arrays: pa.Array) -> pa.Array:
        columns, results, row = [values_of(array) for array in arrays], [], 0
        try:
            for row, given in enumerate(zip(*columns, strict=True) if columns else [()]):  # noqa: B007
                missing = not nulls and any(each is None for each in given)
                results.append(None if missing else implementation(*given))
            return array_of(results, type_)
        except EvaluationError as failure:
            failure.row = row
            raise
        except (pa.ArrowException, OverflowError) as failure:
            raise _unfit(results, type_) from failure

    return compute


def _unfit(results: Sequence[Any], type_: pa.DataType) -> EvaluationError:
    """The first result that its type cannot hold."""
    for row, result in enumerate(results):
        try:
            array_of([result], type_)
        except (pa.ArrowException, OverflowError):
            return EvaluationError(f"{result} does not fit {name_of(type_)}", row)
    return EvaluationError(f"a result does not fit {name_of(type_)}", 0)
