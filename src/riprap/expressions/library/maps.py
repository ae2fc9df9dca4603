"""Maps. A key occurs once; a function that would repeat one fails, as Spark does."""

from typing import Any

import pyarrow as pa

from riprap.expressions.comparing import hashable
from riprap.expressions.kinds import ValueKind, common_type, kind_of
from riprap.expressions.library.java_patterns import java_pattern
from riprap.expressions.library.regular import split
from riprap.expressions.library.structures import lookup
from riprap.expressions.signatures import function, rule, values
from riprap.expressions.typed import EvaluationError, Mismatch, Typed, agreed

_FAMILY = "maps"


def without_repeats(pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    seen = set()
    for key, _ in pairs:
        if key is None:
            raise EvaluationError("a key of a map is NULL")
        own = hashable(key)
        if own in seen:
            raise EvaluationError(f"the key {key!r} occurs twice in a map")
        seen.add(own)
    return pairs


@rule("map(K, V, ...)", _FAMILY)
def map_(arguments: list[Typed]) -> Typed:
    if len(arguments) % 2 or not arguments:
        raise Mismatch("MAP takes keys and values in turn")
    key = agreed(arguments[::2], "keys of MAP need one type")
    item = agreed(arguments[1::2], "values of MAP need one type")
    type_ = pa.map_(key, item)
    takes = (key, item) * (len(arguments) // 2)
    made = values(lambda *all_: without_repeats(list(zip(all_[::2], all_[1::2], strict=True))), type_, nulls=True)
    return Typed(type_, False, takes=takes, compute=made)


function("map_keys(map<K,V>) -> array<K>", _FAMILY)(lambda pairs: [key for key, _ in pairs])
function("map_values(map<K,V>) -> array<V>", _FAMILY)(lambda pairs: [item for _, item in pairs])
function("map_contains_key(map<K,V>, K) -> boolean", _FAMILY)(
    lambda pairs, key: hashable(key) in {hashable(own) for own, _ in pairs}
)
function("element_at(map<K,V>, K) -> V", "arrays")(lookup)
function("try_element_at(map<K,V>, K) -> V", "arrays")(lookup)
function("map_from_arrays(array<K>, array<V>) -> map<K,V>", _FAMILY)(lambda keys, items: _zipped(keys, items))


def _zipped(keys: list[Any], items: list[Any]) -> list[tuple[Any, Any]]:
    if len(keys) != len(items):
        raise EvaluationError(f"MAP_FROM_ARRAYS has {len(keys)} keys and {len(items)} values")
    return without_repeats(list(zip(keys, items, strict=True)))


@rule("map_entries(map<K,V>)", _FAMILY)
def map_entries(arguments: list[Typed]) -> Typed:
    if len(arguments) != 1 or arguments[0].kind is not ValueKind.MAP:
        raise Mismatch("MAP_ENTRIES takes a map")
    map_type = arguments[0].type
    entry = pa.struct([pa.field("key", map_type.key_type), pa.field("value", map_type.item_type)])
    type_ = pa.list_(entry)
    return Typed(type_, True, compute=values(list, type_))


@rule("map_from_entries(array<struct<K,V>>)", _FAMILY)
def map_from_entries(arguments: list[Typed]) -> Typed:
    entry = arguments[0].type.value_type if len(arguments) == 1 and arguments[0].kind is ValueKind.ARRAY else pa.null()
    if kind_of(entry) is not ValueKind.STRUCT or entry.num_fields != 2:
        raise Mismatch("MAP_FROM_ENTRIES takes an array of structs of two fields")
    type_ = pa.map_(entry.field(0).type, entry.field(1).type)
    made = values(lambda entries: None if None in entries else without_repeats(entries), type_)
    return Typed(type_, True, compute=made)


@rule("map_concat(map<K,V>...)", _FAMILY)
def map_concat(arguments: list[Typed]) -> Typed:
    if any(each.kind is not ValueKind.MAP for each in arguments):
        raise Mismatch("MAP_CONCAT takes maps")
    type_ = common_type(each.type for each in arguments) if arguments else pa.map_(pa.string(), pa.string())
    if type_ is None:
        raise Mismatch("MAP_CONCAT takes maps of one type")
    joined = values(lambda *maps: without_repeats([pair for pairs in maps for pair in pairs]), type_)
    return Typed(type_, True, takes=(type_,) * len(arguments), compute=joined)


@function("str_to_map(string, [string], [string]) -> map<string,string>", _FAMILY)
def str_to_map(text: str, between: str = ",", inside: str = ":") -> list[tuple[str, str | None]]:
    pairs: list[tuple[str, str | None]] = []
    for part in split(text, between):
        found = java_pattern(inside).search(part)
        pairs.append((part[: found.start()], part[found.end() :]) if found else (part, None))
    return without_repeats(pairs)
