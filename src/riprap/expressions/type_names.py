"""Types as Spark's SQL writes them: `decimal(10,2)`, `array<int>`, `map<string,double>`, `struct<a:int,b:string>`."""

import re

import pyarrow as pa

SCALARS: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "tinyint": pa.int8(),
    "short": pa.int16(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
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
    "real": pa.float32(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ltz": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "decimal": pa.decimal128(10, 0),
    "numeric": pa.decimal128(10, 0),
    "dec": pa.decimal128(10, 0),
}
NESTED = ("decimal(p,s)", "array<…>", "map<…,…>", "struct<…>")

_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|\w+|[<>(),:])")


class UnknownType(ValueError):
    """Text that is not a type; the message is what is unknown."""


def type_of(text: str) -> pa.DataType:
    """The Arrow type of a type's name; raises `UnknownType`."""
    tokens, at = [], 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None:
            raise UnknownType(text)
        tokens.append(found.group(1))
        at = found.end()
    reader = _Reader(tokens, text)
    type_ = reader.type()
    if reader.tokens:
        raise UnknownType(text)
    return type_


class _Reader:
    def __init__(self, tokens: list[str], text: str) -> None:
        self.tokens, self._text = tokens[::-1], text

    def type(self) -> pa.DataType:
        name = self._take().lower()
        if name in ("decimal", "numeric", "dec") and self._next() == "(":
            self._expect("(")
            precision, scale = self._number(), 0
            if self._next() == ",":
                self._expect(",")
                scale = self._number()
            self._expect(")")
            if not (1 <= precision <= 38 and 0 <= scale <= precision):
                raise UnknownType(self._text)
            return pa.decimal128(precision, scale)
        if name in ("char", "varchar") and self._next() == "(":
            self._expect("(")
            self._number()
            self._expect(")")
            return pa.string()
        if name == "array":
            self._expect("<")
            element = self.type()
            self._expect(">")
            return list_of(element)
        if name == "map":
            self._expect("<")
            key = self.type()
            self._expect(",")
            item = self.type()
            self._expect(">")
            return pa.map_(key, item)
        if name == "struct":
            return self._struct()
        if name == "interval":
            return pa.duration("us")
        if name not in SCALARS:
            raise UnknownType(name)
        return SCALARS[name]

    def _struct(self) -> pa.DataType:
        self._expect("<")
        fields = []
        while self._next() != ">":
            name = self._take()
            name = name[1:-1].replace("``", "`") if name.startswith("`") else name
            if self._next() == ":":
                self._expect(":")
            fields.append(pa.field(name, self.type()))
            if [word.lower() for word in self.tokens[:-3:-1]] == ["not", "null"]:
                del self.tokens[-2:]
            if self._next() == ",":
                self._expect(",")
        self._expect(">")
        return pa.struct(fields)

    def _next(self) -> str:
        return self.tokens[-1] if self.tokens else ""

    def _take(self) -> str:
        if not self.tokens:
            raise UnknownType(self._text)
        return self.tokens.pop()

    def _expect(self, token: str) -> None:
        if self._take() != token:
            raise UnknownType(self._text)

    def _number(self) -> int:
        digits = self._take()
        if not digits.isdigit():
            raise UnknownType(self._text)
        return int(digits)


def list_of(element: pa.DataType) -> pa.DataType:
    return pa.list_(element)


_WRITTEN = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
    pa.duration("us"): "interval day to second",
    pa.null(): "void",
}


def name_of(type_: pa.DataType) -> str:
    """The type in Spark's words."""
    if type_ in _WRITTEN:
        return _WRITTEN[type_]
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_map(type_):
        return f"map<{name_of(type_.key_type)},{name_of(type_.item_type)}>"
    if pa.types.is_list(type_):
        return f"array<{name_of(type_.value_type)}>"
    if pa.types.is_struct(type_):
        return f"struct<{','.join(f'{field.name}:{name_of(field.type)}' for field in type_)}>"
    return str(type_)
