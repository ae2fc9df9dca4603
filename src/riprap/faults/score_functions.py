"""User-defined output score functions: any Python function from an Arrow table of output tuples to a number.

    def spread(tuples):                       # in scores.py: --osf "Quotes=scores:spread"
        return pc.max(tuples["price"]).as_py() - pc.min(tuples["price"]).as_py()

    @reads("price")                           # stores only that column; without it, all columns of the sink
    def spread(tuples): ...

The function is called for the affected part and for single sections, never for an empty set: its score is 0. It gets
the tuples in no particular order and must return the same number for the same tuples. It can read numbers, booleans,
timestamps and strings of up to TEXT_BYTES bytes. A function is identified by a digest of its code, of the functions
that it calls by name and of the plain values that it refers to, so an edited function is a different one.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from riprap.base.errors import UsageError, known
from riprap.graph.order_keys import KEY_COLUMNS, visible_schema

ScoreFunction = Callable[[pa.Table], float]
TEXT_BYTES = 64
_READS = "_riprap_reads"
_END = b"."  # appended to every stored string: byte arrays drop trailing zeros


def reads(*columns: str) -> Callable[[ScoreFunction], ScoreFunction]:
    """Declares the columns that an output score function reads."""

    def marked(function: ScoreFunction) -> ScoreFunction:
        setattr(function, _READS, columns)
        return function

    return marked


def described(function: ScoreFunction) -> str:
    """Its name and a digest of its code: equal texts are equal functions."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', '?')}:{name} ({digest(function)})"


def digest(function: ScoreFunction) -> str:
    total = blake2b(digest_size=6)
    for part in _parts(function, set()):
        total.update(part.encode() + b"\0")
    return total.hexdigest()


def _parts(thing: Any, seen: set[int]) -> Iterator[str]:
    """Everything that the result of a call can depend on, if it is code or plain values."""
    if id(thing) in seen:
        return
    if isinstance(thing, FunctionType):
        seen.add(id(thing))
        yield from _code(thing.__code__)
        yield repr(getattr(thing, _READS, None))
        yield from _parts(thing.__defaults__, seen)
        yield from _parts(thing.__kwdefaults__, seen)
        for cell in thing.__closure__ or ():
            yield from _parts(cell.cell_contents, seen)
        for name in _names(thing.__code__):
            if name in thing.__globals__:
                yield name
                yield from _parts(thing.__globals__[name], seen)
    elif isinstance(thing, ModuleType):
        yield thing.__name__
    elif isinstance(thing, tuple | list | set | frozenset):
        seen.add(id(thing))
        for item in sorted(thing, key=repr) if isinstance(thing, set | frozenset) else thing:
            yield from _parts(item, seen)
    elif isinstance(thing, dict):
        seen.add(id(thing))
        for key, value in thing.items():
            yield repr(key)
            yield from _parts(value, seen)
    elif thing is None or isinstance(thing, str | bytes | int | float | complex | bool):
        yield repr(thing)
    elif callable(thing) and isinstance(vars(type(thing)).get("__call__"), FunctionType):
        seen.add(id(thing))
        yield from _parts(type(thing).__call__, seen)
        yield from _parts(getattr(thing, "__dict__", None), seen)
    else:
        yield type(thing).__qualname__


def _code(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr(code.co_names + code.co_varnames + code.co_freevars)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant)
        else:
            yield repr(sorted(constant, key=repr) if isinstance(constant, frozenset) else constant)


def _names(code: CodeType) -> list[str]:
    """Names that the code, or code within it, looks up."""
    inner = [name for constant in code.co_consts if isinstance(constant, CodeType) for name in _names(constant)]
    return list(dict.fromkeys([*code.co_names, *inner]))


