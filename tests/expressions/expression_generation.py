"""Random trees of every type as SQL, and random batches for them: nulls, NaN, infinities, slices, all encodings of
strings. A tree is a tuple: ("column", name), ("literal", value), (operator, argument, …).
"""

from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

TIMESTAMP = pa.timestamp("us", "UTC")
EXTREMES = [-(2**63), 2**63 - 1, 2**53 + 1, -1, 0, 1]
# No letter here changes its number of code points with its case.
STRINGS = st.text(alphabet="ab%_\\é日😀 '\n", max_size=4)
FLOATS = st.floats(width=64) | st.sampled_from([0.0, -0.0, 0.5, 2.5, float("nan"), float("inf"), -float("inf")])
# Between 1900 and 2100, so that adding a few intervals stays in the range of Python's datetime.
MOMENTS = st.integers(-2_208_988_800_000_000, 4_102_444_800_000_000)

COLUMNS = {
    "i": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.sampled_from(EXTREMES) | st.integers(-9, 9)),
    "j": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "u": (pa.uint32(), st.integers(0, 2**32 - 1)),
    "f": (pa.float64(), FLOATS),
    "g": (pa.float32(), st.floats(width=32)),
    "s": (pa.string(), STRINGS),
    "t": (pa.string(), STRINGS | st.sampled_from(["a", "b"])),
    "b": (pa.bool_(), st.booleans()),
    "c": (pa.bool_(), st.booleans()),
    "m": (TIMESTAMP, MOMENTS),
    "n": (TIMESTAMP, MOMENTS),
}


def columns(*names):
    return st.sampled_from([("column", name) for name in names])


def literals(strategy):
    return (strategy | st.none()).map(lambda value: ("literal", value))


def call(names, *arguments):
    return st.tuples(st.sampled_from(names.split(",")), *arguments)


def several(name, element, least=1, most=3):
    return st.lists(element, min_size=least, max_size=most).map(lambda found: (name, *found))


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def sql(tree) -> str:
    match tree:
        case ("column", name):
            return name
        case ("literal", None):
            return "NULL"
        case ("literal", bool(value)):
            return "TRUE" if value else "FALSE"
        case ("literal", str(text)):
            return quoted(text)
        case ("literal", float(value)):
            return f"{value!r}D"
        case ("literal", value):
            return f"{value}L"
        case ("timestamp", micros):
            return f"TIMESTAMP '{(EPOCH + timedelta(microseconds=micros)).strftime('%Y-%m-%d %H:%M:%S.%f')}'"
        case ("interval", micros):
            return f"INTERVAL {micros} MICROSECONDS"
        case ("negate" | "not" as name, operand):
            return f"({'-' if name == 'negate' else 'NOT '} {sql(operand)})"
        case ("is null", operand):
            return f"({sql(operand)} IS NULL)"
        case ("in", operand, *choices):
            return f"({sql(operand)} IN ({', '.join(map(sql, choices))}))"
        case ("between", operand, low, high):
            return f"({sql(operand)} BETWEEN {sql(low)} AND {sql(high)})"
        case ("case", *branches, default):
            whens = " ".join(f"WHEN {sql(a)} THEN {sql(b)}" for a, b in zip(branches[::2], branches[1::2], strict=True))
            return f"(CASE {whens} ELSE {sql(default)} END)"
        case ("cast", operand, target):
            return f"CAST({sql(operand)} AS {target})"
        case (
            ("round" | "substring" | "like" | "startswith" | "rlike" | "regexp_extract" | "regexp_replace") as name,
            operand,
            *fixed,
        ):
            texts = [quoted(part) if isinstance(part, str) else str(part) for part in fixed]
            if name == "like":
                return f"({sql(operand)} LIKE {texts[0]})"
            return f"{name}({', '.join([sql(operand), *texts])})"
        case (name, *operands) if name.isalpha() and name not in ("and", "or"):
            return f"{name}({', '.join(map(sql, operands))})"
        case (name, left, right):
            return f"({sql(left)} {name} {sql(right)})"
    raise AssertionError(tree)


COMPARISONS = "=,<>,<,<=,>,>="
PATTERNS = st.lists(st.sampled_from(["%", "_", "a", "b", "é", "\\%", "\\_", "\\\\", "日"]), max_size=4).map("".join)

REGEXES = st.lists(
    st.sampled_from(
        ["a", "b", "é", "日", ".", "[a-b]", "[^a(]", "\\\\", "\\(?", "(?:ab)?", "b*", "a+", "(?:a|日)", "%", "_"]
    ),
    max_size=3,
).map("".join)


