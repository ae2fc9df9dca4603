"""Whatever Arrow type an input has: it is taken, with the same rows as the plain one, or refused with one sentence."""

import datetime
import decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.durable.mutations import attempt

from riprap.base.errors import DataError
from riprap.engine.engine import Engine
from riprap.engine.input_check import check_input
from riprap.engine.inputs import keyed, read_file
from riprap.graph.builder import App

TIMES = pa.array(
    [datetime.datetime(2024, 1, 1, 0, 0, second, tzinfo=datetime.UTC) for second in range(5)], pa.timestamp("us", "UTC")
)
TEXT = pa.array(["a", "b", None, "ü", "a"])
NUMBERS = pa.array([1, 1, 2, None, 2])
BYTES = pa.array([b"a", b"\xff", None, b"", b"a"])


def dictionary(index, values):
    return pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2, 0], index), pa.array(["a", "b", "ü"], values))


TAKEN = {
    "string_view": ("string", TEXT.cast(pa.string_view()), TEXT),
    "large_string": ("string", TEXT.cast(pa.large_string()), TEXT),
    "dictionary": ("string", TEXT.dictionary_encode(), TEXT),
    "dictionary of uint8": ("string", dictionary(pa.uint8(), pa.string()), TEXT),
    "dictionary of int64 and large": ("string", dictionary(pa.int64(), pa.large_string()), TEXT),
    "dictionary of views": ("string", dictionary(pa.int32(), pa.string_view()), TEXT),
    "runs of text": ("string", pc.run_end_encode(TEXT), TEXT),
    "runs of numbers": ("long", pc.run_end_encode(NUMBERS), NUMBERS),
    "dictionary of numbers": ("long", NUMBERS.dictionary_encode(), NUMBERS),
    "binary_view": ("binary", BYTES.cast(pa.binary_view()), BYTES),
    "large_binary": ("binary", BYTES.cast(pa.large_binary()), BYTES),
    "dictionary of binary": ("binary", BYTES.dictionary_encode(), BYTES),
    "timestamp of ns": ("timestamp", TIMES.cast(pa.timestamp("ns", "UTC")), TIMES),
    "timestamp of s without zone": ("timestamp", TIMES.cast(pa.timestamp("s", "UTC")).cast(pa.timestamp("s")), TIMES),
    "timestamp elsewhere": ("timestamp", TIMES.cast(pa.timestamp("us", "Europe/Berlin")), TIMES),
    "timestamp nowhere": ("timestamp", TIMES.cast(pa.timestamp("us", "Nowhere/Land")), TIMES),
    "dictionary of timestamps": ("timestamp", TIMES.dictionary_encode(), TIMES),
}
NO_TEXT = pa.Array.from_buffers(
    pa.string(), 5, [None, pa.py_buffer(pa.array(range(6), pa.int32()).buffers()[1]), pa.py_buffer(b"ab\xffcd")]
)
REFUSED = {
    "invalid UTF-8": ("string", NO_TEXT, "column v is not text"),
    "invalid UTF-8 in a dictionary": (
        "string",
        pa.DictionaryArray.from_arrays(range(5), NO_TEXT),
        "is not text|Invalid UTF8",
    ),
    "fixed size": ("binary", pa.array([b"aa"] * 5, pa.binary(2)), "fixed_size_binary"),
    "list": ("string", pa.array([["a"]] * 5), "is list<"),
    "large list": ("long", pa.array([[1]] * 5, pa.large_list(pa.int64())), "is (large_)?list<"),
    "list view": ("long", pa.array([[1]] * 5, pa.list_view(pa.int64())), "type list_view<"),
    "fixed list": ("long", pa.array([[1]] * 5, pa.list_(pa.int64(), 1)), "type fixed_size_list<"),
    "struct": ("string", pa.array([{"a": 1}] * 5), "is struct<"),
    "map": ("string", pa.array([[("a", 1)]] * 5, pa.map_(pa.string(), pa.int64())), "is map<"),
    "decimal128": ("double", pa.array([decimal.Decimal(1)] * 5, pa.decimal128(5, 2)), "is decimal128"),
    "decimal256": ("double", pa.array([decimal.Decimal(1)] * 5, pa.decimal256(50, 2)), "type decimal256"),
    "null": ("string", pa.nulls(5), "type null is not supported"),
    "half float": ("float", pa.array([1.0] * 5, pa.float16()), "type halffloat"),
    "uint64": ("long", pa.array([1] * 5, pa.uint64()), "type uint64"),
    "duration": ("long", pa.array([1] * 5, pa.duration("us")), "type duration"),
    "time of day": ("timestamp", pa.array([1] * 5, pa.time64("us")), "type time64"),
    "runs of lists": ("long", pa.RunEndEncodedArray.from_arrays([5], pa.array([[1]])), "is run_end_encoded<|is list<"),
    "views as numbers": ("long", TEXT.cast(pa.string_view()), "column v is string_view, expected int64"),
    "time beyond": ("timestamp", pa.array([2**62] * 5, pa.timestamp("s", "UTC")), "cannot be cast to timestamp"),
}


@pytest.fixture(params=["arrow", "parquet"])
def written(request, tmp_path):
    def write(values, times=TIMES):
        path, table = tmp_path / f"input.{request.param}", pa.table({"v": values, "ts": times})
        try:
            if request.param == "parquet":
                pq.write_table(table, path)
            else:
                with pa.ipc.new_file(path, table.schema) as writer:
                    writer.write_table(table)
        except (pa.ArrowException, OSError):
            pytest.skip("no such file can be written")
        return path

    return write


def run(path, type_, **options):
    """What a source gives its operators, after these have taken it."""
    app = App("types")
    app.source("S", f"v {type_}, ts timestamp", time="ts", **options).select("v", "ts", name="P").sink("Sink")
    graph = app.build()
    check_input(path, graph["S"])
    engine, given = Engine(graph), []
    for batch in keyed(read_file(path), graph["S"]):
        engine.push("S", batch)
        given += batch.column("v").to_pylist()
    return given


@pytest.mark.parametrize("kind", TAKEN)
def test_encodings_are_all_the_same(written, kind):
    type_, values, plain = TAKEN[kind]
    path = written(values)
    assert run(path, type_) == plain.to_pylist()
    assert run(path, type_, lateness="2 s") == plain.to_pylist(), "sorted on its way in"


@pytest.mark.parametrize("kind", REFUSED)
def test_others_are_refused_with_a_sentence(written, kind):
    type_, values, why = REFUSED[kind]
    path = written(values)
    with pytest.raises(DataError, match=why) as refused:
        run(path, type_)
    assert "the input of source S" in str(refused.value) or f"cannot read {path}" in str(refused.value)


@pytest.mark.parametrize("kind", [*TAKEN, *REFUSED])
def test_any_of_them_as_the_time(written, kind):
    """`_ts` is made of it, or a sentence."""
    times = (TAKEN.get(kind) or REFUSED[kind])[1]
    path = written(pa.array(["a"] * 5), times)
    refused = attempt(lambda: run(path, "string"))
    assert refused is None or "ts" in refused
