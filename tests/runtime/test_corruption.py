"""Silent corruption on request: what may be asked for, and that one bit is wrong and nothing else."""

from pathlib import Path

import pyarrow as pa
import pytest

from riprap.base.errors import UsageError
from riprap.graph.builder import App
from riprap.graph.windows import count
from riprap.operators.views import Views
from riprap.runtime.corruption import corruptions_done, parse_corruptions, report_done, request_corruption, take_request
from riprap.runtime.element.wrong_bits import WrongBits
from riprap.runtime.layout import arrange


def layout():
    app = App("x")
    stream = app.source("S", "k string, x long").filter("x > 0", name="F")
    stream.aggregate("sum(x) AS x", window=count(3), every=count(1), by="k", name="A").sink("Out")
    return arrange(app.build(), "none")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("A", "write OPERATOR@TIME"),
        ("@1s", "write OPERATOR@TIME"),
        ("B@1s", "no operator or element is called B"),
        ("A@soon", "`corrupt` 'A@soon'"),
        (["A@1s"], "write one text with commas"),
    ],
)
def test_what_cannot_be_asked_for_is_said(text, why):
    with pytest.raises(UsageError, match=why) as refused:
        parse_corruptions(text, layout())
    assert refused.value.exit_code == 2


def test_without_any():
    assert parse_corruptions(None, layout()) == ()


def test_half_of_them_strike_tuples_and_half_states():
    found = parse_corruptions(",".join(f"A@{second}s" for second in range(1, 200)), layout())
    assert [one.at for one in found] == sorted(one.at for one in found)
    assert 60 < sum(one.what == "tuple" for one in found) < 140
    assert {one.pes for one in found} == {("A",)}


def test_a_request_is_found_once(tmp_path: Path):
    assert take_request(tmp_path, "A#1") is None
    request_corruption(tmp_path, "A#1", "state", operator="A", chance=7)
    assert take_request(tmp_path, "A#2") is None
    request = take_request(tmp_path, "A#1")
    assert request is not None
    assert (request.operator, request.what, request.chance) == ("A", "state", 7)
    assert take_request(tmp_path, "A#1") is None
    report_done(tmp_path, "A#1", request, "x", 5)
    assert [(one["pe"], one["column"]) for one in corruptions_done(tmp_path)] == [("A#1", "x")]


def test_one_bit_of_one_tuple_is_wrong():
    rows = pa.record_batch({"x": pa.array(range(10)), "_seq": pa.array(range(10))})
    wrong_bits = WrongBits(None, ())
    assert wrong_bits.rows(rows) is rows
    wrong_bits.tuple(123)
    wrong = wrong_bits.views(Views.of(rows)).batch()
    differing = [(a, b) for a, b in zip(rows["x"].to_pylist(), wrong["x"].to_pylist(), strict=True) if a != b]
    assert len(differing) == 1
    assert (differing[0][0] ^ differing[0][1]).bit_count() == 1
    assert wrong["_seq"].equals(rows["_seq"])
    assert wrong_bits.struck == "x"
    assert not wrong_bits.pending
