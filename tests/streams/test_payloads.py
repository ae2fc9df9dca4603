"""Payloads and records: carried and checked as rows are, atomic with them, invisible to whoever does not ask."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream_data import SCHEMA, batch, table

from riprap.streams import Damaged, OrderKey, PersistentStream, StoredMark
from riprap.streams.frame import PLAIN, WITH_PAYLOAD
from riprap.streams.verify import verify

# Rows of an append, the payload beside them, the record behind them.
STEPS = st.lists(st.tuples(st.integers(1, 4), st.binary(max_size=19), st.binary(max_size=300)), max_size=12)


def write_steps(stream, steps, *, roll_every=0) -> None:
    row = 0
    with stream.writer(producer="p", epoch=0) as writer:
        for at, (rows, payload, record) in enumerate(steps):
            writer.append(batch(row, rows), sequence=at, payload=payload, record=record)
            row += rows
            if roll_every and at % roll_every == roll_every - 1:
                writer.finish_segment()


@given(steps=STEPS, roll_every=st.sampled_from([0, 1, 3]))
def test_payloads_and_records_come_back(tmp_path_factory, steps, roll_every):
    stream = PersistentStream.create(tmp_path_factory.mktemp("s") / "s", SCHEMA, stability="none")
    write_steps(stream, steps, roll_every=roll_every)
    opened = PersistentStream.open(stream.files.location)
    rows, payloads, records = [], [], []
    for item in opened.read(marks=True):
        if isinstance(item, StoredMark):
            assert item.kind == "record"
            records.append((len(payloads) - 1, item.payload))
        else:
            rows.append(item.batch)
            payloads.append(item.payload)
            assert item.header.version == (WITH_PAYLOAD if item.payload else PLAIN)
    assert payloads == [payload for _, payload, _ in steps]
    wanted = [(at, record) for at, (_, _, record) in enumerate(steps) if record]
    assert records == wanted
    backwards = list(opened.records_backwards())
    assert [(item.header.sequence, item.payload) for item in backwards] == wanted[::-1]
    assert [item.bytes_read for item in backwards] == sorted(item.bytes_read for item in backwards)
    if rows:
        assert table(rows).equals(table([batch(0, sum(rows for rows, _, _ in steps))]))
    assert [item.payload for item in opened.read()] == payloads  # records do not show
    assert not verify(opened).damage


def test_arrow_readers_step_over_payloads_and_records(tmp_path):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA)
    write_steps(stream, [(2, b"header", b"r" * 1000), (3, b"", b"x"), (1, b"12345678", b"")], roll_every=3)
    file = tmp_path / "s" / "00000000.arrow"
    with pa.OSFile(str(file)) as source:
        assert pa.ipc.open_file(source).read_all().equals(table([batch(0, 6)]))
    with pa.OSFile(str(file)) as source:
        source.seek(8)
        assert pa.ipc.open_stream(source).read_all().equals(table([batch(0, 6)]))


def test_a_repetition_writes_no_record(tmp_path):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA)
    for _ in range(2):
        write_steps(stream, [(2, b"", b"one"), (2, b"", b"two")])
    assert [item.payload for item in stream.records_backwards()] == [b"two", b"one"]


def test_marks_with_payloads(tmp_path):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA)
    with stream.writer() as writer:
        writer.append(batch(0, 1))
        writer.mark(None, kind="marker", payload=b"round 7")
        writer.mark(OrderKey(5, 0, 0, 0), kind="progress", payload=b"vector")
    marks = [item for item in stream.read(marks=True) if isinstance(item, StoredMark)]
    assert [(mark.kind, mark.payload) for mark in marks] == [("marker", b"round 7"), ("progress", b"vector")]


def test_every_cut_leaves_rows_and_record_or_neither(memory_path):
    stream = PersistentStream.create(memory_path / "s", SCHEMA)
    write_steps(stream, [(1, b"h", b"first"), (2, b"h", b"second")])
    segment = memory_path / "s" / "00000000.arrow"
    data = segment.read_bytes()
    (memory_path / "s" / "mark").unlink()
    outcomes = set()
    for size in range(len(data) + 1):
        segment.write_bytes(data[:size])
        opened = PersistentStream.open(memory_path / "s")
        rows = sum(item.batch.num_rows for item in opened.read())
        records = tuple(item.payload for item in opened.records_backwards())
        outcomes.add((rows, records))
    assert outcomes == {(0, ()), (1, (b"first",)), (3, (b"second", b"first"))}


def test_damage_at_every_byte_of_a_record_is_found(memory_path):
    stream = PersistentStream.create(memory_path / "s", SCHEMA)
    write_steps(stream, [(1, b"", b"")])
    before = (memory_path / "s" / "00000000.arrow").stat().st_size
    write_steps(stream, [(1, b"", b""), (1, b"", b"a record")])
    segment = memory_path / "s" / "00000000.arrow"
    data = segment.read_bytes()
    for at in range(before, len(data)):
        segment.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert verify(PersistentStream.open(memory_path / "s")).damage, at
        with pytest.raises(Damaged):
            list(PersistentStream.open(memory_path / "s").records_backwards())
