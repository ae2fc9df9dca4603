"""What is held for a consumer and does not fit into memory comes back from disk, whole and in order."""

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.base.errors import DataError
from riprap.graph.order_keys import OrderKey, physical_schema, source_shape
from riprap.operators.views import Views
from riprap.protocols.channels import ChannelId
from riprap.runtime.element.resend_buffer import ResendBuffer
from riprap.runtime.messages import Message, MessageKind
from riprap.runtime.spill import LogSpill

SCHEMA = physical_schema(pa.schema([("name", pa.string())]), source_shape(0))
CHANNEL = ChannelId("A→B")


def message(number: int, rows: int) -> Message:
    if rows == 0:
        return Message(MessageKind.PUNCTUATION, 1, number, punctuation=OrderKey(number, 0, number))
    numbers = list(range(number, number + rows))
    columns = [pa.array([f"n{n}" for n in numbers]), pa.array(numbers, SCHEMA.field("_ts").type), pa.array(numbers)]
    return Message(MessageKind.ROWS, 1, number, Views.of(pa.RecordBatch.from_arrays(columns, schema=SCHEMA)), born=7)


def items(messages: list[Message]) -> list[object]:
    """Each item by itself: a row's number, or a punctuation's key."""
    found: list[object] = []
    for m in messages:
        found += m.batch.column("_seq").values.tolist() if m.batch is not None else [m.punctuation]
    return found


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=30),
    taken=st.integers(0, 600),
    limit=st.integers(0, 3000),
)
def test_what_is_held_comes_back_whole(tmp_path_factory, sizes, taken, limit):
    place = tmp_path_factory.mktemp("spill") / "log"
    held = ResendBuffer(limit, lambda: LogSpill(place, CHANNEL, SCHEMA))
    number, kept = 0, []
    for rows in sizes:
        kept.append(message(number, rows))
        held.add(kept[-1])
        number += kept[-1].items
    taken = min(taken, number)
    held.release(taken)
    held.rewind(taken)
    again = []
    while (following := held.next()) is not None:
        again.append(following)
        held.sent()
        held.release(following.number + following.items)
    first = again[0].number if again else number
    assert items(again) == items(kept)[first:]
    assert first <= taken
    assert held.drained
    assert not place.exists(), "what was taken is not kept"
    held.add(message(number, 3))
    assert held.next() is not None, "and memory is used again"


def test_progress_headers_and_markers_survive_and_reading_may_begin_again(tmp_path):
    key = OrderKey(5, 0, 5)
    spill = LogSpill(tmp_path / "spill", CHANNEL, SCHEMA)
    sent = [
        replace(message(0, 3), header=b"vector", watermark=key),
        message(3, 0),
        Message(MessageKind.MARKER, 1, 4, header=b"round 2"),
        message(4, 2),
    ]
    for one in sent[:3]:
        spill.append(one)
    first = list(spill.since(0))
    spill.append(sent[3])
    rest = list(spill.since(4))
    again = list(spill.since(2))
    spill.close()
    for found, kept in ((first + rest, sent[:2] + sent[3:]), (again, sent[:2] + sent[3:])):
        marks = [m for m in found if m.kind is not MessageKind.MARKER]
        assert [(m.kind, m.number, m.header, m.watermark, m.punctuation, m.born) for m in marks] == [
            (m.kind, m.number, m.header, m.watermark, m.punctuation, m.born) for m in kept
        ]
        assert items(marks) == items(kept)
    assert [m.header for m in first if m.kind is MessageKind.MARKER] == [b"round 2"]
    assert not (tmp_path / "spill").exists()


def test_a_spill_that_was_damaged_is_an_error(tmp_path):
    spill = LogSpill(tmp_path / "spill", CHANNEL, SCHEMA)
    spill.append(message(0, 50))
    spill._file.flush()
    path = tmp_path / "spill" / "frames"
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match="checksum"):
        list(spill.since(0))
    path.write_bytes(data[:200])
    spill._rewind()
    with pytest.raises(DataError, match="cut short"):
        list(spill.since(0))
    spill.close()


def test_who_goes_back_keeps_no_progress_of_what_it_gives_out_again(tmp_path):
    before, after = (ResendBuffer(10**6, lambda: LogSpill(tmp_path, CHANNEL, SCHEMA)) for _ in range(2))
    for number in (0, 4):
        before.add(replace(message(number, 4), watermark=OrderKey(number + 3, 0, number + 3)))
    after.adopt(before, 6, 2)
    kept = list(after.messages())
    assert [(m.epoch, m.number, m.items, m.watermark) for m in kept] == [(2, 0, 4, OrderKey(3, 0, 3)), (2, 4, 2, None)]
