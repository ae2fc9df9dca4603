"""The column types that streams may have.

A string column has one logical type in all encodings: `string`, `large_string` and dictionaries of them are the same to
the graph, and batches of one stream may differ in their encoding.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import pyarrow as pa

from riprap.base.errors import GraphError, known
from riprap.graph.order_keys import KEY_COLUMNS

_NAMES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "long": pa.int64(),
    "bigint": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "float": pa.float32(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}

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
        return pa.timestamp("us", "UTC")
    if type_ in _NAMES.values():
        return type_
    raise GraphError(f"type {type_} is not supported; columns may be {known(sorted(_NAMES))}")


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
        schema = pa.schema([_field(part) for part in description.split(",")])
    else:
        schema = pa.schema([pa.field(name, _type(name, type_)) for name, type_ in description.items()])
    _no_duplicates(schema.names)
    return logical_schema(schema)


def _field(text: str) -> pa.Field:
    words = text.replace(":", " ").split()
    nullable = [word.lower() for word in words[2:]] != ["not", "null"]
    if len(words) < 2 or (nullable and len(words) > 2):
        raise GraphError(f"cannot read {text.strip()!r} as a column: write 'name type' or 'name type not null'")
    return pa.field(words[0], _type(words[0], words[1]), nullable)


def _type(column: str, type_: str | pa.DataType) -> pa.DataType:
    if isinstance(type_, pa.DataType):
        return type_
    if type_.lower() not in _NAMES:
        raise GraphError(f"column {column} has unknown type {type_!r}; known types: {known(sorted(_NAMES), type_)}")
    return _NAMES[type_.lower()]


def _no_duplicates(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise GraphError(f"column {name} appears twice; columns of a stream have different names")
        seen.add(name)
