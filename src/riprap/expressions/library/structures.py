"""Structs: making them, and reading a field or an element of a value."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from riprap.base.errors import known
from riprap.expressions.comparing import key_of
from riprap.expressions.kinds import STRING, ValueKind, kind_of
from riprap.expressions.signatures import rule, values
from riprap.expressions.typed import EvaluationError, Mismatch, Typed

_FAMILY = "structs"


@rule("named_struct(string, any, ...)", _FAMILY, "struct")
def named_struct(arguments: list[Typed]) -> Typed:
    if not arguments or len(arguments) % 2:
        raise Mismatch("NAMED_STRUCT takes names and values in turn")
    names, parts = arguments[::2], arguments[1::2]
    for name in names:
        if not isinstance(name.known, str):
            raise Mismatch(f"the names of NAMED_STRUCT must be constant strings, not {name}")
    fields = [pa.field(str(name.known), part.type) for name, part in zip(names, parts, strict=True)]
    type_ = pa.struct(fields)

    def compute(*arrays: pa.Array) -> pa.Array:
        return pa.StructArray.from_arrays(list(arrays[1::2]), fields=fields)

    takes = [t for part in parts for t in (STRING, part.type)]
    return Typed(type_, False, takes=tuple(takes), compute=compute)


@rule("FIELD(struct, name)", "operators")
def field(arguments: list[Typed]) -> Typed:
    """`a.b`: of a struct, of a map with text keys, or of every struct in an array."""
    value, name = arguments[0], str(arguments[1].known)
    if value.kind is ValueKind.MAP:
        return element(arguments)
    if value.kind is ValueKind.ARRAY and kind_of(value.type.value_type) is ValueKind.STRUCT:
        place, type_ = _place(value, value.type.value_type, name)
        result = pa.list_(type_)
        picked = values(lambda rows, _: [None if row is None else row[place] for row in rows], result)
        return Typed(result, True, takes=(value.type, STRING), compute=picked)
    if value.kind is not ValueKind.STRUCT:
        raise Mismatch(f"{value} has no field {name}: it is not a struct")
    place, type_ = _place(value, value.type, name)

    def compute(structs: pa.Array, _: pa.Array) -> pa.Array:
        return pc.struct_field(structs, [place])

    return Typed(type_, True, takes=(value.type, STRING), compute=compute)


def _place(value: Typed, struct: pa.DataType, name: str) -> tuple[int, pa.DataType]:
    names = [each.name for each in struct]
    found = [k for k, own in enumerate(names) if own == name] or [
        k for k, own in enumerate(names) if own.lower() == name.lower()
    ]
    if len(found) != 1:
        raise Mismatch(f"{value.text} has no field {name}; its fields are {known(names, name)}")
    return found[0], struct.field(found[0]).type


@rule("ELEMENT(array or map, index or key)", "operators")
def element(arguments: list[Typed]) -> Typed:
    """`a[0]` counts from 0, and an index out of range is an error; `m['k']` is NULL without the key."""
    value, index = arguments
    if value.kind is ValueKind.STRUCT and isinstance(index.known, str):
        return field(arguments)
    if value.kind is ValueKind.MAP:
        type_ = value.type.item_type
        takes = (value.type, value.type.key_type)
        return Typed(type_, True, takes=takes, compute=values(lookup, type_))
    if value.kind is not ValueKind.ARRAY:
        raise Mismatch(f"{value} has no elements: it is neither an array nor a map")
    if index.kind not in (ValueKind.INTEGER, ValueKind.NULL):
        raise Mismatch(f"the index of an array is an integer, not {index}")

    def at(items: list[Any], place: int) -> Any:
        if not 0 <= place < len(items):
            raise EvaluationError(f"index {place} of an array with {len(items)} elements (GET gives NULL for it)")
        return items[place]

    type_ = value.type.value_type
    return Typed(type_, True, takes=(value.type, pa.int64()), compute=values(at, type_))


def lookup(pairs: list[tuple[Any, Any]], key: Any) -> Any:
    wanted = key_of(key)
    return next((item for own, item in pairs if key_of(own) == wanted), None)
