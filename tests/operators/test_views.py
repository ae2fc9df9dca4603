"""Column views hold what the record batch held, however they are cut, picked and put together."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.operators.streams import VALUES, column

from riprap.base.errors import DataError
from riprap.graph.order_keys import KeyShape, OrderKey
from riprap.operators.views import Views, concatenated

SHAPES = [
    KeyShape(0, False, frozenset((0,))), KeyShape(None, True, frozenset((0, 1))), KeyShape(3, True, frozenset((3,)))
]  # fmt: skip


@st.composite
def batches(draw, schema: pa.Schema, shape: KeyShape, most: int = 20) -> pa.RecordBatch:
    rows = draw(st.integers(0, most))
    columns = {}
    for field in schema:
        values = [draw(st.one_of(st.none(), VALUES[field.type])) for _ in range(rows)]
        array = column(field.name, field.type, values, draw(st.booleans()))
        if isinstance(array, pa.DictionaryArray) and draw(st.booleans()):
            array = pa.DictionaryArray.from_arrays(array.indices.cast(pa.int8()), array.dictionary)
        columns[field.name] = array
    for field in shape.fields:
        small = [draw(st.integers(0, 9)) for _ in range(rows)]
        columns[field.name] = pa.array(small, field.type)
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    start = draw(st.integers(0, rows))
    return batch.slice(start)  # so that views begin anywhere in their buffers


@st.composite
def streams(draw):
    types = draw(st.lists(st.sampled_from(sorted(VALUES, key=str)), min_size=1, max_size=5))
    schema = pa.schema([(f"c{i}", type_) for i, type_ in enumerate(types)])
    shape = draw(st.sampled_from(SHAPES))
    return shape, draw(st.lists(batches(schema, shape), min_size=1, max_size=4))


def rows(batch: pa.RecordBatch) -> list:
    arrays = [a.dictionary_decode() if isinstance(a, pa.DictionaryArray) else a for a in batch.columns]
    plain = [a.cast(pa.string()) if a.type == pa.large_string() else a for a in arrays]
    return [
        tuple("NaN" if isinstance(v, float) and v != v else v for v in row)
        for row in zip(*(a.to_pylist() for a in plain), strict=True)
    ]


@settings(max_examples=30)
@given(streams(), st.data())
def test_what_goes_in_comes_out(stream, data):
    shape, given_batches = stream
    views = [Views.of(batch) for batch in given_batches]
    for batch, view in zip(given_batches, views, strict=True):
        back = view.batch()
        back.validate(full=True)
        assert rows(back) == rows(batch)
        assert back.schema.names == batch.schema.names
        start = data.draw(st.integers(0, view.rows + 2))
        count = data.draw(st.one_of(st.none(), st.integers(0, 30)))
        expected = rows(batch)[start:] if count is None else rows(batch)[start : start + count]
        assert rows(view.slice(start, count).batch()) == expected
        if view.rows:
            picked = np.array(data.draw(st.lists(st.integers(0, view.rows - 1), max_size=10)), np.int64)
            assert rows(view.take(picked).batch()) == [rows(batch)[i] for i in picked]
            names = dict(zip(batch.schema.names, rows(batch)[-1], strict=True))
            key = view.last_key(shape)
            assert key.src == (shape.src if shape.src is not None else names["_src"])
            assert key.seq == names["_seq"]
            assert key.n == (names["_n"] if shape.n else 0)
            assert view.first_key(shape) == view.slice(0, 1).last_key(shape)
    joined = concatenated(views)
    joined.batch().validate(full=True)
    assert rows(joined.batch()) == [row for batch in given_batches for row in rows(batch)]


def test_nothing_is_copied_on_the_way_through():
    text = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int32()), pa.array(["a", "b"]))
    batch = pa.record_batch({"x": pa.array([1.0, 2.0, 3.0]), "t": text})
    view = Views.of(batch)
    for whole in (view, view.slice(1)):
        back = whole.batch()
        assert back.column("x").buffers()[1].address // 64 == batch.column("x").buffers()[1].address // 64
        assert back.column("t").dictionary.buffers()[2].address == text.dictionary.buffers()[2].address
    assert np.shares_memory(view.slice(1).column("x").values, view.column("x").values)


def test_a_shared_dictionary_stays_shared():
    text = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 1], pa.int32()), pa.array(["a", "b"]))
    view = Views.of(pa.record_batch({"t": text}))
    joined = concatenated([view.slice(2), view.slice(0, 2)])
    assert joined.column("t").dictionary is view.column("t").dictionary


def test_keys_and_names():
    shape = SHAPES[1]
    batch = pa.RecordBatch.from_arrays(
        [pa.array([7]), *(pa.array([i], f.type) for i, f in enumerate(shape.fields))],
        names=["x", *(f.name for f in shape.fields)],
    )
    view = Views.of(batch)
    assert view.last_key(shape) == OrderKey(0, 1, 2, 3)
    assert view.select(["_seq", "x"]).names == ("_seq", "x")
    with pytest.raises(DataError, match="there is no column y"):
        view.column("y")
    with pytest.raises(DataError, match="a stream cannot have a column of type"):
        Views.of(pa.record_batch({"l": pa.array([1], pa.time64("us"))}))
