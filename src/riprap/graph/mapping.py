"""Mapping files: which value of a column goes to which output of a split.

A text file with a line per value: the value, a comma, and the number of the output, counted from 0. Empty lines and
lines that start with # are ignored; a value with a comma or a quote is written as in CSV. The file is read when the
graph is built, and its contents are part of the graph: a changed file makes a different app.
"""

import csv
import re
from collections.abc import Iterable
from os import PathLike

import pyarrow as pa

from riprap.base.documents import read_text, shortened
from riprap.base.errors import GraphError
from riprap.expressions.ast import Call, ColumnRef, Expression, Literal

MOST_OUTPUTS = 1024
_NUMBER = re.compile(r"\s*[0-9]{1,9}\s*$")


def routes_of(name: str, by: str, type_: pa.DataType, path: str | PathLike[str]) -> tuple[Expression, ...]:
    """One condition per output: the column has one of the values that the file maps to it."""
    try:
        text = read_text(str(path), "mapping", kind=GraphError)
    except GraphError as error:
        raise GraphError(f"operator {name}: {error}") from None
    outputs: dict[int, list[str | int]] = {}
    seen: dict[str | int, int] = {}
    for number, cells in _lines(text, f"operator {name}: mapping {path}"):
        where = f"operator {name}: line {number} of mapping {path}"
        if len(cells) != 2 or not _NUMBER.match(cells[1]):
            raise GraphError(f"{where} is {shortened(','.join(cells))}; write a value and its output, as in IBM,0")
        value, output = _value(cells[0], type_, by, where), int(cells[1])
        if output >= MOST_OUTPUTS:
            raise GraphError(f"{where} sends {value!r} to output {output}; there are {MOST_OUTPUTS} at most, from 0")
        if seen.setdefault(value, output) != output:
            raise GraphError(f"{where} sends {value!r} to output {output}, and an earlier line to {seen[value]}")
        outputs.setdefault(output, []).append(value)
    if not outputs:
        raise GraphError(f"operator {name}: mapping {path} has no lines; write a value and its output, as in IBM,0")
    missing = next((output for output in range(max(outputs)) if output not in outputs), None)
    if missing is not None:
        raise GraphError(f"operator {name}: mapping {path} sends nothing to output {missing}; number them from 0")
    return tuple(_among(by, sorted(set(outputs[output]), key=repr), type_) for output in range(len(outputs)))


def _lines(text: str, where: str) -> Iterable[tuple[int, list[str]]]:
    reader = csv.reader(text.splitlines())
    try:
        for cells in reader:
            if cells and not cells[0].lstrip().startswith("#"):
                yield reader.line_num, cells
    except csv.Error as error:
        raise GraphError(f"{where}: line {reader.line_num} cannot be read: {error}; write IBM,0 on it") from None


def _value(text: str, type_: pa.DataType, by: str, where: str) -> str | int:
    if pa.types.is_string(type_):
        return text
    try:
        return int(text)
    except ValueError:
        raise GraphError(f"{where} has {shortened(text)}, and column {by} is {type_}; write a whole number") from None


def _among(by: str, values: list[str | int], type_: pa.DataType) -> Expression:
    kind = pa.string() if pa.types.is_string(type_) else pa.int64()
    shown = ", ".join(map(repr, values[:3])) + (", …" if len(values) > 3 else "")
    return Expression(f"{by} IN ({shown})", Call("IN", (ColumnRef(by), *(Literal(value, kind) for value in values))))
