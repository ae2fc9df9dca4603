"""Text in generated code: dictionaries, and tables with the value of an expression of one text column for each entry.

`type = 'TRADE'` over a column with two distinct values is two comparisons, then one lookup per row. A table is
computed again when its dictionary changes, so batches that share a dictionary share the table.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from riprap.base.errors import DataError
from riprap.expressions.ast import Expression, Node
from riprap.expressions.kinds import HELD_BY_ARROW, kind_of
from riprap.expressions.value_bytes import has_own_bytes
from riprap.expressions.vectors import address_of

Fetch = Callable[[Any], Any]  # of a call's input


class Dictionary:
    """The strings for the codes of a text value, in the current call."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self.current: pa.Array | None = None
        self.address: tuple[int, ...] = ()
        self.changes = 0  # grows with every new dictionary

    def refresh(self, inputs: Any) -> bool:
        """Fetch the dictionary; return whether it changed."""
        current = self._fetch(inputs)
        if current is self.current:
            return False
        address = address_of(current)
        if address == self.address:
            return False
        self.current, self.address = current, address
        self.changes += 1
        return True


class Table:
    """An expression of one text column for every code of a dictionary: values, and states 0 null, 1 valid, 2 failed.

    Entry 0 is that of null, entry code + 1 that of a code. A code that fails is an error only if a row has it.
    """

    def __init__(self, dictionary: Dictionary, column: str, field: pa.Field, node: Node, type_: pa.DataType) -> None:
        from riprap.expressions.binding import bind  # not at the top: binding imports this module

        self._dictionary, self._column, self._type = dictionary, column, type_
        self._bound = bind(Expression("", node), pa.schema([field.with_nullable(True)]))
        self._changes = -1
        self.values = np.empty(0, np.int64)
        self.states = np.empty(0, np.uint8)
        self.result_dictionary: pa.Array | None = None  # of text results
        self.reasons: dict[int, str] = {}

    def refresh(self) -> None:
        if self._dictionary.changes == self._changes:
            return
        self._changes = self._dictionary.changes
        assert self._dictionary.current is not None
        strings = self._dictionary.current
        entries = pa.concat_arrays([pa.nulls(1, strings.type), strings])
        self.reasons = {}
        try:
            result = self._of(entries)
        except DataError:
            result = self._one_by_one(entries)
        valid = result.is_valid().to_numpy(zero_copy_only=False)
        self.states = valid.astype(np.uint8)
        self.states[list(self.reasons)] = 2
        if has_own_bytes(self._type):
            self.result_dictionary = result.drop_null()
            self.values = np.maximum(np.cumsum(valid) - 1, 0).astype(np.int64)
        elif kind_of(self._type) in HELD_BY_ARROW:
            encoded = result.cast(self._type).dictionary_encode()
            self.result_dictionary = encoded.dictionary
            self.values = encoded.indices.fill_null(0).to_numpy().astype(np.int64)
        else:
            plain = result.cast(pa.int32()) if pa.types.is_date32(result.type) else result
            dtype = np.float64 if pa.types.is_floating(self._type) else np.int64
            if not pa.types.is_floating(self._type) and not pa.types.is_boolean(self._type):
                plain = plain.cast(pa.int64())
            self.values = plain.fill_null(False if pa.types.is_boolean(self._type) else 0).to_numpy(
                zero_copy_only=False
            ).astype(dtype)  # fmt: skip

    def _of(self, entries: pa.Array) -> pa.Array:
        result = self._bound.evaluate(pa.RecordBatch.from_arrays([entries], [self._column]))
        return result.dictionary_decode() if isinstance(result, pa.DictionaryArray) else result

    def _one_by_one(self, entries: pa.Array) -> pa.Array:
        result = []
        for code in range(len(entries)):
            try:
                result.append(self._of(entries.slice(code, 1)))
            except DataError as error:
                self.reasons[code] = str(error)
                result.append(pa.nulls(1, self._type))
        return pa.concat_arrays([part.cast(self._type) for part in result])