@cache
def trees(kind: str, depth: int):
    """Trees whose value is of `kind`, at most `depth` operators deep."""
    leaves = {
        "integer": columns("i", "j", "u") | literals(st.integers(-1000, 1000)),
        "float": columns("f", "g")
        | st.floats(allow_nan=False, allow_infinity=False, min_value=0).map(lambda value: ("literal", value))
        | st.just(("cast", ("literal", None), "DOUBLE")),
        "string": columns("s", "t") | literals(STRINGS),
        "boolean": columns("b", "c") | literals(st.booleans()),
        "timestamp": columns("m", "n") | MOMENTS.map(lambda micros: ("timestamp", micros)),
    }[kind]
    if depth == 0:
        return leaves
    one = st.deferred(lambda: trees(kind, depth - 1))
    integer, float_, string, boolean, moment = (
        st.deferred(lambda name=name: trees(name, depth - 1))
        for name in ("integer", "float", "string", "boolean", "timestamp")
    )
    number = integer | float_
    nodes = [
        st.lists(st.tuples(boolean, one), min_size=1, max_size=2).flatmap(
            lambda branches: one.map(lambda default: ("case", *[part for pair in branches for part in pair], default))
        ),
        several("coalesce", one),
        call("nullif", one, one),
    ]
    if kind != "boolean":
        nodes.append(several("least", one, 2) | several("greatest", one, 2))
    match kind:
        case "integer":
            nodes += [
                call("+,-,*,%", one, one),
                call("negate,abs,floor,ceil", one),
                call("length", string),
                call("year,month,day,hour,minute,second", moment),
                st.tuples(st.just("cast"), number | boolean, st.sampled_from(["TINYINT", "SMALLINT", "INT", "BIGINT"])),
            ]
        case "float":
            nodes += [
                call("+,-,*,%", float_, number) | call("+,-,*,%", number, float_) | call("/", number, number),
                call("negate,abs,floor,ceil,sqrt", float_),
                st.tuples(st.just("round"), float_, st.integers(0, 3)),
                st.tuples(st.just("cast"), integer | boolean, st.just("DOUBLE")),
            ]
        case "string":
            nodes += [
                call("upper,lower,trim", one),
                several("concat", one, 2),
                st.tuples(st.just("substring"), one, st.integers(-5, 5)),
                st.tuples(st.just("substring"), one, st.integers(-5, 5), st.integers(-1, 5)),
                st.tuples(st.just("cast"), integer, st.just("STRING")),
                st.tuples(st.just("regexp_extract"), one, REGEXES, st.just(0)),
                st.tuples(
                    st.just("regexp_extract"), one, REGEXES.map(lambda regex: f"([ab(]*)({regex})"), st.integers(0, 2)
                ),
                st.tuples(
                    st.just("regexp_replace"),
                    one,
                    REGEXES.map(lambda regex: f"a({regex})"),
                    st.sampled_from(["", "<$1>", "\\$$0"]),
                ),
            ]
        case "boolean":
            some = integer | float_ | string | boolean | moment
            nodes += [
                call(COMPARISONS, number, number),
                call(COMPARISONS, string, string),
                call(COMPARISONS, moment, moment),
                call("and,or", one, one),
                call("not", one),
                call("is null", some),
                call("isnan", float_),
                several("in", number, 2, 4) | several("in", string, 2, 4),
                st.tuples(st.just("in"), string, *[literals(STRINGS)] * 9),
                st.tuples(st.just("in"), number, *[literals(st.integers(-3, 9))] * 9),
                call("between", number, number, number),
                st.tuples(st.just("like"), string, PATTERNS),
                st.tuples(st.just("rlike"), string, REGEXES),
                st.tuples(st.just("startswith"), string, STRINGS),
                st.tuples(st.just("cast"), number, st.just("BOOLEAN")),
            ]
        case "timestamp":
            span = st.integers(0, 10**12).map(lambda micros: ("interval", micros))
            nodes.append(call("+,-", moment, span))
    return leaves | st.one_of(nodes)


@st.composite
def batches(draw):
    """A batch and its rows as dictionaries. Nulls hide arbitrary values; the batch may be a slice of a longer one."""
    rows, before, after = draw(st.integers(0, 12)), draw(st.integers(0, 9)), draw(st.integers(0, 2))
    length = before + rows + after
    # A few values per column, drawn one by one, and then spread over the rows: much quicker than drawing every cell.
    spread = np.random.default_rng(draw(st.integers(0, 2**32)))
    arrays, fields, values = [], [], {}
    for name, (type_, strategy) in COLUMNS.items():
        pool = draw(st.lists(strategy, min_size=1, max_size=4))
        hidden = [pool[choice] for choice in spread.integers(0, len(pool), length)]
        some_null = draw(st.booleans())
        null = (spread.random(length) < 0.3) & some_null
        array = pa.array(_hiding(hidden, type_), type_, mask=null)
        if type_ == pa.string():
            array = draw(encodings(array))
        arrays.append(array)
        fields.append(pa.field(name, array.type, nullable=some_null))
        values[name] = [None if gone else value for value, gone in zip(hidden, null, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)).slice(before, rows)
    return batch, [{name: values[name][before + row] for name in values} for row in range(rows)]


def _hiding(values, type_):
    """Through NumPy where possible: Arrow then keeps the value that a null hides."""
    return values if type_ in (pa.string(), pa.bool_()) else np.array(values, _numpy(type_))


def _numpy(type_):
    return "datetime64[us]" if type_ == TIMESTAMP else type_.to_pandas_dtype()


@st.composite
def encodings(draw, array):
    """Plain, large, or a dictionary: with entries that no row uses, and with nulls among its entries."""
    choice = draw(st.sampled_from(["plain", "large", "int8", "int32", "uint32", "null entry"]))
    if choice == "plain":
        return array
    if choice == "large":
        return array.cast(pa.large_string())
    values = ["unused", *dict.fromkeys(v for v in array.to_pylist() if v is not None), None]
    codes = [None if v is None and choice != "null entry" else values.index(v) for v in array.to_pylist()]
    width = {"int8": pa.int8(), "uint32": pa.uint32()}.get(choice, pa.int32())
    entries = values if choice == "null entry" else values[:-1]
    return pa.DictionaryArray.from_arrays(pa.array(codes, width), pa.array(entries, pa.string()))
