"""Types: what fits, what does not, and what the message says; what is never null."""

import pyarrow as pa
import pytest

from riprap.base.errors import DataError, ExpressionError
from riprap.expressions import bind, parse

SCHEMA = pa.schema(
    [
        pa.field("price", pa.float64(), nullable=False),
        pa.field("rate", pa.float32()),
        pa.field("size", pa.int32(), nullable=False),
        pa.field("type", pa.dictionary(pa.int32(), pa.string())),
        pa.field("note", pa.large_string()),
        pa.field("ok", pa.bool_()),
        pa.field("raw", pa.binary()),
        pa.field("day", pa.date32()),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("local", pa.timestamp("ns")),
        pa.field("_ts", pa.timestamp("us", "UTC"), nullable=False),
    ]
)


def bound(text):
    return bind(parse(text), SCHEMA)


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("size", pa.int32()),
        ("rate", pa.float32()),
        ("type", pa.string()),
        ("note", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("size + 1", pa.int32()),
        ("size + 1L", pa.int64()),
        ("-size", pa.int32()),
        ("size / 2", pa.float64()),
        ("size % 2", pa.int32()),
        ("size * 1.5", pa.decimal128(13, 1)),
        ("price * 1.5", pa.float64()),
        ("rate + rate", pa.float32()),
        ("size * price", pa.float64()),
        ("FLOOR(price)", pa.int64()),
        ("COALESCE(rate, size)", pa.float64()),
        ("CAST(price AS SMALLINT)", pa.int16()),
        ("CAST(price AS FLOAT)", pa.float32()),
        ("type = note", pa.bool_()),
        ("raw = X'00ff'", pa.bool_()),
        ("_ts - _ts", pa.duration("us")),
        ("_ts + INTERVAL 1 DAY", pa.timestamp("us", "UTC")),
        ("CAST(_ts AS DATE)", pa.date32()),
        ("CAST(day AS TIMESTAMP)", pa.timestamp("us", "UTC")),
        ("YEAR(day)", pa.int32()),
        ("tags[0]", pa.string()),
        ("NULL", pa.null()),
        ("NULL + 1", pa.int32()),
        ("tags IS NULL", pa.bool_()),
        ("IF(ok, 'a', NULL)", pa.string()),
    ],
)
def test_result_types(text, type_):
    assert bound(text).type == type_


@pytest.mark.parametrize(
    ("text", "nullable"),
    [
        ("price", False),
        ("rate", True),
        ("price * size", False),
        ("price / 2", False),
        ("price / size", False),
        ("size % 2", False),
        ("rate IS NULL", False),
        ("COALESCE(rate, 0)", False),
        ("COALESCE(rate, NULL)", True),
        ("LEAST(rate, size)", False),
        ("IF(ok, 1, 2)", False),
        ("IF(ok, 1, NULL)", True),
        ("NULLIF(size, 1)", True),
        ("LN(price)", True),
        ("size IN (1, 2)", False),
        ("size IN (1, NULL)", True),
        ("size IN (1, 2, 3, 4, 5, 6, 7, 8, NULL)", True),
        ("ISNAN(rate)", False),
        ("type = 'TRADE'", True),
    ],
)
def test_nullability(text, nullable):
    assert bound(text).nullable is nullable


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prize > 1", r"unknown column prize in expression 'prize > 1'; available columns: price, .*you mean price"),
        ("local > _ts", r"local \(timestamp\[ns\]\)"),
        ("ok * 2", r"\* takes two numbers"),
        ("tags = 5", r"tags \(array<string>\) and 5 \(int\), in expression 'tags = 5'"),
        ("ok > 1.5", r"compares two values of one type, not ok \(boolean\) and 1.5 \(decimal\(2,1\)\)"),
        ("IF(ok, day, 1)", "all results need one type"),
        ("tags || 1", "CONCAT joins arrays of one type"),
        ("SQRT(ok)", "SQRT takes a number"),
        ("HOUR(size)", "HOUR takes a timestamp"),
        ("ROUND(price, size)", "a constant whole number of decimals"),
        ("CAST(day AS BIGINT)", "cannot CAST day"),
        ("1 / 0", "division by zero"),
        ("tags.a", "it is not a struct"),
        ("SUBSTRING(type)", r"is called as substring\(string, int, \[int\]\)"),
        ("_ts + 5", "a time and an interval"),
        ("price AND ok", r"AND takes a boolean, not price \(double\)"),
        ("NOT size", "NOT takes a boolean"),
        ("IF(size, 1, 2)", "a condition takes a boolean"),
        ("9223372036854775807 + 1", "does not fit 64 bits"),
        ("CAST('x' AS INT)", "'x'"),
        ("CAST(300 AS TINYINT)", "300 does not fit tinyint"),
    ],
)
def test_mismatches(text, message):
    with pytest.raises(ExpressionError, match=message):
        bound(text)


def test_a_column_named_twice_is_not_guessed_at():
    with pytest.raises(ExpressionError, match="column a occurs 2 times"):
        bind(parse("a + 1"), pa.schema([("a", pa.int64()), ("a", pa.int64())]))


def test_only_a_condition_selects():
    batch = pa.RecordBatch.from_pydict({"size": [1]})
    with pytest.raises(ExpressionError, match="must be a boolean; expression 'size' is bigint"):
        bind(parse("size"), batch.schema).selection(batch)


def test_a_batch_of_another_schema_is_refused():
    condition = bind(parse("size > 1"), pa.schema([("size", pa.int64())]))
    with pytest.raises(DataError, match="no column size; it has sizes"):
        condition.evaluate(pa.RecordBatch.from_pydict({"sizes": [1]}))
    with pytest.raises(DataError, match="column size is string in a batch and int64"):
        condition.evaluate(pa.RecordBatch.from_pydict({"size": ["1"]}))


def test_a_chain_is_computed_or_refused_by_its_length():
    batch = pa.RecordBatch.from_pydict({"size": pa.array([1, 2], pa.int32())})
    assert bound(" OR ".join(["size = 1"] * 100)).selection(batch).tolist() == [0]
    with pytest.raises(ExpressionError, match="nested too deeply"):
        bound(" OR ".join(["size = 1"] * 3000))
