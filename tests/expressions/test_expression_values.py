"""Behaviour that random trees do not reach: zero copies, tables of dictionaries, casts of text, numeric functions."""

import math
import pickle

import numpy as np
import pyarrow as pa
import pytest

from riprap.base.errors import DataError
from riprap.expressions import bind, parse


def evaluated(text, **columns):
    batch = pa.RecordBatch.from_pydict(columns or {"x": [0]})
    return bind(parse(text), batch.schema).evaluate(batch).to_pylist()


def encoded(codes, values):
    column = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(values))
    return pa.RecordBatch.from_arrays([column], ["type"])


def test_a_column_is_the_batch_s_own():
    batch = pa.RecordBatch.from_pydict({"a": pa.array([1.0, 2.0]), "t": pa.array(["x", "y"]).dictionary_encode()})
    for name in ("a", "t"):
        column = bind(parse(name), batch.schema).evaluate(batch)
        assert column.type == batch.schema.field(name).type
        assert column.buffers()[1].address == batch.column(name).buffers()[1].address


def test_further_columns_and_another_order_do_not_matter():
    condition = bind(parse("a > b"), pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    batch = pa.RecordBatch.from_pydict({"c": ["x", "y"], "b": [1, 2], "a": [2, 1]})
    assert condition.selection(batch).tolist() == [0]


def test_each_batch_may_bring_its_own_dictionary():
    condition = bind(parse("type = 'TRADE'"), encoded([0], ["TRADE"]).schema)
    rng = np.random.default_rng(1)
    for _ in range(20):
        values = list(rng.permutation(["TRADE", "QUOTE", "HALT"]))
        codes = rng.integers(0, 3, 50)
        expected = [row for row, code in enumerate(codes) if values[code] == "TRADE"]
        assert condition.selection(encoded(codes, values)).tolist() == expected
    assert len(pickle.dumps(condition)) < 1000  # tables are left behind


def test_a_dictionary_that_grows_is_another_dictionary():
    whole = pa.array(["A", "B", "C"])
    condition = bind(parse("type = 'C'"), encoded([0], ["A"]).schema)
    for entries, codes, expected in [(whole.slice(0, 2), [0, 1], []), (whole, [0, 2], [1]), (whole.slice(2), [0], [0])]:
        column = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), entries)
        assert condition.selection(pa.RecordBatch.from_arrays([column], ["type"])).tolist() == expected


def test_an_entry_may_be_null():
    batch = encoded([0, 1, 1], ["a", None])
    for text, expected in [
        ("type IS NULL", [False, True, True]),
        ("COALESCE(type, CONCAT('b', 'c'))", ["a", "bc", "bc"]),
    ]:
        assert bind(parse(text), batch.schema).evaluate(batch).to_pylist() == expected
    both = pa.RecordBatch.from_arrays([batch.column(0), pa.array(["x", "y", "z"])], ["type", "s"])
    assert bind(parse("GREATEST(type, s)"), both.schema).evaluate(both).to_pylist() == ["x", "y", "z"]


def test_an_entry_that_no_row_uses_cannot_fail():
    number = bind(parse("CAST(type AS INT) + 1"), encoded([0], ["1"]).schema)
    assert number.evaluate(encoded([0, 1, None], ["1", "2", "x"])).to_pylist() == [2, 3, None]
    with pytest.raises(DataError, match=r"'x'.*in expression 'CAST\(type AS INT\) \+ 1'"):
        number.evaluate(encoded([0, 2], ["1", "2", "x"]))


def test_a_branch_that_is_not_chosen_cannot_fail():
    assert evaluated("b <> 0 AND a / b > 1", a=[9, 11], b=[0, 2]) == [False, True]
    guarded = "CASE WHEN a < 10 THEN a * 1000000000000000000 ELSE 0 END"
    assert evaluated(guarded, a=[9, 11, None]) == [9 * 10**18, 0, 0]
    assert evaluated("COALESCE(b, a * 1000000000000000000)", a=[9, 11], b=[None, 7]) == [9 * 10**18, 7]
    with pytest.raises(DataError, match="does not fit 64 bits"):
        evaluated("CASE WHEN a < 10 THEN 0 ELSE a * 1000000000000000000 END", a=[9, 11])


def test_a_default_that_is_not_chosen_cannot_fail():
    assert evaluated("CASE WHEN a > 10 THEN 0 ELSE a * 1000000000000000000 END", a=[9, 11]) == [9 * 10**18, 0]


def test_an_entry_may_map_to_null_without_a_null_row():
    shorter = bind(parse("NULLIF(LENGTH(type), 5)"), encoded([0], ["TRADE"]).schema)
    assert shorter.evaluate(encoded([0, 1, 0], ["TRADE", "HALT"])).to_pylist() == [None, 4, None]


def test_overflow_names_the_expression():
    with pytest.raises(DataError, match=r"64 bits .*in expression 'a \+ 1'"):
        evaluated("a + 1", a=[2**63 - 1])
    assert evaluated("a - 1", a=[2**63 - 1]) == [2**63 - 2]
    with pytest.raises(DataError):
        evaluated("ABS(a)", a=[-(2**63)])


