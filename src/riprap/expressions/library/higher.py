"""Functions with functions as arguments: `transform(a, x -> x + 1)`. The function's body runs once, over all elements
of a batch.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cmp_to_key
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from riprap.expressions.casts import castable, casting
from riprap.expressions.comparing import chosen, hashable, key_of
from riprap.expressions.kinds import BOOLEAN, INT, ValueKind, common_type, kind_of
from riprap.expressions.library.maps import without_repeats
from riprap.expressions.row_values import array_of, values_of
from riprap.expressions.signatures import rule, values
from riprap.expressions.typed import EvaluationError, Mismatch, Typed, arity

_FAMILY = "functions of functions"


class _Flat:
    """The elements of an array column, one after the other, and the row of each."""

    def __init__(self, rows: Sequence[Sequence[Any] | None]) -> None:
        self.rows = rows
        self.lengths = np.array([0 if row is None else len(row) for row in rows], np.int64)
        self.row = np.repeat(np.arange(len(rows)), self.lengths)

    def column(self, type_: pa.DataType, part: Callable[[Any], Any] = lambda element: element) -> pa.Array:
        return array_of([part(each) for row in self.rows if row is not None for each in row], type_)

    def places(self) -> pa.Array:
        return pa.array([k for length in self.lengths.tolist() for k in range(length)], INT)

    def around(self, captured: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        return {name: array.take(pa.array(self.row)) for name, array in captured.items()}

    def grouped(self, flat: Sequence[Any]) -> list[list[Any] | None]:
        """Values of elements, by row."""
        groups, at = [], 0
        for row, length in zip(self.rows, self.lengths.tolist(), strict=True):
            groups.append(None if row is None else list(flat[at : at + length]))
            at += length
        return groups


def _parts(arguments: list[Any], name: str, kinds: Sequence[ValueKind | None]) -> None:
    """Check the kinds of arguments; None: a function."""
    arity(arguments, len(kinds), len(kinds), name)
    for argument, kind in zip(arguments, kinds, strict=True):
        is_lambda = hasattr(argument, "lambda_")
        if (kind is None) != is_lambda or (kind is not None and argument.kind not in (kind, ValueKind.NULL)):
            wanted = "a function, as in x -> x + 1" if kind is None else f"a {kind.value}"
            raise Mismatch(f"{name} takes {wanted}, not {argument.text}")


def _captured(arguments: list[Any]) -> list[str]:
    return sorted({name for each in arguments if hasattr(each, "lambda_") for name in each.captured})


Elements = Callable[[_Flat, Sequence[Any]], list[Any]]


def _mapped(
    name: str, arguments: list[Any], type_of: Callable[[pa.DataType], pa.DataType], finish: Elements, wanted: Any = None
) -> Typed:
    """A function of the elements of an array, and their index."""
    _parts(arguments, name, [ValueKind.ARRAY, None])
    source, body = arguments
    element = source.type.value_type
    bound = body.bound([element, INT], name)
    if wanted is not None and bound.type not in (wanted, pa.null()):
        raise Mismatch(f"the function of {name} gives a boolean, not {bound.type}")
    type_, captured = type_of(bound.type), _captured(arguments)

    def compute(arrays: pa.Array, *around: pa.Array) -> pa.Array:
        flat = _Flat(values_of(arrays))
        results = bound([flat.column(element), flat.places()], flat.around(dict(zip(captured, around, strict=True))))
        return array_of(finish(flat, values_of(results)), type_)

    return Typed(type_, True, takes=(source.type,), compute=compute)


@rule("transform(array<T>, (T, int) -> U)", _FAMILY)
def transform(arguments: list[Any]) -> Typed:
    return _mapped("TRANSFORM", arguments, pa.list_, lambda flat, results: flat.grouped(results))


@rule("filter(array<T>, (T, int) -> boolean)", _FAMILY)
def filter_(arguments: list[Any]) -> Typed:
    def finish(flat: _Flat, results: Sequence[Any]) -> list[Any]:
        kept = flat.grouped(results)
        return [
            None if row is None or keep is None else [each for each, yes in zip(row, keep, strict=True) if yes]
            for row, keep in zip(flat.rows, kept, strict=True)
        ]

    return _mapped("FILTER", arguments, lambda _: arguments[0].type, finish, BOOLEAN)


@rule("exists(array<T>, T -> boolean)", _FAMILY)
def exists(arguments: list[Any]) -> Typed:
    def any_of(row: list[Any] | None) -> bool | None:
        return None if row is None else True if True in row else None if None in row else False

    return _mapped(
        "EXISTS", arguments, lambda _: BOOLEAN, lambda flat, found: list(map(any_of, flat.grouped(found))), BOOLEAN
    )


@rule("forall(array<T>, T -> boolean)", _FAMILY)
def forall(arguments: list[Any]) -> Typed:
    def all_of(row: list[Any] | None) -> bool | None:
        return None if row is None else False if False in row else None if None in row else True

    return _mapped(
        "FORALL", arguments, lambda _: BOOLEAN, lambda flat, found: list(map(all_of, flat.grouped(found))), BOOLEAN
    )


@rule("aggregate(array<T>, U, (U, T) -> U, [U -> V])", _FAMILY, "reduce")
def aggregate(arguments: list[Any]) -> Typed:
    """Element by element: the k-th elements of all rows at once."""
    kinds: list[ValueKind | None] = [ValueKind.ARRAY, arguments[1].kind if len(arguments) > 1 else None, None]
    _parts(arguments, "AGGREGATE", [*kinds, None][: max(3, min(4, len(arguments)))])
    source, start, merge = arguments[:3]
    element = source.type.value_type
    state = start.type
    merged = merge.bound([state, element], "AGGREGATE")
    if merged.type != state:
        if not castable(merged.type, state):
            raise Mismatch(f"the function of AGGREGATE gives {merged.type}, and the start is {state}")
        wider = common_type([merged.type, state])
        if wider != state:
            raise Mismatch(f"the function of AGGREGATE gives {merged.type}, and the start is {state}: CAST the start")
    finish = arguments[3].bound([state], "AGGREGATE") if len(arguments) == 4 else None
    type_ = state if finish is None else finish.type
    captured = _captured(arguments)

    def compute(arrays: pa.Array, starts: pa.Array, *around: pa.Array) -> pa.Array:
        columns, rows = dict(zip(captured, around, strict=True)), values_of(arrays)
        states = starts
        for k in range(max((len(row) for row in rows if row is not None), default=0)):
            active = np.array([row is not None and len(row) > k for row in rows])
            elements = array_of([row[k] if yes else None for row, yes in zip(rows, active, strict=True)], element)
            where = pa.array(np.flatnonzero(active))
            inner = {name: column.take(where) for name, column in columns.items()}
            part = merged([states.take(where), elements.take(where)], inner)
            part = part if part.type == state else casting(part.type, state)(part)
            places = np.zeros(len(rows), np.int64)
            places[active] = np.arange(len(part))
            states = chosen(active, part.take(pa.array(places)), states)
        if finish is not None:
            states = finish([states], columns)
        return chosen(np.array([row is not None for row in rows], bool), states, pa.nulls(len(rows), type_))

    return Typed(type_, True, takes=(source.type, state), compute=compute)


@rule("zip_with(array<T>, array<U>, (T, U) -> V)", _FAMILY)
def zip_with(arguments: list[Any]) -> Typed:
    _parts(arguments, "ZIP_WITH", [ValueKind.ARRAY, ValueKind.ARRAY, None])
    one, other, body = arguments
    types = [one.type.value_type, other.type.value_type]
    bound, captured = body.bound(types, "ZIP_WITH"), _captured(arguments)
    type_ = pa.list_(bound.type)

    def pairs(a: list[Any] | None, b: list[Any] | None) -> list[Any] | None:
        if a is None or b is None:
            return None
        most = max(len(a), len(b))
        return list(zip([*a, *[None] * (most - len(a))], [*b, *[None] * (most - len(b))], strict=True))

    def compute(left: pa.Array, right: pa.Array, *around: pa.Array) -> pa.Array:
        flat = _Flat([pairs(a, b) for a, b in zip(values_of(left), values_of(right), strict=True)])
        columns = [flat.column(types[0], lambda pair: pair[0]), flat.column(types[1], lambda pair: pair[1])]
        results = bound(columns, flat.around(dict(zip(captured, around, strict=True))))
        return array_of(flat.grouped(values_of(results)), type_)

    return Typed(type_, True, takes=(one.type, other.type), compute=compute)


def _over_map(
    name: str, arguments: list[Any], type_of: Callable[[Any, pa.DataType], pa.DataType], join: Callable[[Any, Any], Any]
) -> Typed:
    """A function of the keys and values of a map; `join` makes the new entry, or None to drop it."""
    _parts(arguments, name, [ValueKind.MAP, None])
    source, body = arguments
    types = [source.type.key_type, source.type.item_type]
    bound, captured = body.bound(types, name), _captured(arguments)
    type_ = type_of(source.type, bound.type)

    def compute(maps: pa.Array, *around: pa.Array) -> pa.Array:
        flat = _Flat(values_of(maps))
        columns = [flat.column(types[0], lambda pair: pair[0]), flat.column(types[1], lambda pair: pair[1])]
        results = flat.grouped(values_of(bound(columns, flat.around(dict(zip(captured, around, strict=True))))))
        made: list[Any] = []
        for row, found in zip(flat.rows, results, strict=True):
            entries = (
                None if row is None or found is None else [join(pair, x) for pair, x in zip(row, found, strict=True)]
            )
            made.append(None if entries is None else without_repeats([e for e in entries if e is not None]))
        return array_of(made, type_)

    return Typed(type_, True, takes=(source.type,), compute=compute)


@rule("transform_keys(map<K,V>, (K, V) -> U)", _FAMILY)
def transform_keys(arguments: list[Any]) -> Typed:
    return _over_map(
        "TRANSFORM_KEYS", arguments, lambda own, new: pa.map_(new, own.item_type), lambda pair, key: (key, pair[1])
    )


@rule("transform_values(map<K,V>, (K, V) -> U)", _FAMILY)
def transform_values(arguments: list[Any]) -> Typed:
    return _over_map(
        "TRANSFORM_VALUES", arguments, lambda own, new: pa.map_(own.key_type, new), lambda pair, item: (pair[0], item)
    )


@rule("map_filter(map<K,V>, (K, V) -> boolean)", _FAMILY)
def map_filter(arguments: list[Any]) -> Typed:
    return _over_map("MAP_FILTER", arguments, lambda own, _: own, lambda pair, keep: pair if keep else None)


@rule("map_zip_with(map<K,T>, map<K,U>, (K, T, U) -> V)", _FAMILY)
def map_zip_with(arguments: list[Any]) -> Typed:
    _parts(arguments, "MAP_ZIP_WITH", [ValueKind.MAP, ValueKind.MAP, None])
    one, other, body = arguments
    key = common_type([one.type.key_type, other.type.key_type])
    if key is None:
        raise Mismatch(f"MAP_ZIP_WITH takes maps with keys of one type, not {one} and {other}")
    types = [key, one.type.item_type, other.type.item_type]
    bound, captured = body.bound(types, "MAP_ZIP_WITH"), _captured(arguments)
    type_ = pa.map_(key, bound.type)

    def entries(a: list[Any] | None, b: list[Any] | None) -> list[Any] | None:
        if a is None or b is None:
            return None
        left, right = ({hashable(k): v for k, v in pairs} for pairs in (a, b))
        keys = {hashable(k): k for k, _ in [*b, *a]}
        ordered = list(dict.fromkeys(hashable(k) for k, _ in [*a, *b]))
        return [(keys[h], left.get(h), right.get(h)) for h in ordered]

    def compute(left: pa.Array, right: pa.Array, *around: pa.Array) -> pa.Array:
        flat = _Flat([entries(a, b) for a, b in zip(values_of(left), values_of(right), strict=True)])
        columns = [flat.column(type_of_part, itemgetter(k)) for k, type_of_part in enumerate(types)]
        results = flat.grouped(values_of(bound(columns, flat.around(dict(zip(captured, around, strict=True))))))
        made = [
            None if row is None or found is None else [(entry[0], item) for entry, item in zip(row, found, strict=True)]
            for row, found in zip(flat.rows, results, strict=True)
        ]
        return array_of(made, type_)

    takes = (pa.map_(key, types[1]), pa.map_(key, types[2]))
    return Typed(type_, True, takes=takes, compute=compute)


@rule("array_sort(array<T>, [(T, T) -> int])", "arrays")
def array_sort(arguments: list[Any]) -> Typed:
    """In ascending order with NULL last, or by a function that compares two elements."""
    if len(arguments) == 1:
        if arguments[0].kind is not ValueKind.ARRAY:
            raise Mismatch(f"ARRAY_SORT takes an array, not {arguments[0]}")
        own = arguments[0].type
        return Typed(own, True, compute=values(lambda row: sorted(row, key=lambda x: (x is None, key_of(x))), own))
    _parts(arguments, "ARRAY_SORT", [ValueKind.ARRAY, None])
    source, body = arguments
    element = source.type.value_type
    bound, captured = body.bound([element, element], "ARRAY_SORT"), _captured(arguments)
    if kind_of(bound.type) is not ValueKind.INTEGER:
        raise Mismatch(f"the function of ARRAY_SORT gives an integer, not {bound.type}")

    def compute(arrays: pa.Array, *around: pa.Array) -> pa.Array:
        rows = values_of(arrays)
        flat = _Flat([None if row is None else [(a, b) for a in row for b in row] for row in rows])
        columns = [flat.column(element, lambda pair: pair[0]), flat.column(element, lambda pair: pair[1])]
        signs = flat.grouped(values_of(bound(columns, flat.around(dict(zip(captured, around, strict=True))))))
        return array_of([_sorted_by(row, sign) for row, sign in zip(rows, signs, strict=True)], source.type)

    return Typed(source.type, True, takes=(source.type,), compute=compute)


def _sorted_by(row: list[Any] | None, signs: list[Any] | None) -> list[Any] | None:
    if row is None or signs is None:
        return None
    count = len(row)

    def compare(a: int, b: int) -> int:
        sign = signs[a * count + b]
        if sign is None:
            raise EvaluationError("the function of ARRAY_SORT gave NULL for two elements")
        return int(sign)

    return [row[k] for k in sorted(range(count), key=cmp_to_key(compare))]
