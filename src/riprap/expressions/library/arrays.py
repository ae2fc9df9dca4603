"""Arrays. Elements are equal as Spark compares them: NaN equals NaN, and NULL equals NULL where sets are formed."""

from typing import Any

import pyarrow as pa

from riprap.expressions.comparing import hashable, key_of
from riprap.expressions.kinds import ValueKind, common_type, kind_of
from riprap.expressions.moments import MICROSECONDS_A_DAY, micros_months_later, months_later
from riprap.expressions.signatures import function, rule, values
from riprap.expressions.typed import EvaluationError, Mismatch, Typed, agreed, arity, convertible

_FAMILY = "arrays"


@rule("array(T...)", _FAMILY)
def array(arguments: list[Typed]) -> Typed:
    element = agreed(arguments, "ARRAY needs elements of one type") if arguments else pa.null()
    type_ = pa.list_(element)
    takes = (element,) * len(arguments)
    return Typed(type_, False, takes=takes, compute=values(lambda *items: list(items), type_, nulls=True))


function("array_size(array<T>) -> int", _FAMILY)(len)
function("size(array<T>) -> int", _FAMILY, "cardinality", nulls=True)(
    lambda items: None if items is None else len(items)
)
function("size(map<K,V>) -> int", _FAMILY)(len)
function("array_append(array<T>, T) -> array<T>", _FAMILY, nulls=True)(
    lambda items, item: None if items is None else [*items, item]
)
function("array_prepend(array<T>, T) -> array<T>", _FAMILY, nulls=True)(
    lambda items, item: None if items is None else [item, *items]
)
function("array_compact(array<T>) -> array<T>", _FAMILY)(lambda items: [item for item in items if item is not None])
function("array_repeat(T, int) -> array<T>", _FAMILY, nulls=True)(
    lambda item, count: None if count is None else [item] * max(0, count)
)
function("reverse(array<T>) -> array<T>", _FAMILY)(lambda items: items[::-1])
function("get(array<T>, int) -> T", _FAMILY)(lambda items, place: items[place] if 0 <= place < len(items) else None)


@function("array_contains(array<T>, T) -> boolean", _FAMILY)
def array_contains(items: list[Any], item: Any) -> bool | None:
    wanted = key_of(item)
    if any(key_of(each) == wanted for each in items):
        return True
    return None if None in items else False


@function("array_position(array<T>, T) -> bigint", _FAMILY)
def array_position(items: list[Any], item: Any) -> int:
    wanted = key_of(item)
    return next((place for place, each in enumerate(items, 1) if key_of(each) == wanted), 0)


@function("array_remove(array<T>, T) -> array<T>", _FAMILY)
def array_remove(items: list[Any], item: Any) -> list[Any]:
    unwanted = key_of(item)
    return [each for each in items if key_of(each) != unwanted]


@function("array_distinct(array<T>) -> array<T>", _FAMILY)
def array_distinct(items: list[Any]) -> list[Any]:
    return _unsigned(_distinct(items))


def _unsigned(items: list[Any]) -> list[Any]:
    """Without -0.0."""
    return [item + 0.0 if isinstance(item, float) else item for item in items]


def _distinct(items: list[Any]) -> list[Any]:
    seen: dict[Any, Any] = {}
    for item in items:
        seen.setdefault(hashable(item), item)
    return list(seen.values())


function("array_union(array<T>, array<T>) -> array<T>", _FAMILY)(
    lambda one, other: _unsigned(_distinct([*one, *other]))
)


@function("array_intersect(array<T>, array<T>) -> array<T>", _FAMILY)
def array_intersect(one: list[Any], other: list[Any]) -> list[Any]:
    wanted = set(map(hashable, other))
    return [item for item in _distinct(one) if hashable(item) in wanted]


@function("array_except(array<T>, array<T>) -> array<T>", _FAMILY)
def array_except(one: list[Any], other: list[Any]) -> list[Any]:
    unwanted = set(map(hashable, other))
    return [item for item in _distinct(one) if hashable(item) not in unwanted]


@function("arrays_overlap(array<T>, array<T>) -> boolean", _FAMILY)
def arrays_overlap(one: list[Any], other: list[Any]) -> bool | None:
    common = {hashable(item) for item in one if item is not None} & {hashable(x) for x in other if x is not None}
    if common:
        return True
    return None if one and other and (None in one or None in other) else False


@function("array_join(array<string>, string, [string]) -> string", _FAMILY, nulls=True)
def array_join(items: list[str | None] | None, separator: str | None, *missing: str | None) -> str | None:
    if items is None or separator is None or missing == (None,):
        return None
    shown = [missing[0] if item is None and missing else item for item in items]
    return separator.join(item for item in shown if item is not None)


@function("array_max(array<T>) -> T", _FAMILY)
def array_max(items: list[Any]) -> Any:
    return max((item for item in items if item is not None), key=key_of, default=None)


@function("array_min(array<T>) -> T", _FAMILY)
def array_min(items: list[Any]) -> Any:
    return min((item for item in items if item is not None), key=key_of, default=None)


@function("sort_array(array<T>, [boolean]) -> array<T>", _FAMILY)
def sort_array(items: list[Any], ascending: bool = True) -> list[Any]:
    return sorted(items, key=key_of, reverse=not ascending)


@function("slice(array<T>, int, int) -> array<T>", _FAMILY)
def slice_(items: list[Any], start: int, length: int) -> list[Any]:
    if start == 0:
        raise EvaluationError("the start of SLICE counts from 1, or from the end if negative; it is 0")
    if length < 0:
        raise EvaluationError(f"the length of SLICE is {length}: it cannot be negative")
    first = start - 1 if start > 0 else len(items) + start
    return items[first : first + length] if first >= 0 else []


