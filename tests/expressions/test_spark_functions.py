"""Every function gives what Spark itself gives: on drawn rows with the edges of every type, and NULL."""

import math
import re

import pyarrow as pa
import pytest
import spark_cases
import spark_rows

from riprap.expressions import bind, parse
from riprap.expressions.functions import canonical, spellings
from riprap.expressions.row_values import values_of
from riprap.expressions.type_names import name_of

GROUPS = ("ARITHMETIC", "LOGIC", "STRINGS", "TIMES", "CASTS", "COLLECTIONS")
ULPS = 8  # the last bits of EXP, POWER, SIN and their like depend on the library
# Differ from run to run in Spark (the clock, random numbers), end with an error, or are only written otherwise.
NOT_COMPARED = {"RAND", "RANDOM", "RANDN", "UUID", "CURRENT_TIMESTAMP", "NOW", "CURRENT_DATE", "CURDATE",
                "LOCALTIMESTAMP", "MONOTONICALLY_INCREASING_ID", "RAISE_ERROR"}  # fmt: skip
INTERNAL = {"FIELD", "ELEMENT", "EXTRACT_SECOND", "EXTRACT_ISO_DAY", "EXTRACT_ISO_YEAR"}


def cases(group: str) -> list[str]:
    return list(dict.fromkeys(spark_cases.split_cases(getattr(spark_cases, group))))


def called() -> set[str]:
    """The names that the cases call."""
    texts = " ".join(case for group in GROUPS for case in cases(group))
    return {name.upper() for name in re.findall(r"([a-zA-Z_]\w*)\s*\(", texts)} | {
        name.upper() for name in re.findall(r"\b(?:like|ilike|rlike|div)\b", texts)
    }


def test_every_function_is_compared_and_there_are_many():
    known = set(spellings()) - INTERNAL
    uncompared = {canonical(name) for name in known - NOT_COMPARED} - {canonical(name) for name in called()}
    assert uncompared == set()
    assert len(known & called()) >= 250


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    started = SparkSession.getActiveSession()
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    before = {key: session.conf.get(key, None) for key in ("spark.sql.session.timeZone", *_INTERPRETED)}
    session.conf.set("spark.sql.session.timeZone", "UTC")
    for key, value in _INTERPRETED.items():
        session.conf.set(key, value)
    yield session
    for key, value in before.items():
        session.conf.unset(key) if value is None else session.conf.set(key, value)
    if started is None:
        session.stop()


# Compiling hundreds of expressions takes Spark longer than evaluating them.
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def same(ours, theirs) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float):
        if ours != ours or theirs != theirs or ours == theirs:
            return (ours != ours and theirs != theirs) or math.copysign(1, ours) == math.copysign(1, theirs)
        return abs(ours - theirs) <= ULPS * math.ulp(max(abs(ours), abs(theirs)))
    if isinstance(ours, (list, tuple)) and isinstance(theirs, (list, tuple)):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return type(ours) is type(theirs) and ours == theirs


def plain(column: pa.ChunkedArray) -> list:
    return [value for chunk in column.chunks for value in values_of(chunk)]


def compare(spark, group: str, seed: int, rows: int) -> None:
    texts, batch = cases(group), spark_rows.drawn(seed, rows)
    frame = spark.createDataFrame(pa.Table.from_batches([batch])).selectExpr(
        *[f"{text} AS c{place}" for place, text in enumerate(texts)]
    )
    types = [field.dataType.simpleString() for field in frame.schema.fields]
    table, wrong = frame.toArrow(), []
    for place, (text, type_) in enumerate(zip(texts, types, strict=True)):
        bound = bind(parse(text), batch.schema)
        ours, theirs = values_of(bound.evaluate(batch)), plain(table.column(place))
        if name_of(bound.type) != type_ and not type_.startswith("interval"):
            wrong.append(f"{text} is {name_of(bound.type)}, and {type_} in Spark")
        for row, (our, their) in enumerate(zip(ours, theirs, strict=True)):
            if not same(our, their):
                wrong.append(f"{text} is {our!r}, and {their!r} in Spark, for {_read(bound, batch, row)}")
                break
    assert not wrong, f"seed {seed}:\n" + "\n".join(wrong)


def _read(bound, batch, row):
    return {name: values_of(batch.column(name).slice(row, 1))[0] for name in bound.expression.columns}


@pytest.mark.parametrize("group", GROUPS)
def test_functions_mean_what_they_mean_in_spark(spark, group):
    compare(spark, group, seed=1, rows=48)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 12))
def test_functions_mean_what_they_mean_in_spark_for_many_rows(spark, seed):
    for group in GROUPS:
        compare(spark, group, seed, rows=400)


ERRORS = ["i / 0", "l % 0", "i + 2147483647", "cast(s as int)", "cast(300 as tinyint)", "ai[9]", "element_at(ai, 9)",
          "to_date('x')", "to_timestamp('2024-13-01')", "make_date(2023, 2, 29)", "raise_error('no')",
          "assert_true(false)", "map('a', 1, 'a', 2)", "m * 9999999999999999999 * 999999999999999999999", "elt(9, 'a')",
          "abs(cast(-128 as tinyint))", "floor(1e20)", "cast(double('NaN') as int)", "cast('a' as boolean)",
          "next_day(date'2024-01-01', 'x')", "s like 'a\\\\'", "regexp_extract(s, '(a)', 3)", 
          "date'2024-02-30'"]  # fmt: skip


@pytest.mark.parametrize("text", ERRORS)
def test_what_fails_in_spark_fails(spark, text):
    from pyspark.errors import PySparkException

    from riprap.base.errors import DataError, ExpressionError

    batch = pa.record_batch({"i": pa.array([1, 2], pa.int32()), "l": [5, 6], "s": ["a", "abc"],
                             "ai": pa.array([[1], [2]], pa.list_(pa.int32())),
                             "m": pa.array([12, 13]).cast(pa.decimal128(19, 0))})  # fmt: skip
    with pytest.raises((DataError, ExpressionError)):
        bind(parse(text), batch.schema).evaluate(batch)
    with pytest.raises(PySparkException):
        spark.createDataFrame(pa.Table.from_batches([batch])).selectExpr(f"{text} AS c").toArrow()
