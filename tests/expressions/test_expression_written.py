"""Random expressions as text, interpreted, mean what the per-row reference says they mean."""

import pyarrow as pa
import pytest
from expression_generation import batches, trees
from expression_reference import Impossible, sql, value
from hypothesis import given, note
from hypothesis import strategies as st
from test_expression_agreement import TYPES, impossible, plain, same
from tests.profiles import examples

from riprap.base.errors import DataError, GraphError
from riprap.engine import compiling
from riprap.engine.engine import Engine
from riprap.graph.builder import App


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    monkeypatch.setattr("riprap.engine.piece.COMPILER", compiling.Compiler(compiling.Policy.NEVER))


@examples(180)
@given(st.data(), st.sampled_from(list(TYPES)), batches())
def test_text_agrees_with_the_reference(data, kind, made):
    batch, rows = made
    tree = data.draw(trees(kind, data.draw(st.integers(1, 3))))
    text = sql(tree)
    note(text)
    app = App("written")
    try:
        app.source("S", batch.schema).select(f"{text} AS r", name="M").sink("Out")
    except GraphError:  # always null, or a constant part without a value
        return
    engine = Engine(app.build())
    if len(engine.pieces) > 1:
        return  # has no text
    assert not impossible(tree)
    count = batch.num_rows
    keys = {"_ts": pa.array(range(count), pa.timestamp("us", "UTC")), "_seq": pa.array(range(count), pa.int64())}
    whole = pa.RecordBatch.from_arrays([*batch.columns, *keys.values()], [*batch.schema.names, *keys])
    try:
        expected = [value(tree, row) for row in rows]
    except Impossible:
        with pytest.raises(DataError, match="fit"):
            engine.push("S", whole)
        return
    found = [x for output in engine.push("S", whole) for x in plain(output.event.column("r"))]
    assert len(found) == len(expected)
    assert all(map(same, found, expected)), (found, expected)
