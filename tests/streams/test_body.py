"""A message whose body was not copied says what `serialize` would have said."""

from random import Random

import pyarrow as pa
import pytest

from riprap.streams.body import Template

TS = pa.timestamp("us", "UTC")
TYPES = [
    pa.int64(), pa.int8(), pa.uint16(), pa.float64(), pa.float32(), TS, pa.date32(), pa.string(), pa.binary(),
    pa.binary(5),
]  # fmt: skip
OTHERS = [pa.bool_(), pa.list_(pa.int64()), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]


def any_column(random: Random, type_: pa.DataType, rows: int, nulls: float) -> pa.Array:
    def value():
        if random.random() < nulls:
            return None
        number = random.randint(0, 100)
        if pa.types.is_fixed_size_binary(type_):
            return bytes([number] * 5)
        if pa.types.is_binary(type_):
            return bytes(random.randint(0, 9))
        if pa.types.is_list(type_):
            return [number]
        if pa.types.is_boolean(type_):
            return number > 50
        return "x" * random.randint(0, 9) if not pa.types.is_primitive(type_) else number

    return pa.array([value() for _ in range(rows)], type_)


@pytest.mark.parametrize("seed", range(40))
def test_it_is_read_as_the_batch_that_it_was_made_of(seed):
    random = Random(seed)
    types = [random.choice(TYPES) for _ in range(random.randint(1, 6))]
    nulls, rows = random.choice([0.0, 0.0, 0.3]), random.choice([1, 2, 7, 8, 9, 64, 200])
    batch = pa.RecordBatch.from_arrays(
        [any_column(random, type_, rows, nulls) for type_ in types], names=[f"c{at}" for at in range(len(types))]
    )
    whole = random.random() < 0.5
    if not whole:
        first = random.randrange(rows)
        batch = batch.slice(first, random.randint(1, rows - first))
    made = Template(batch.schema).message(batch)
    if made is None:
        assert not whole  # text or nulls in a slice
        return
    data, parts = made
    message = pa.py_buffer(b"".join((data, *parts)))
    assert pa.ipc.read_record_batch(message, batch.schema).equals(batch)
    assert pa.ipc.read_message(message).metadata.size == pa.ipc.read_message(batch.serialize()).metadata.size
    pa.ipc.read_record_batch(message, batch.schema).validate(full=True)


def test_every_kind_of_column_that_stays_where_it_lies_does():
    for type_ in TYPES:
        batch = pa.RecordBatch.from_arrays([any_column(Random(1), type_, 50, 0.2)], names=["c"])
        assert Template(batch.schema).message(batch) is not None, type_


def test_other_columns_are_serialized():
    for type_ in OTHERS:
        assert not Template(pa.schema([("c", type_)])).fits, type_