@function("array_insert(array<T>, int, T) -> array<T>", _FAMILY, nulls=True)
def array_insert(items: list[Any] | None, position: int | None, item: Any) -> list[Any] | None:
    if items is None or position is None:
        return None
    if position == 0:
        raise EvaluationError("the position of ARRAY_INSERT counts from 1, or from the end if negative; it is 0")
    if position > 0:
        filled = [*items, *[None] * (position - 1 - len(items))]
        return [*filled[: position - 1], item, *filled[position - 1 :]]
    place = len(items) + position + 1
    if place < 0:
        return [item, *[None] * -place, *items]
    return [*items[:place], item, *items[place:]]


@function("element_at(array<T>, int) -> T", _FAMILY)
def element_at(items: list[Any], place: int) -> Any:
    if place == 0:
        raise EvaluationError("the index of ELEMENT_AT counts from 1, or from the end if negative; it is 0")
    if abs(place) > len(items):
        raise EvaluationError(
            f"index {place} of an array with {len(items)} elements (TRY_ELEMENT_AT gives NULL for it)"
        )
    return items[place - 1 if place > 0 else place]


@function("try_element_at(array<T>, int) -> T", _FAMILY)
def try_element_at(items: list[Any], place: int) -> Any:
    if place == 0:
        return element_at(items, place)
    return items[place - 1 if place > 0 else place] if abs(place) <= len(items) else None


@rule("flatten(array<array<T>>)", _FAMILY)
def flatten(arguments: list[Typed]) -> Typed:
    arity(arguments, 1, 1, "FLATTEN")
    outer = arguments[0]
    if outer.kind is not ValueKind.ARRAY or kind_of(outer.type.value_type) is not ValueKind.ARRAY:
        raise Mismatch(f"FLATTEN takes an array of arrays, not {outer}")
    type_ = outer.type.value_type
    joined = values(lambda rows: None if None in rows else [item for row in rows for item in row], type_)
    return Typed(type_, True, compute=joined)


@rule("arrays_zip(array...)", _FAMILY)
def arrays_zip(arguments: list[Typed]) -> Typed:
    """An array of structs, whose fields have the names of the arguments, or numbers."""
    for each in arguments:
        if each.kind is not ValueKind.ARRAY:
            raise Mismatch(f"ARRAYS_ZIP takes arrays, not {each}")
    names = [each.text.rpartition(".")[2].strip("`") if each.text.replace(".", "").isidentifier() else str(place)
             for place, each in enumerate(arguments)]  # fmt: skip
    type_ = pa.list_(pa.struct([pa.field(n, a.type.value_type) for n, a in zip(names, arguments, strict=True)]))

    def zipped(*rows: list[Any]) -> list[Any]:
        most = max(map(len, rows), default=0)
        return list(zip(*([*row, *[None] * (most - len(row))] for row in rows), strict=True))

    return Typed(type_, True, compute=values(zipped, type_))


_MOST = 10_000_000  # elements of a sequence


@rule("sequence(T, T, [step])", _FAMILY)
def sequence(arguments: list[Typed]) -> Typed:
    """Of integers, or of dates or timestamps with an interval as step; both ends belong to it."""
    arity(arguments, 2, 3, "SEQUENCE")
    type_ = common_type(each.type for each in arguments[:2])
    kind = kind_of(type_) if type_ is not None else ValueKind.OTHER
    if kind is ValueKind.INTEGER:
        step = [] if len(arguments) == 2 else [type_]
        if step and not convertible(arguments[2], type_):
            raise Mismatch(f"the step of SEQUENCE is an integer, not {arguments[2]}")
        return _sequence(type_, [type_, type_, *step], lambda start, by, k: start + k * by, 1)
    if kind not in (ValueKind.DATE, ValueKind.TIMESTAMP, ValueKind.TIMESTAMP_NTZ):
        raise Mismatch(f"SEQUENCE takes integers, dates or timestamps, not {arguments[0]} and {arguments[1]}")
    day = 1 if kind is ValueKind.DATE else MICROSECONDS_A_DAY
    if len(arguments) == 2:
        return _sequence(type_, [type_, type_], lambda start, by, k: start + k * by, day)
    if arguments[2].kind is ValueKind.MONTHS:
        later = months_later if kind is ValueKind.DATE else micros_months_later
        months = arguments[2].known or 0
        return _sequence(type_, [type_, type_, arguments[2].type], lambda start, _, k: later(start, k * months), months)
    if arguments[2].kind is not ValueKind.INTERVAL:
        raise Mismatch(f"the step of SEQUENCE is an interval, not {arguments[2]}")
    unit = MICROSECONDS_A_DAY if kind is ValueKind.DATE else 1
    return _sequence(
        type_, [type_, type_, arguments[2].type], lambda start, by, k: (start * unit + k * by) // unit, day, unit
    )


def _sequence(type_: pa.DataType, takes: list[pa.DataType], at: Any, step: int, unit: int = 1) -> Typed:
    def listed(start: int, stop: int, *given: Any) -> list[int]:
        by = (
            given[0] if given and isinstance(given[0], int) else step * unit if given or start <= stop else -step * unit
        )
        if by == 0 and start == stop:
            return [start]
        if by == 0 or (start < stop and by < 0) or (start > stop and by > 0):
            raise EvaluationError(f"SEQUENCE from {start} to {stop} never ends with a step of {by}")
        found: list[int] = []
        while len(found) <= _MOST:
            value = at(start, by, len(found))
            if (by > 0 and value > stop) or (by < 0 and value < stop):
                return found
            found.append(value)
        raise EvaluationError(f"SEQUENCE has more than {_MOST} elements")

    result = pa.list_(type_)
    return Typed(result, True, takes=tuple(takes), compute=values(listed, result))
