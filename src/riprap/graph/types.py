"""The column types that streams may have: Spark's scalars, decimals, arrays, maps and structs.

A string column has one logical type in all encodings: `string`, `large_string` and dictionaries of them are the same to
the graph, and batches of one stream may differ in their encoding.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import pyarrow as pa

from riprap.base.errors import GraphError, known
from riprap.expressions.row_values import is_list, is_nested
from riprap.expressions.type_names import NESTED, SCALARS, UnknownType, name_of, type_of
from riprap.graph.order_keys import KEY_COLUMNS

SchemaLike: TypeAlias = pa.Schema | Mapping[str, str | pa.DataType] | str


def logical_type(type_: pa.DataType) -> pa.DataType:
    """The type without its encoding; raises for types that operators cannot hold."""
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return logical_type(type_.value_type)
    if pa.types.is_large_string(type_) or type_ == pa.string_view():
        return pa.string()
    if pa.types.is_large_binary(type_) or type_ == pa.binary_view():
        return pa.binary()
    if pa.types.is_timestamp(type_):
        return type_ if type_ == pa.timestamp("us") else pa.timestamp("us", "UTC")
    if type_ in SCALARS.values() or pa.types.is_decimal128(type_):
        return type_
    if is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(logical_type(type_.value_type))
    if pa.types.is_map(type_):
        return pa.map_(logical_type(type_.key_type), logical_type(type_.item_type))
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, logical_type(field.type)) for field in type_])
    raise GraphError(f"type {type_} is not supported; columns may be {known([*sorted(SCALARS), *NESTED])}")


def not_a_key(type_: pa.DataType) -> str:
    """Why values of this type cannot be keys of groups, joins and sorts; empty if they can."""
    if _holds(type_, pa.types.is_map):
        return f"is {name_of(type_)}, and maps cannot be compared; use map_entries() or an element of it"
    if is_nested(type_) and _holds(type_, pa.types.is_floating):  # 0.0 and -0.0 in it have different bytes
        return f"is {name_of(type_)}, and floats within arrays and structs cannot be compared; use an element of it"
    return ""


def _holds(type_: pa.DataType, condition: Callable[[pa.DataType], bool]) -> bool:
    """Whether the type, or one within it, is of some kind."""
    return bool(condition(type_)) or any(_holds(type_.field(k).type, condition) for k in range(type_.num_fields))


def logical_schema(schema: pa.Schema) -> pa.Schema:
    """`schema` with every column's logical type, without metadata and without order-key columns."""
    return pa.schema(
        [pa.field(field.name, logical_type(field.type), field.nullable) for field in schema if not is_key(field.name)]
    )


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """`schema` without dictionaries."""
    return pa.schema([f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in schema])


def is_key(name: str) -> bool:
    return name in KEY_COLUMNS


def schema_of(description: SchemaLike) -> pa.Schema:
    """A schema from pyarrow, a mapping, or text in Spark's syntax (`"ticker string, price double not null"`)."""
    if isinstance(description, pa.Schema):
        schema = description
    elif isinstance(description, str):
        schema = pa.schema([_field(part) for part in _parts(description)])
    else:
        schema = pa.schema([pa.field(name, _type(name, type_)) for name, type_ in description.items()])
    _no_duplicates(schema.names)
    return logical_schema(schema)


def _parts(text: str) -> list[str]:
    """The parts between commas that are in no brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


_COLUMN = re.compile(
    r"\s*(?P<name>\w+)(?:\s*:\s*|\s+)(?P<type>.+?)(?P<never>\s+not\s+null)?\s*$", re.IGNORECASE | re.DOTALL
)


def _field(text: str) -> pa.Field:
    found = _COLUMN.match(text)
    if found is None or ("<" not in found["type"] and "(" not in found["type"] and " " in found["type"]):
        raise GraphError(f"cannot read {text.strip()!r} as a column: write 'name type' or 'name type not null'")
    return pa.field(found["name"], _type(found["name"], found["type"]), found["never"] is None)


def _type(column: str, type_: str | pa.DataType) -> pa.DataType:
    if isinstance(type_, pa.DataType):
        return type_
    try:
        return type_of(type_)
    except UnknownType as error:
        names = known([*sorted(SCALARS), *NESTED], str(error))
        raise GraphError(f"column {column} has unknown type {type_!r}; known types: {names}") from None


def _no_duplicates(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise GraphError(f"column {name} appears twice; columns of a stream have different names")
        seen.add(name)
