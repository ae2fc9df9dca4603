"""What can be seen of windows, and cases that random streams reach too seldom."""

import math
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.operators import reference
from tests.operators.reference import Row
from tests.operators.streams import VALUES, batch, column, raw
from tests.profiles import examples

from riprap.base.errors import DataError
from riprap.engine.engine import Engine
from riprap.graph.aggregates import apply
from riprap.graph.builder import App
from riprap.graph.order_keys import OrderKey
from riprap.graph.windows import count, punctuated, session_window, time, zero
from riprap.operators.build import make_operator
from riprap.operators.columns import concatenated, from_words, keys_of, take, to_words
from riprap.operators.contract import Channel, Punctuation
from riprap.operators.strings import StringPool

SCHEMA = pa.schema([("k", pa.string()), ("x", pa.float64()), ("i", pa.int64())])


def aggregate(*calls, **options):
    app = App("test")
    app.source("S", SCHEMA).aggregate(*calls, name="A", **options).sink("Sink")
    return make_operator(app.build(), "A")


def rows(*entries):
    """Entries are (ts, k, x, i)."""
    return [Row((ts, 0, seq, 0), {"k": k, "x": x, "i": i}) for seq, (ts, k, x, i) in enumerate(entries)]


def process(operator, entries, encoded=False):
    return operator.process(Channel(0), batch(SCHEMA, operator.setting.shapes[0], entries, encoded))


def values(emissions, name):
    return [v for e in emissions if not isinstance(e.event, Punctuation) for v in raw(e.event.column(name))]


# Large windows, which go from one to the next ------------------------------------------------------------------------


@examples(20)
@given(st.integers(33, 90), st.integers(1, 40), st.sampled_from([3, 64, 1000]), st.integers(0, 2**32))
def test_long_windows_mean_what_short_ones_mean(size, every, piece, seed):
    random = Random(seed)
    pool = [0.0, -0.0, 0.1, 1e308, -1e308, 1e-310, 7.25, None, math.nan, math.inf]
    numbers = [random.choice(pool if random.random() < 0.3 else pool[:8]) for _ in range(400)]
    entries = rows(*((j, random.choice("ab"), x, random.randint(-9, 9)) for j, x in enumerate(numbers)))
    calls = [("s", "sum", "x"), ("m", "min", "x"), ("g", "max", "x"), ("t", "sum", "i"), ("a", "avg", "i")]
    operator = aggregate(*(f"{f}({c}) AS {n}" for n, f, c in calls), window=count(size), every=count(every), by="k")
    found = []
    for start in range(0, 400, piece):
        found += process(operator, entries[start : start + piece])
    expected = reference.aggregate(
        [(0, row) for row in entries], calls=calls, window=("count", size), every=("count", every), by=["k"]
    )
    for name, *_ in calls:
        assert list(map(repr, values(found, name))) == [repr(row.values[name]) for _, row in expected]


# Integers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [3, 40])
def test_an_integer_sum_that_leaves_64_bits_is_an_error(size):
    entries = rows(*((j, "a", None, 2**62) for j in range(size)))
    with pytest.raises(DataError, match="operator A: t exceeds 64 bits; cast its argument to double"):
        process(aggregate("sum(i) AS t", window=count(size), every=count(1)), entries)


