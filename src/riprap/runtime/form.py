"""The form in which the columns of a channel travel.

Text comes out of operators plain or as dictionaries, and both may come out of one operator. A connection has one
schema, so its first batch decides per column: dictionaries (of 32-bit codes) where that batch has one, else plain. A
later batch that differs is brought to that form. Dictionaries are kept because they are less to send and less to group
by at the other end: one that stays the same from batch to batch is sent once, and of one that grew only what is new.
But a dictionary that is new and larger than its batch is first cut down to the values that the batch uses; so a batch
never costs more than its own rows, unless its dictionary comes a second time.
"""

import pyarrow as pa
import pyarrow.compute as pc

from riprap.operators.strings import address_of

OPTIONS = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)

_SMALL = 1024  # values: a dictionary up to here is never worth cutting


class Form:
    def __init__(self, schema: pa.Schema, first: pa.RecordBatch) -> None:
        self.schema = pa.schema(
            field.with_type(pa.dictionary(pa.int32(), field.type)) if _encoded(column) else field
            for field, column in zip(schema, first.columns, strict=True)
        )
        self._dictionaries: dict[
            int, tuple[pa.Array, tuple[int, ...]]
        ] = {}  # by column: the last one seen, and its address

    def give(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same rows in the form of this connection."""
        columns = [
            self._dictionary(at, column, field.type) if pa.types.is_dictionary(field.type) else _plain(column, field)
            for at, (column, field) in enumerate(zip(batch.columns, self.schema, strict=True))
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _dictionary(self, at: int, column: pa.Array, type_: pa.DictionaryType) -> pa.DictionaryArray:
        if not isinstance(column, pa.DictionaryArray):
            return pc.dictionary_encode(column.cast(type_.value_type))
        dictionary = column.dictionary
        address = address_of(dictionary)
        known = self._dictionaries.get(at, (None, ()))[1] == address
        self._dictionaries[at] = (dictionary, address)  # the reference keeps the address from being used again
        if not known and len(dictionary) > max(len(column), _SMALL):
            return pc.dictionary_encode(column.dictionary_decode().cast(type_.value_type))
        return column if column.type == type_ else column.cast(type_)


def _encoded(column: pa.Array) -> bool:
    return isinstance(column, pa.DictionaryArray)


def _plain(column: pa.Array, field: pa.Field) -> pa.Array:
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    return column if column.type == field.type else column.cast(field.type)
