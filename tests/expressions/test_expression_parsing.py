"""Text in, tree out: what parses, what is refused, and what the refusal says."""

import pickle

import pyarrow as pa
import pytest

from riprap.base.errors import ExpressionError
from riprap.expressions import parse, parse_named


def test_spacing_brackets_and_case_of_functions_make_no_difference():
    assert parse("size*(vwap-price)") == parse("  size * ((vwap) - price)")
    assert hash(parse("abs( x )")) == hash(parse("ABS(x)"))
    assert parse("a + b") != parse("b + a")
    assert parse("a = 1") != parse("a = 1.0")
    assert parse("a = 1") != parse("a = TRUE")


def test_text_and_columns_are_kept():
    expression = parse("coalesce(`my col`, _ts) = _seq + 1")
    assert expression.text == "coalesce(`my col`, _ts) = _seq + 1"
    assert expression.columns == {"my col", "_ts", "_seq"}
    assert pickle.loads(pickle.dumps(expression)) == expression


def test_a_tree_written_as_sql_reads_back_as_itself():
    for text in [
        "a + b * c - (d - e) % 2", "-a < 5 AND NOT (b OR c)", "a IS NOT NULL", "x IN (1, 2, NULL)", "s LIKE 'a\\\\_%'",
        "CASE WHEN a THEN 'it\\'s' ELSE \"é\" END", "a - INTERVAL 5 MINUTES",
       
        "1.50 + 2.5D", "a.b[0]", "TRY_CAST(a AS ARRAY<INT>)",
        "`a b` || upper(c)", "-9223372036854775808", "1e300", "X'00ff'", "a <> 1 = b",
    ]:  # fmt: skip
        assert parse(str(parse(text).root)) == parse(text), text


@pytest.mark.parametrize(
    ("sugar", "plain"),
    [
        ("a BETWEEN 1 AND 2", "a >= 1 AND a <= 2"),
        ("a NOT BETWEEN 1 AND 2", "NOT (a >= 1 AND a <= 2)"),
        ("IF(a, b, c)", "CASE WHEN a THEN b ELSE c END"),
        ("CASE a WHEN 1 THEN b END", "CASE WHEN a = 1 THEN b ELSE NULL END"),
        ("a || b", "CONCAT(a, b)"),
        ("a != b", "a <> b"),
        ("a == b", "a = b"),
        ("a IS TRUE", "COALESCE(a, FALSE)"),
        ("a IS NOT FALSE", "NOT COALESCE(NOT a, FALSE)"),
        ("a NOT LIKE 'x'", "NOT a LIKE 'x'"),
        ("a::double", "CAST(a AS DOUBLE)"),
        ("EXTRACT(HOUR FROM a)", "HOUR(a)"),
        ("IFNULL(a, b)", "COALESCE(a, b)"),
        ("INTERVAL '90' SECOND", "INTERVAL 1.5 MINUTES"),
    ],
)
def test_sugar(sugar, plain):
    assert parse(sugar) == parse(plain)


def test_names():
    name, expression = parse_named("size * (vwap - price) AS gain")
    assert (name, expression) == ("gain", parse("size * (vwap - price)"))
    assert expression.text == "size * (vwap - price)"
    assert parse_named("ticker") == ("ticker", parse("ticker"))
    assert parse_named("ticker AS `the symbol`") == ("the symbol", parse("ticker"))
    assert parse_named("ticker")[1].column == "ticker"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("price + ", "something is missing at line 1, column 7: price »\\+«"),
        ("(price", "expecting \\)"),
        ("price > = 1 )", "at line 1, column 9: price > »=« 1"),
        ("price,\n size", "not expected at line 1, column 6"),
        ("'abc", "quote or comment is not closed"),
        ("", "is empty"),
        ("a; b", "remove the semicolon"),
        ("price size", "stray word 'size'"),
        ("price AS p", "remove AS p"),
        ("lenght(s)", "unknown function LENGHT.*LENGTH.*did you mean LENGTH"),
        ("count(s)", "unknown function COUNT"),
        ("*", "not allowed in an expression"),
        ("a IN (SELECT 1)", "part \\(query\\)"),
        ("0E", "0E is not a number"),
        ("INTERVAL 1 CENTURY", "INTERVAL 5 SECONDS"),
        ("CAST(a AS DECIMAL(30, 40))", "CAST to .* is not supported; types are BOOLEAN"),
        ("EXTRACT(CENTURY FROM a)", "EXTRACT takes .*YEAR"),
        ("1234567890123456789012345678901234567890", "more than 38 digits"),
        ("'it''s'", "a quote inside a string is written"),
        ("(" * 5000 + "a" + ")" * 5000, "nested too deeply"),
    ],
)
def test_refusals(text, message):
    with pytest.raises(ExpressionError, match=f"(?s){message}"):
        parse(text)


def test_a_projection_without_a_name_says_what_to_add():
    with pytest.raises(ExpressionError, match='add "AS name"'):
        parse_named("price * 2")
    with pytest.raises(ExpressionError, match="stray word"):
        parse_named("price gain")


def test_importing_the_package_does_not_import_the_parser():
    import subprocess
    import sys

    code = "import sys, riprap.expressions; sys.exit('sqlglot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_literals_carry_arrow_types():
    types = {
        "1": pa.int32(),
        "3000000000": pa.int64(),
        "1.50": pa.decimal128(3, 2),
        "1e3": pa.float64(),
        "'a'": pa.string(),
    }
    for text, type_ in types.items():
        assert parse(text).root.type == type_
    assert parse("INTERVAL 2 MILLISECONDS").root.value == 2_000
    assert parse("INTERVAL '1-2' YEAR TO MONTH").root.value == 14
    assert parse("TIMESTAMP '1970-01-01 00:00:01'").root.type == pa.timestamp("us", "UTC")


def test_what_catalyst_prints_is_read():
    lambda_ = "transform(a, lambdafunction((namedlambdavariable() + 1), namedlambdavariable()))"
    assert len(parse(lambda_).columns) == 1
    assert parse("named_struct('p', a_12, 'q', CAST(`b c_7` AS BIGINT)).p").columns == {"a_12", "b c_7"}
    assert parse("a.b.c").columns == {"a"}
