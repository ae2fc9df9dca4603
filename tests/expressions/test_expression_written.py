"""Random expressions as text of a loop, interpreted, mean what they mean on columns, which Spark has checked."""

import contextlib
import pickle

import pyarrow as pa
import pytest
from expression_generation import batches, sql, trees
from hypothesis import given, note
from hypothesis import strategies as st
from tests.profiles import examples

from riprap.base.errors import DataError, GraphError
from riprap.engine import compiling
from riprap.engine.engine import Engine
from riprap.expressions import bind, parse
from riprap.expressions.column_functions import ColumnFunction
from riprap.graph.builder import App

TYPES = ("integer", "float", "string", "boolean", "timestamp")


def plain(array):
    """Values that compare: NaN equals NaN, and -0.0 is not 0.0."""
    array = array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array
    return list(map(repr, array.to_pylist()))


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    monkeypatch.setattr("riprap.engine.piece.COMPILER", compiling.Compiler(compiling.Policy.NEVER))


@examples(120)
@given(st.data(), st.sampled_from(TYPES), batches())
def test_text_agrees_with_columns(data, kind, made):
    batch, _ = made
    text = sql(data.draw(trees(kind, data.draw(st.integers(1, 3)))))
    note(text)
    app = App("written")
    try:
        app.source("S", batch.schema).select(f"{text} AS r", name="M").sink("Out")
    except GraphError:  # always null, or a constant part without a value
        return
    engine = Engine(app.build())
    if len(engine.pieces) > 1:
        return  # has no text
    count = batch.num_rows
    keys = {"_ts": pa.array(range(count), pa.timestamp("us", "UTC")), "_seq": pa.array(range(count), pa.int64())}
    whole = pa.RecordBatch.from_arrays([*batch.columns, *keys.values()], [*batch.schema.names, *keys])
    bound, expected = bind(parse(text), batch.schema), None
    with contextlib.suppress(DataError):
        expected = bound.evaluate(whole)
    if expected is None:
        with pytest.raises(DataError):
            engine.push("S", whole)
        return
    expected.validate(full=True)
    assert bound.nullable or not expected.null_count
    assert plain(pickle.loads(pickle.dumps(bound)).evaluate(whole)) == plain(expected)
    found = [x for output in engine.push("S", whole) for x in plain(output.event.column("r"))]
    assert found == plain(expected)


def test_a_constant_part_is_its_value_wherever_a_constant_has_to_be():
    app = App("written")
    schema = pa.schema([pa.field("f", pa.float64(), False), pa.field("s", pa.string(), False)])
    columns = ["ROUND(f, 1 + 1) AS r", "CAST(s AS INT) + 60 * 60 AS c", "NULLIF(1, 1) IS NULL AS n"]
    app.source("S", schema).select(*columns, name="M").sink("Out")
    engine = Engine(app.build())
    assert len(engine.pieces) == 1

    def push(text, at):
        keys = {"_ts": pa.array([at], pa.timestamp("us", "UTC")), "_seq": pa.array([at], pa.int64())}
        batch = pa.record_batch({"f": pa.array([1.2345]), "s": pa.array([text]), **keys})
        return [output.event.select(["r", "c", "n"]).to_pydict() for output in engine.push("S", batch)]

    assert push("5", 0) == [{"r": [1.23], "c": [3605], "n": [True]}]
    with pytest.raises(DataError, match=r"'x'.*, in expression 'CAST\(s AS INT\) \+ 60 \* 60'$"):
        push("x", 1)


def test_nothing_that_stands_in_an_expression_stands_in_the_text_that_is_executed():
    schema = pa.schema([("evil()", pa.int64()), ("evil", pa.string())])
    node = parse("CASE WHEN `evil()` > 777001 THEN CONCAT(evil, 'evil()') ELSE CAST(`evil()` * 777002 AS STRING) END")
    for encoded in (False, True):
        text = ColumnFunction(node.root, list(schema), [(True, False), (True, encoded)], node.text).text
        assert "called(" in text
        assert "evil" not in text
        assert "77700" not in text


def test_choices_may_be_many():
    case = " ".join(f"WHEN f = {number} THEN {number} * f" for number in range(150))
    nulls = ", ".join(f"NULLIF(f, {number})" for number in range(150))
    app = App("written")
    stream = app.source("S", pa.schema([("f", pa.int64())]))
    stream.select(f"CASE {case} ELSE -1 END AS c", f"COALESCE({nulls}, 7) AS n", name="M").sink("Out")
    keys = {"_ts": pa.array([0, 1, 2], pa.timestamp("us", "UTC")), "_seq": pa.array([0, 1, 2], pa.int64())}
    batch = pa.record_batch({"f": pa.array([3, 150, None], pa.int64()), **keys})
    [output] = Engine(app.build()).push("S", batch)
    assert output.event.select(["c", "n"]).to_pydict() == {"c": [9, -1, -1], "n": [3, 150, 7]}
    for name, text in (("c", f"CASE {case} ELSE -1 END"), ("n", f"COALESCE({nulls}, 7)")):
        assert bind(parse(text), batch.schema).evaluate(batch).to_pylist() == output.event.column(name).to_pylist()