@dataclass(frozen=True)
class FunctionScore:
    """A function, bound to the columns of one sink. Its values are rows of a structured array, which can be saved like
    any other array: for each column, `vI` is its value and `nI` whether it is null.
    """

    text: str
    function: ScoreFunction
    columns: pa.Schema
    sink: str

    @property
    def nothing(self) -> np.ndarray:
        return np.empty(0, self._type)

    @property
    def _type(self) -> np.dtype:
        parts = []
        for number, field in enumerate(self.columns):
            parts += [(f"v{number}", _stored(field.type)), (f"n{number}", np.bool_)]
        return np.dtype(parts)

    def values(self, batch: pa.RecordBatch) -> np.ndarray:
        """The columns that the function reads, row by row."""
        rows = np.empty(batch.num_rows, self._type)
        for number, field in enumerate(self.columns):
            column = batch.column(field.name)
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            rows[f"n{number}"] = column.is_null().to_numpy(zero_copy_only=False)
            rows[f"v{number}"] = self._stored_values(field, column)
        return rows

    def _stored_values(self, field: pa.Field, column: pa.Array) -> np.ndarray:
        if _is_text(field.type):
            words = [text.encode() for text in column.fill_null("").to_pylist()]
            if any(len(word) > TEXT_BYTES for word in words):
                raise UsageError(
                    f"the output score function {self.text} reads strings of {field.name} longer than {TEXT_BYTES} "
                    "bytes; declare with riprap.faults.score_functions.reads which columns it needs"
                )
            return np.array([word + _END for word in words], _stored(field.type))
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        return np.asarray(column.fill_null(False if pa.types.is_boolean(column.type) else 0))

    def over(self, values: np.ndarray) -> float:
        """The score of a set of tuples; 0 over none."""
        if not len(values):
            return 0.0
        try:
            score = self.function(self._table(values))
        except Exception as error:  # the user's function may fail in any way
            raise UsageError(
                f"the output score function {self.text} of {self.sink} failed: {type(error).__name__}: {error}"
            ) from error
        try:
            number = float(score.as_py() if isinstance(score, pa.Scalar) else score)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise UsageError(
                f"the output score function {self.text} of {self.sink} returned {score!r}, not a finite number"
            )
        return number

    def by_section(self, values: np.ndarray, section: np.ndarray, sections: int) -> np.ndarray:
        """The score of each section 0 … sections − 1."""
        order = np.argsort(section, kind="stable")
        begins = np.searchsorted(section[order], np.arange(sections + 1))
        scores = np.zeros(sections)
        for number in np.flatnonzero(np.diff(begins)).tolist():
            scores[number] = self.over(values[order[begins[number] : begins[number + 1]]])
        return scores

    def _table(self, values: np.ndarray) -> pa.Table:
        columns = []
        for number, field in enumerate(self.columns):
            column, missing = values[f"v{number}"], values[f"n{number}"]
            if _is_text(field.type):
                words = [word[: -len(_END)].decode() for word in column.tolist()]
                array = pa.array(words, pa.string(), mask=missing)
            else:
                plain = pa.int64() if pa.types.is_timestamp(field.type) else field.type
                array = pa.array(np.ascontiguousarray(column), plain, mask=missing if missing.any() else None)
                array = array.cast(field.type)
            columns.append(array)
        return pa.table(columns, schema=self.columns)


def function_score(function: ScoreFunction, schema: pa.Schema, sink: str) -> FunctionScore:
    """A function for a sink with these columns; raises `UsageError` for missing or unsupported columns."""
    text, visible = described(function), visible_schema(schema)
    wanted = getattr(function, _READS, tuple(name for name in visible.names if name not in KEY_COLUMNS))
    fields = []
    for name in wanted:
        if name not in visible.names:
            raise UsageError(f"the output score function {text} reads {name}; {sink} has {known(visible.names, name)}")
        field = visible.field(name)
        type_ = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if not (_is_text(type_) or pa.types.is_timestamp(type_) or _plain(type_)):
            raise UsageError(
                f"the output score function {text} reads {name} of {sink}, a {type_}, which cannot be stored"
            )
        fields.append(pa.field(name, pa.string() if _is_text(type_) else type_))
    if not fields:
        raise UsageError(f"the output score function {text} reads no column of {sink}")
    return FunctionScore(text, function, pa.schema(fields), sink)


def _plain(type_: pa.DataType) -> bool:
    return pa.types.is_boolean(type_) or pa.types.is_integer(type_) or pa.types.is_floating(type_)


def _is_text(type_: pa.DataType) -> bool:
    return pa.types.is_string(type_) or pa.types.is_large_string(type_)


def _stored(type_: pa.DataType) -> Any:
    if _is_text(type_):
        return f"S{TEXT_BYTES + len(_END)}"
    return np.int64 if pa.types.is_timestamp(type_) else np.dtype(type_.to_pandas_dtype())