@pytest.mark.parametrize("size", [4, 40])
def test_an_integer_sum_may_pass_64_bits_on_the_way(size):
    entries = rows(*((j, "a", None, i) for j, i in enumerate([2**62, 2**62, -(2**62), -(2**62)] * (size // 4))))
    (found,) = values(process(aggregate("sum(i) AS t", window=count(size)), entries), "t")
    assert found == 0


# Functions of the user's own -----------------------------------------------------------------------------------------


def test_a_user_function_gets_the_window_oldest_first():
    def spread(x):
        return x[-1] - x[0]

    def interpreted(x):
        return float(f"{len(x)}.5")  # Numba cannot

    operator = aggregate(
        apply(spread, "x", name="d"), apply(interpreted, "x", name="f"), window=count(3), every=count(1), by="k"
    )
    entries = rows((0, "a", 1.0, 0), (1, "b", 5.0, 0), (2, "a", 4.0, 0), (3, "a", None, 0), (4, "a", 2.5, 0))
    found = process(operator, entries)
    assert list(map(str, values(found, "d"))) == ["0.0", "0.0", "3.0", "nan", "-1.5"]
    assert values(found, "f") == [1.5, 1.5, 2.5, 3.5, 3.5]
    whole = aggregate(apply(spread, "i", name="d", type="int64"), window=count(2))
    with pytest.raises(DataError, match=r"d got a null.*use coalesce"):
        process(whole, rows((0, "a", 1.0, None), (1, "a", 1.0, 2)))


# Late tuples, which only a jitter upstream brings ---------------------------------------------------------------------


def test_a_late_tuple_counts_as_of_now():
    entries = rows((0, "a", 1.0, 0), (12, "a", 2.0, 0), (3, "a", 4.0, 0), (21, "a", 8.0, 0))
    by_time = process(aggregate("sum(x) AS s", window=time("10us")), entries)
    assert values(by_time, "s") == [1.0, 6.0]  # what comes after 10 is not in the window that ended at 10
    by_count = process(aggregate("sum(x) AS s", window=time("10us"), every=count(1)), entries)
    assert values(by_count, "s") == [1.0, 2.0, 6.0, 14.0]


def test_a_punctuation_empties_a_window():
    operator = aggregate("sum(x) AS s", "last(k) AS l", window=punctuated(), by="k")
    process(operator, rows((0, "a", 1.0, 0), (1, "ü", 2.0, 0), (2, "a", 3.0, 0)))
    assert (operator.size(), len(operator.digest().keys)) == (3, 2)
    operator.punctuate(Channel(0), Punctuation(OrderKey(2, 0, 2)))
    assert (operator.size(), len(operator.digest().keys)) == (0, 0)


# Digests -------------------------------------------------------------------------------------------------------------


def test_digests_see_content_and_not_history():
    long, short = (aggregate("sum(x) AS s", window=count(2), every=count(1), by="k") for _ in range(2))
    process(long, rows((0, "a", 9.0, 0), (1, "a", 1.0, 0), (2, "a", 2.0, 0)))
    process(short, rows((1, "a", 1.0, 0), (2, "a", 2.0, 0)))
    assert long.digest().digests.tolist() == short.digest().digests.tolist()
    process(short, rows((3, "a", 1.0, 0)))
    assert long.digest().digests.tolist() != short.digest().digests.tolist()


def test_digests_see_which_boundary_comes_next():
    """With the same tuple in a sliding window, one still speaks at 10 and the other does not."""
    before, after = (aggregate("sum(x) AS s", window=time("20us"), every=time("10us"), by="k") for _ in range(2))
    for operator in (before, after):
        process(operator, rows((7, "a", 1.0, 0)))
    after.watermark(OrderKey(11, 0, 100))
    assert before.digest().digests.tolist() != after.digest().digests.tolist()


# Columns -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type_", list(VALUES), ids=str)
@pytest.mark.parametrize("encoded", [False, True])
@settings(max_examples=15)
@given(data=st.data())
def test_every_type_survives_being_stored(type_, encoded, data):
    given_ = data.draw(st.lists(st.one_of(st.none(), VALUES[type_]), max_size=12))
    array = column("c", type_, given_, encoded)
    for piece in (array, array.slice(1), array.slice(0, max(0, len(array) - 1))):
        pool = StringPool()
        words = to_words(piece, pool)
        assert words.values.dtype in (np.int64, np.float64)
        back = from_words(np.array(words.values), words.valid, type_, pool)
        assert list(map(repr, raw(back))) == list(map(repr, raw(piece)))


def test_text_in_any_encoding_is_one_column():
    plain = pa.array(["a", None, "ü"])
    arrays = [
        plain,
        plain.dictionary_encode(),
        plain.cast(pa.large_string()),
        pa.array(["z", "a"]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
        plain.cast(pa.string_view()),
        plain.slice(3),
        pa.array([None, None], pa.string()).dictionary_encode(),
    ]
    joined = concatenated(arrays)
    assert raw(joined) == ["a", None, "ü"] * 3 + ["z", "a"] + ["a", None, "ü"] + [None, None]
    same = concatenated([arrays[1], arrays[1]])
    assert isinstance(same, pa.DictionaryArray)
    pool = StringPool()
    ids = [pool.ids(array) for array in arrays]
    assert [a.tolist() for a, _ in ids[:3]] == [ids[0][0].tolist()] * 3
    assert pool.count == 3


@given(st.data())
def test_taking_rows_gives_what_arrow_gives(data):
    nulls = data.draw(st.booleans())
    texts = data.draw(st.lists(st.sampled_from(["a", "ü", "zz", *([None] * nulls)]), min_size=1, max_size=30))
    text = pa.array(texts, pa.string())
    numbers = pa.array([None if t is None else ord(t[0]) % 100 for t in texts], pa.int64())
    columns = [
        text,
        text.dictionary_encode(),
        text.dictionary_encode().cast(pa.dictionary(pa.int8(), pa.large_string())),
    ]
    types = [pa.bool_(), pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()]
    columns += [numbers.cast(type_) for type_ in types]
    columns += [numbers.cast(pa.timestamp("us", "UTC")), numbers.cast(pa.int32()).cast(pa.date32())]
    fields = [pa.field(f"c{j}", column.type, nullable=nulls) for j, column in enumerate(columns)]
    whole = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
    batch = whole.slice(data.draw(st.integers(0, len(texts))))
    if batch.num_rows:
        rows = sorted(data.draw(st.lists(st.integers(0, batch.num_rows - 1), max_size=40)))
        taken = take(batch, np.array(rows, np.int64))
        assert taken.equals(batch.take(pa.array(rows, pa.int64())))
        assert taken.schema == batch.schema


def test_dictionaries_that_share_their_bytes_are_told_apart():
    """Same bytes, same length, other offsets: other strings."""
    data = pa.py_buffer(b"abc")
    first = pa.StringArray.from_buffers(2, pa.py_buffer(np.array([0, 1, 3], np.int32)), data)
    second = pa.StringArray.from_buffers(2, pa.py_buffer(np.array([0, 2, 3], np.int32)), data)
    pool = StringPool()
    codes = pa.array([0, 1], pa.int8())
    for strings, expected in ((first, [0, 1]), (second, [2, 3])):
        assert pool.ids(pa.DictionaryArray.from_arrays(codes, strings))[0].tolist() == expected


def test_a_null_among_the_values_of_a_dictionary_is_an_error():
    odd = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["a", None]))
    with pytest.raises(DataError, match="put the null into the indices"):
        StringPool().ids(odd)


# Boundaries of two operators at one time ------------------------------------------------------------------------------

BEHIND = {
    "sort": lambda stream: stream.sort("x", window=time("5us"), name="B"),
    "tumbling": lambda stream: stream.aggregate("sum(x) AS x", window=time("5us"), by="k", name="B"),
    "sliding": lambda stream: stream.aggregate("sum(x) AS x", window=time("20us"), every=time("5us"), by="k", name="B"),
    "as often": lambda stream: stream.aggregate("sum(x) AS x", window=time("20us"), by="k", name="B"),
    "session": lambda stream: stream.aggregate("sum(x) AS x", window=session_window("4us"), by="k", name="B"),
}


@pytest.mark.parametrize("behind", BEHIND)
def test_keys_ascend_where_a_punctuation_of_a_boundary_comes_to_windows_that_end_then(behind):
    """Whoever takes streams by key would drop what comes under a lower one."""
    app = App("boundaries")
    source = app.source("S", SCHEMA)
    BEHIND[behind](source.sort("i", window=time("20us"), name="A").union(source, name="U")).sink("Sink")
    graph = app.build()
    keys, marks = given(graph, ["S", "A", "U", "B"])
    assert marks > 5
    assert keys == sorted(keys)


def given(graph, members):
    """Keys of all that the last of some operators gives out, and how many are of punctuations."""
    random, ts = Random(1), 0
    entries = []
    for i in range(200):
        ts += random.choice([0, 0, 1, 3])
        entries.append((ts, random.choice("abc"), float(i % 7), i))
    fed = batch(SCHEMA, graph.shape("S"), rows(*entries), False)
    engine = Engine(graph, members, cut_everywhere=True)  # a sink ends punctuations
    outputs = [out for at in range(0, 200, 7) for out in engine.push("S", fed.slice(at, 7))] + engine.end("S")
    keys, marks = [], 0
    for _, event in outputs:
        if isinstance(event, Punctuation):
            keys.append(event.key)
            marks += 1
        else:
            found = keys_of(event, graph.shape(members[-1]))
            keys += [found.at(row) for row in range(event.num_rows)]
    return keys, marks


# Punctuations of another rank than the tuples around them ------------------------------------------------------------

CAUSED = {
    "aggregate": lambda stream: stream.aggregate("sum(x) AS x", window=punctuated(), by="k", name="B"),
    "sort": lambda stream: stream.sort("x", window=punctuated(), name="B"),
    "sort of a count": lambda stream: stream.sort("x", window=count(3), name="B"),
    "sort of a time": lambda stream: stream.sort("x", window=time("50us"), name="B"),
}


@pytest.mark.parametrize("delayed", [False, True])
@pytest.mark.parametrize("behind", CAUSED)
def test_what_a_punctuation_causes_has_its_key_though_boundaries_of_time_gave_the_tuples_theirs(behind, delayed):
    """The rank of a boundary is below that of any source: what is behind takes such rows for ones that it has had."""
    app = App("passing")
    stream = app.source("S", SCHEMA).punctuate("i % 9 = 0", name="P")
    stream = stream.delay("3us", name="D") if delayed else stream
    timed = stream.aggregate("sum(x) AS x", window=count(4), every=time("5us"), by="k", name="A")
    CAUSED[behind](timed).sink("Sink")
    graph = app.build()
    keys, marks = given(graph, ["S", "P", *(["D"] if delayed else []), "A", "B"])
    assert marks > 5
    assert keys == sorted(keys)
    caused = {key for key in keys if keys.count(key) > 1}  # the last row that a punctuation causes, and it, share a key
    assert len([key for key in caused if key.src == 0]) > 5


def test_a_punctuation_of_a_boundary_has_its_place_among_tuples_that_are_merged_by_number():
    """One port of a join gives tuples their keys, and punctuations of both pass."""
    app = App("merged")
    source = app.source("S", SCHEMA)
    rare = source.sort("i", window=time("20us"), name="A").select("k", "i AS other", name="R")
    join = source.join(
        rare, on="k", left_window=zero(), right_window=count(1), select=["k", "x", "i"], how="left", name="J"
    )
    join.union(source, name="U").sink("Sink")
    keys, marks = given(app.build(), ["S", "A", "R", "J", "U"])
    assert marks > 5
    assert keys == sorted(keys)
