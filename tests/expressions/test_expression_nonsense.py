"""Whatever a user writes, the answer is a value or an error of ours, never a traceback."""

import contextlib

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from riprap.base.errors import DataError, ExpressionError
from riprap.expressions import bind, parse, parse_named

LINES = [
    "a s t d `b c` 1 0 -1 2.5 1e400 .5 'x' \"é\" '\\' '2024-01-01' NULL TRUE FALSE X'0' X'0a'",
    "9223372036854775807 10L 1.5D",
    "+ - * / % = <> < > <= >= ( ) , ; . || :: ? @ # $ [ ] { } ~ & | ^ ! <=> => -> \\",
    "AND OR NOT IN IS BETWEEN LIKE ESCAPE CASE WHEN THEN ELSE END AS DISTINCT FROM SELECT INTERVAL DAYS SECOND DATE",
    "TIMESTAMP CAST( ABS( ROUND( SUBSTRING( TRIM( CONCAT( COALESCE( IF( LOG( YEAR( EXTRACT( POWER( LEAST( NULLIF(",
    "INT DOUBLE STRING BOOLEAN COUNT( OVER WHERE LATERAL EXISTS ANY ALL ARRAY( MAP( STRUCT( x-> SET COMMENT -- /*",
]
WORDS = [word for line in LINES for word in line.split()]
ATOMS = [
    "a",
    "s",
    "t",
    "d",
    "`b c`",
    "TRUE",
    "NULL",
    "'x'",
    "0",
    "-2",
    "1.5",
    "INTERVAL 1 DAY",
    "DATE '2024-01-01'",
    "X'0a'",
]
SHAPES = [
    *["({} + {})", "({} - {})", "({} * {})", "({} / {})", "({} % {})", "({} = {})", "({} < {})", "({} AND {})"],
    *["(NOT {})", "(- {})", "({} IS NULL)", "({} IS TRUE)", "({} IN ({}, {}))", "({} BETWEEN {} AND {})"],
    *[
        "({} LIKE {})",
        "({} || {})",
        "IF({}, {}, {})",
        "CASE {} WHEN {} THEN {} END",
        "COALESCE({}, {})",
        "NULLIF({}, {})",
    ],
    *[
        "LEAST({}, {})",
        "GREATEST({}, {})",
        "STARTSWITH({}, {})",
        "SUBSTRING({}, {}, {})",
        "ROUND({}, {})",
        "LOG({}, {})",
    ],
    *["CAST({} AS INT)", "CAST({} AS DOUBLE)", "CAST({} AS STRING)", "CAST({} AS DATE)", "CAST({} AS TIMESTAMP)"],
    *["CAST({} AS BOOLEAN)", "CAST({} AS FLOAT)", "UNIX_MICROS({})", "POWER({}, {})", "CONCAT({}, {})"],
    *[
        name + "({})"
        for name in ("ABS", "ROUND", "CEIL", "SQRT", "LN", "EXP", "LENGTH", "TRIM", "ISNAN", "YEAR", "HOUR")
    ],
]


def filled(inner):
    """One of the shapes, with whatever in it: it parses, and its types seldom fit."""
    return st.sampled_from(SHAPES).flatmap(
        lambda shape: st.tuples(*[inner] * shape.count("{}")).map(lambda parts: shape.format(*parts))
    )


BATCH = pa.RecordBatch.from_pydict(
    {
        "a": pa.array([1, None, -(2**63)]),
        "s": pa.array(["x", None, "é"]).dictionary_encode(),
        "t": pa.array([0, 1, None], pa.timestamp("us", "UTC")),
        "d": pa.array([2**31 - 1, None, 0], pa.int32()).cast(pa.date32()),
        "b c": pa.array([1.5, float("nan"), None]),
    }
)


@settings(max_examples=500)
@given(st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join) | st.text(max_size=12))
@example("a IN")
@example("MAP(a)")
@example("CAST(d AS TIMESTAMP)")
@example("INTERVAL 99999999999999999999 WEEKS")
@example("INTERVAL a SECONDS")
@example("INTERVAL 'NaN' SECONDS")
@example("TIMESTAMP '99999-01-01'")
@example("s LIKE '\\\\'")
def test_nonsense_is_refused_politely(text):
    with contextlib.suppress(ExpressionError):
        parse_named(text)
    check(text)


@settings(max_examples=800)
@given(filled(st.sampled_from(ATOMS) | filled(st.sampled_from(ATOMS))))
def test_types_that_do_not_fit_are_refused_politely(text):
    check(text)


def check(text):
    with contextlib.suppress(ExpressionError, DataError):
        bound = bind(parse(text), BATCH.schema)
        assert len(bound.evaluate(BATCH)) == BATCH.num_rows
