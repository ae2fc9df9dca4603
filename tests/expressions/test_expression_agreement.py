"""Random expressions over random batches mean what the per-row reference says they mean."""

import math
import pickle

import numpy as np
import pyarrow as pa
import pytest
from expression_generation import COLUMNS, TIMESTAMP, batches, trees
from expression_reference import Impossible, parts, sql, value
from hypothesis import given, note
from hypothesis import strategies as st
from tests.profiles import examples

from riprap.base.errors import DataError, ExpressionError
from riprap.expressions import bind, parse

TYPES = {
    "integer": pa.int64(),
    "float": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "timestamp": TIMESTAMP,
}


def plain(array: pa.Array) -> list:
    """Python values; timestamps as microseconds."""
    if array.type == TIMESTAMP:
        array = array.cast(pa.int64())
    return array.to_pylist()


def same(found, expected) -> bool:
    if isinstance(expected, float) and math.isnan(expected):
        return isinstance(found, float) and math.isnan(found)
    return found == expected and (found is None) == (expected is None)


def impossible(tree) -> bool:
    """A part without columns has no value, which is found when the expression is bound."""
    for part in parts(tree):
        if not any(inner[0] == "column" for inner in parts(part)):
            try:
                value(part, {})
            except Impossible:
                return True
    return False


@examples(360)
@given(st.data(), st.sampled_from(list(TYPES)), batches())
def test_agrees_with_the_reference(data, kind, made):
    batch, rows = made
    tree = data.draw(trees(kind, data.draw(st.integers(1, 3))))
    text = sql(tree)
    note(text)
    expression = parse(text)
    if impossible(tree):
        with pytest.raises(ExpressionError, match="fit"):
            bind(expression, batch.schema)
        return
    bound = bind(expression, batch.schema)
    try:
        expected = [value(tree, row) for row in rows]
    except Impossible:
        with pytest.raises(DataError, match="fit"):
            bound.evaluate(batch)
        return
    result = bound.evaluate(batch)
    result.validate(full=True)
    found = plain(result)
    assert len(found) == len(expected)
    assert all(map(same, found, expected)), (found, expected)
    if tree[0] not in ("column", "literal", "cast"):
        assert result.type in (TYPES[kind], pa.null())
    assert bound.type == (pa.string() if kind == "string" and result.type != pa.null() else result.type)
    assert bound.nullable or None not in expected
    again = pickle.loads(pickle.dumps(bound)).evaluate(batch)
    assert all(map(same, plain(again), expected))
    if bound.type == pa.bool_():
        selection = bound.selection(batch)
        assert selection.dtype == np.intp
        assert selection.tolist() == [row for row, truth in enumerate(expected) if truth is True]


@examples(60)
@given(trees("boolean", 2) | trees("string", 2), batches(), batches())
def test_one_bound_expression_serves_batches_of_every_encoding(tree, first, second):
    schema = pa.schema([(name, type_) for name, (type_, _) in COLUMNS.items()])
    if impossible(tree):
        return
    bound = bind(parse(sql(tree)), schema)
    for batch, rows in (first, second, first):
        try:
            expected = [value(tree, row) for row in rows]
        except Impossible:
            continue
        assert all(map(same, bound.evaluate(batch).to_pylist(), expected))