def test_what_a_null_hides_cannot_overflow():
    column = pa.array(np.array([2**63 - 1, 5]), mask=np.array([True, False]))
    assert evaluated("a * a", a=column) == [None, 25]
    assert evaluated("CAST(a AS TINYINT)", a=column) == [None, 5]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-7 % 3", -1), ("7.5D % -2", 1.5), ("1 / 2", 0.5), ("TRY_DIVIDE(1, 0)", None),
        ("LN(0)", None), ("LN(-1)", None), ("LN(1)", 0.0), ("LOG(2, 8)", 3.0), ("LOG(EXP(1))", 1.0),
        ("LOG10(1000)", 3.0), ("POWER(2, 10)", 1024.0), ("POWER(2, -1)", 0.5), ("SQRT(-1)", math.nan),
        ("ROUND(2.5D)", 3.0), ("ROUND(-2.5D)", -3.0), ("ROUND(1.25D, 1)", 1.3), ("ROUND(7, 2)", 7),
        ("ROUND(0.49999999999999994D)", 0.0), ("ROUND(1e300, 15)", 1e300),
        ("CAST('nan' AS DOUBLE) = CAST('nan' AS DOUBLE)", True), ("CAST('nan' AS DOUBLE) > 1", True),
        ("GREATEST(1.0D, CAST('nan' AS DOUBLE))", math.nan), ("LEAST(1.0D, CAST('nan' AS DOUBLE))", 1.0),
        ("LEAST(NULL, 2)", 2), ("GREATEST('a', 'é', 'b')", "é"), ("ISNAN(NULL)", False),
        ("CAST(' 12 ' AS BIGINT)", 12), ("CAST('1e3' AS DOUBLE)", 1000.0), ("CAST('true' AS BOOLEAN)", True),
        ("CAST(-1.9 AS INT)", -1), ("CAST(TRUE AS INT)", 1), ("CAST(0.5 AS BOOLEAN)", True),
        ("CAST(1.5 AS STRING)", "1.5"), ("CAST(TRUE AS STRING)", "true"),
        ("CAST(DATE '2024-02-29' AS STRING)", "2024-02-29"),
        ("UNIX_MICROS(TIMESTAMP '1970-01-01 00:00:01')", 1_000_000),
        ("UNIX_MICROS(CAST('1970-01-02' AS TIMESTAMP))", 86_400_000_000),
        ("UNIX_MICROS(CAST('1970-01-01T02:00:00+02:00' AS TIMESTAMP))", 0),
        ("UNIX_MICROS(CAST(DATE '1969-12-31' AS TIMESTAMP))", -86_400_000_000),
        ("CAST(TIMESTAMP '1969-12-31 23:59:59' AS DATE) = DATE '1969-12-31'", True),
        ("YEAR(TIMESTAMP '1969-12-31 23:59:59')", 1969), ("SECOND(TIMESTAMP '1969-12-31 23:59:59.5')", 59),
        ("DAY(DATE '2024-02-29')", 29), ("TIMESTAMP '2024-01-02' - TIMESTAMP '2024-01-01' = INTERVAL 1 DAY", True),
        ("LTRIM('  a ')", "a "), ("RTRIM('  a ')", "  a"), ("TRIM('\\ta ')", "\ta"), ("'a' || NULL", None),
        ("SUBSTRING('abcdef', -2, 5)", "ef"), ("SUBSTRING('abcdef', -3, 2)", "de"), ("SUBSTRING('abc', -5, 3)", "a"),
        ("SUBSTRING('abc', 0, 2)", "ab"), ("SUBSTRING('abc', 2, 0)", ""),
        ("NULL AND FALSE", False), ("NULL OR TRUE", True), ("NOT NULL", None), ("NULL IS TRUE", False),
        ("NULL = NULL", None), ("1 IN (2, NULL)", None), ("X'0a' < X'0b'", True),
    ],
)  # fmt: skip
def test_constants(text, expected):
    (found,) = evaluated(text)
    assert (found != found and expected != expected) or (found == expected and type(found) is type(expected)), found


def test_unreadable_text_is_an_error():
    for target in ("INT", "DOUBLE", "TIMESTAMP", "DATE", "BOOLEAN"):
        with pytest.raises(DataError, match="maybe"):
            evaluated(f"CAST(s AS {target})", s=["maybe"])


def test_text_that_mixes_times_with_and_without_a_zone_is_read_either_way():
    times = ["1970-01-01 00:00:01", "1970-01-01T00:00:02Z", "1970-01-01 01:00:00.5+01:00", "1970-01-01", None]
    found = evaluated("UNIX_MICROS(CAST(s AS TIMESTAMP))", s=times)
    assert found == [1_000_000, 2_000_000, 500_000, 0, None]


def test_buffers_that_start_at_an_odd_byte():
    def odd(array):
        data = pa.py_buffer(b"?" + array.buffers()[1].to_pybytes()).slice(1)
        return pa.Array.from_buffers(array.type, len(array), [None, data])

    codes = odd(pa.array([0, 1, 0], pa.int32()))
    columns = {"i": odd(pa.array([1, 2, 3])), "f": odd(pa.array([1.25, 2.35, -1.5]))}
    assert evaluated("i * 2 + 1", **columns) == [3, 5, 7]
    assert evaluated("ROUND(f)", **columns) == [1.0, 2.0, -2.0]
    assert evaluated("IF(i > 1, f, 0.0)", **columns) == [0.0, 2.35, -1.5]
    batch = pa.RecordBatch.from_arrays([pa.DictionaryArray.from_arrays(codes, pa.array(["A", "B"]))], ["type"])
    assert bind(parse("type = 'A'"), batch.schema).selection(batch).tolist() == [0, 2]


def test_null_column():
    assert evaluated("x + 1", x=pa.nulls(2)) == [None, None]
    assert evaluated("COALESCE(x, 'a')", x=pa.nulls(2)) == ["a", "a"]
