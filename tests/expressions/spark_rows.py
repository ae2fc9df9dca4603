"""Rows for comparing with Spark: values at the edges of every type, in a seeded order, and NULL."""

import random
from decimal import Decimal

import pyarrow as pa

from riprap.expressions.row_values import array_of
from riprap.expressions.type_names import type_of

DAY = 86_400_000_000
_INTS = [0, 1, -1, 2, 3, 7, 10, 100, -100, 2**31 - 1, -(2**31)]
_LONGS = [0, 1, -1, 5, 12345, -987654321, 2**40, 2**53 + 1, 2**63 - 1, -(2**63)]
_DOUBLES = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    2.5,
    0.1,
    3.14159,
    -2.675,
    1e-5,
    123456789.125,
    1e20,
    float("nan"),
    float("inf"),
    float("-inf"),
    4.9e-324,
    1.7976931348623157e308,
]
_UNIT = [0.0, -0.0, 0.5, -0.25, 1.0, -1.0, 0.125, float("nan")]
_TEXTS = [
    "",
    " ",
    "a",
    "A",
    "abc",
    "Hello World",
    "  padded  ",
    "ä",
    "naïve café",
    "東京タワー",
    "🙂x",
    "a,b,,c",
    "x=1&y=2",
    "foo123bar45",
    "tab\tend",
    "The quick  brown",
    "aAbBcC",
    "%_\\",
    "ab12-cd",
    "ßtraße",
    "ΑΣ",
]
_SHORT = ["", "a", "b", "o", "ab", ",", " ", "x", "é", "京"]
_DAYS = [
    0,
    -1,
    1,
    11016,
    11017,
    18321,
    18322,
    18627,
    19722,
    19358,
    -719162,
    2932896,
    365,
    59,
    60,
    -141428,
    19783,
    19782,
]
_MICROS = [
    0,
    -1,
    1,
    1709210096123456,
    951782400000000,
    1577836799999999,
    1711846800000000,
    -62135596800000000,
    253402300799999999,
    1700000000000000,
    1604217600000000,
]
_JSON = [
    '{"a":1,"b":"x"}',
    '{"a": null, "b": "y"}',
    '{"b":"z","c":[1,2,3]}',
    "{}",
    "[]",
    '[{"a":1},{"a":2}]',
    '{"a":{"b":[1,{"c":"deep"}]}}',
    "not json",
    '{"a":1',
    '{"a":"1","b":2}',
    '{"a":1.5,"b":true}',
    "",
    '{"a":1,"b":"\\u00e9\\n"}',
    "[1,2,3]",
    '{"a":99999999999}',
]
_URLS = [
    "http://user:pw@spark.apache.org:80/path/x?query=1&k=v#ref",
    "https://example.com/",
    "ftp://h/p;q",
    "file:///tmp/x",
    "http://h?k=v&q",
    "mailto:a@b.c",
]
_DATES = ["2024-02-29", "2023-12-31", "1970-01-01", "0001-01-01", "9999-12-31", " 2020-1-5 ", "2021-07", "1999"]
_TIMES = [
    "2024-02-29 12:34:56.789",
    "2023-12-31T23:59:59Z",
    "1970-01-01 00:00:00+02:00",
    "2020-01-01",
    "2021-03-28 01:30:00 Europe/Berlin",
    "1999-12-31 23:59",
]
_NUMBERS = ["0", "1", "-7", "42", " 12 ", "+5", "2147483647"]
_REALS = ["0.5", "-1e3", "1.25", "NaN", "Infinity", " 7 ", ".5", "3."]
_BYTES = [b"", b"\x00", b"abc", b"\xff\xfe", b"Spark", "é".encode()]

COLUMNS: dict[str, tuple[str, list]] = {
    "i": ("int", _INTS),
    "l": ("bigint", _LONGS),
    "h": ("smallint", [0, 1, -1, 300, -32768, 32767]),
    "y": ("tinyint", [0, 1, -1, 7, -128, 127]),
    "f": (
        "float",
        [0.0, -0.0, 1.5, -2.25, 0.10000000149011612, 16777216.0, float("nan"), float("inf"), 9.999999974752427e-07],
    ),
    "d": ("double", _DOUBLES),
    "r": ("double", _UNIT),
    "s": ("string", _TEXTS),
    "t": ("string", _SHORT),
    "b": ("boolean", [True, False]),
    "m": (
        "decimal(12,2)",
        [Decimal(x) for x in ("0.00", "1.00", "-1.50", "2.25", "0.05", "9999999999.99", "-9999999999.99", "12345.67")],
    ),
    "w": (
        "decimal(38,10)",
        [Decimal(x) for x in ("0E-10", "1.0000000000", "-0.0000000001", "123456789012345678.0123456789")],
    ),
    "dt": ("date", _DAYS),
    "dt2": ("date", _DAYS),
    "ts": ("timestamp", _MICROS),
    "ts2": ("timestamp", _MICROS),
    "tz": ("timestamp_ntz", _MICROS),
    "x": ("binary", _BYTES),
    "n": ("int", [-3, -2, -1, 0, 1, 2, 3, 5]),
    "k": ("int", [1, 2, 3, 12]),
    "ai": ("array<int>", [[], [1], [1, 2, 3], [3, 1, None, 2], [None], [5, 5, 5], [-1, 7, 2, 2]]),
    "ai2": ("array<int>", [[], [2], [1, None], [7, 3, 1]]),
    "ad": ("array<double>", [[], [1.0, float("nan")], [-0.0, 0.0], [None, 2.5, -1.0], [float("nan"), float("nan")]]),
    "asx": ("array<string>", [[], ["a"], ["b", None, "a"], ["é", "東", ""], ["x", "x"]]),
    "aa": ("array<array<int>>", [[], [[1, 2], []], [[3], [None]], [[4], None]]),
    "mp": ("map<string,int>", [[], [("a", 1)], [("b", 2), ("a", None)], [("é", 3), ("x", 4)]]),
    "mq": ("map<string,int>", [[], [("c", 9)], [("d", 8), ("e", None)]]),
    "st": ("struct<a:int,b:string>", [(1, "x"), (None, "y"), (2, None), (None, None)]),
    "j": ("string", _JSON),
    "u": ("string", _URLS),
    "sd": ("string", _DATES),
    "stt": ("string", _TIMES),
    "si": ("string", _NUMBERS),
    "sr": ("string", _REALS),
}


def drawn(seed: int, rows: int) -> pa.RecordBatch:
    chance = random.Random(seed)
    arrays = []
    for type_, pool in COLUMNS.values():
        values = [None if chance.random() < 0.12 else chance.choice(pool) for _ in range(rows)]
        arrays.append(array_of(values, type_of(type_)))
    return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))
