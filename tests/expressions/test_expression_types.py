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
        ("size + 1", pa.int64()),
        ("-size", pa.int64()),
        ("size / 2", pa.float64()),
        ("size % 2", pa.int64()),
        ("rate + rate", pa.float64()),
        ("size * price", pa.float64()),
        ("FLOOR(price)", pa.float64()),
        ("COALESCE(rate, size)", pa.float64()),
        ("CAST(price AS SMALLINT)", pa.int16()),
        ("CAST(price AS FLOAT)", pa.float32()),
        ("type = note", pa.bool_()),
        ("raw = X'00ff'", pa.bool_()),
        ("_ts - _ts", pa.duration("us")),
        ("_ts + INTERVAL 1 DAY", pa.timestamp("us", "UTC")),
        ("CAST(_ts AS DATE)", pa.date32()),
        ("CAST(day AS TIMESTAMP)", pa.timestamp("us", "UTC")),
        ("YEAR(day)", pa.int64()),
        ("NULL", pa.null()),
        ("NULL + 1", pa.int64()),
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
        ("price / size", True),
        ("size % 0", True),
        ("rate IS NULL", False),
        ("COALESCE(rate, 0)", False),
        ("COALESCE(rate, NULL)", True),
        ("LEAST(rate, size)", False),
        ("IF(ok, 1, 2)", False),
        ("IF(ok, 1)", True),
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
        ("type = 5", r"type \(string\) and 5 \(int64\), in expression 'type = 5'"),
        ("price > '5'", r"price \(double\) and '5' \(string\)"),
        ("_ts > '2024-01-01'", r"TIMESTAMP '…'"),
        ("day > '2024-01-01'", r"DATE '…'"),
        ("_ts > day", "compares two values of one type"),
        ("local > _ts", r"local \(timestamp\[ns\]\)"),
        ("tags = tags", "compares two values of one type"),
        ("type + 1", r"\+ takes two numbers.*type \(string\)"),
        ("ok * 2", r"\* takes two numbers"),
        ("_ts + 5", "timestamp and an interval"),
        ("price AND ok", r"AND takes a boolean, not price \(double\)"),
        ("NOT size", "NOT takes a boolean"),
        ("IF(size, 1, 2)", "a condition takes a boolean"),
        ("IF(ok, 1, 'a')", r"all results need one type, not 1 \(int64\) and 'a' \(string\)"),
        ("COALESCE(price, type)", "all results need one type"),
        ("size IN (1, 'a')", "IN compares values of one type"),
        ("LENGTH(size)", r"LENGTH takes a string, not size \(int32\)"),
        ("SQRT(type)", "SQRT takes a number"),
        ("price || type", "takes a string"),
        ("HOUR(day)", "HOUR takes a timestamp"),
        ("type LIKE note", "pattern of LIKE must be a constant string"),
        ("type RLIKE note", "pattern of RLIKE must be a constant string"),
        ("type RLIKE '(a'", r"the pattern '\(a' of RLIKE is not a regular expression \(missing \)"),
        ("type RLIKE '(?=a)'", "the syntax is RE2's, which has no look-around"),
        ("REGEXP_EXTRACT(type, 'a')", "asks for group 1 of a pattern that has 0 groups; 0 is the whole match"),
        ("REGEXP_EXTRACT(type, '(a)', 2)", "asks for group 2 of a pattern that has 1 group"),
        ("REGEXP_REPLACE(type, '(a)', '$2')", r"refers to group 2 of a pattern that has 1"),
        ("price RLIKE 'a'", r"RLIKE takes a string, not price \(double\)"),
        ("SUBSTRING(type, size)", "position of SUBSTRING must be a constant integer"),
        ("ROUND(price, 99)", "from 0 to 15"),
        ("CAST(_ts AS BIGINT)", "cannot CAST _ts"),
        ("9223372036854775807 + 1", "does not fit 64 bits"),
        ("CAST('x' AS INT)", "'x'"),
        ("CAST(300 AS TINYINT)", "300 does not fit int8"),
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
    with pytest.raises(ExpressionError, match="must be a boolean; expression 'size' is int64"):
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
