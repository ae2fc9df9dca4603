"""Trimmed segments that are written over: nothing of what lay in them is ever taken for something new."""

import os
import shutil
import signal
import subprocess
import sys

import pyarrow as pa
import pytest
from stream_data import SCHEMA, batch, table

from riprap.base.errors import DataError
from riprap.streams import PersistentStream
from riprap.streams.segment import read_start, segment_name
from riprap.streams.spares import MAX_SPARES
from riprap.streams.verify import verify

ROWS = 50


def going(path, rounds):
    """A writer whose reader has had everything but the last two segments, always."""
    stream = PersistentStream.create(path, SCHEMA, segment_bytes=20_000, stability="async")
    writer = stream.writer(producer="p", epoch=1)
    for number in range(rounds):
        writer.append(batch(number * ROWS, ROWS)).result()
        finished = stream.catalogue().finished
        if len(finished) > 2:
            stream.trim(before_position=finished[-2].position, discard=writer.discard)
    return stream, writer


def reused(stream):
    file = stream.files.open(segment_name(stream.stable().segment))
    try:
        return read_start(file).reused, file.size()
    finally:
        file.close()


def spare_files(path):
    return [name for name in os.listdir(path) if name.endswith(".spare.tmp")]


def until_over_another(path):
    """A stream whose open segment lies in the file of another, with something of that behind it."""
    stream, writer = going(path, 200)
    number = 200
    while not reused(stream)[0] or stream.stable().offset > 12_000:
        writer.append(batch(number * ROWS, ROWS)).result()
        number += 1
        finished = stream.catalogue().finished
        stream.trim(before_position=finished[-2].position, discard=writer.discard)
    assert reused(stream)[1] > stream.stable().offset
    return stream, writer, number * ROWS


def test_what_was_trimmed_is_written_over_and_reads_are_exact(tmp_path):
    stream, writer, rows = until_over_another(tmp_path / "s")
    first = stream.first_position()
    assert table(stream.read()).combine_chunks().equals(table([batch(first, rows - first)]).combine_chunks())
    assert verify(PersistentStream.open(tmp_path / "s")).damage == []
    writer.close()
    assert reused(stream)[1] == PersistentStream.open(tmp_path / "s").stable().offset  # nothing of another is left
    assert not spare_files(tmp_path / "s")


def test_a_finished_segment_in_another_ones_file_is_an_arrow_file(tmp_path):
    stream, writer, rows = until_over_another(tmp_path / "s")
    number = stream.stable().segment
    writer.finish_segment()
    with pa.OSFile(str(tmp_path / "s" / segment_name(number))) as file:
        found = pa.ipc.open_file(file).read_all()
    assert found["_seq"].to_pylist()[-1] == rows - 1
    assert verify(PersistentStream.open(tmp_path / "s")).damage == []
    writer.close()


def crashed(path, copy):
    """What a killed writer leaves: a copy of all files while it is alive, locked by nobody."""
    shutil.copytree(path, copy)
    return copy


def test_a_killed_writer_leaves_rests_that_nobody_takes_for_rows(tmp_path):
    stream, writer, rows = until_over_another(tmp_path / "s")
    left = crashed(tmp_path / "s", tmp_path / "left")
    first = stream.first_position()
    seen = PersistentStream.open(left)
    assert seen.stable().position == rows
    assert seen.loss() is None
    assert sum(item.batch.num_rows for item in seen.read()) == rows - first
    with PersistentStream.open(left).writer(producer="p", epoch=2) as again:
        assert again.cut is None
        assert again.position == rows
        again.append(batch(rows, ROWS)).result()
    assert sum(item.batch.num_rows for item in PersistentStream.open(left).read()) == rows + ROWS - first
    assert verify(PersistentStream.open(left)).damage == []
    assert not spare_files(left)
    writer.close()


@pytest.mark.parametrize("lost", [1, 500])
def test_a_mark_that_promises_more_than_the_file_has_is_damage_there_too(tmp_path, lost):
    """A power cut that took the end of what was acknowledged: what the file held before lies there again."""
    stream, writer, _ = until_over_another(tmp_path / "s")
    end, left = stream.stable(), crashed(tmp_path / "s", tmp_path / "left")
    with open(left / segment_name(end.segment), "r+b") as file:
        file.seek(end.offset - lost)
        file.write(bytes(byte ^ 0xFF for byte in os.urandom(lost)) if lost > 1 else b"\xff")
    loss = PersistentStream.open(left).loss()
    damaged = verify(PersistentStream.open(left)).damage
    assert loss is not None or damaged
    with PersistentStream.open(left).writer(producer="p", epoch=2) as again:
        assert again.cut is not None
        assert again.cut.kept
    writer.close()


def test_an_append_behind_a_stale_mark_is_found_in_a_file_that_was_used_again(tmp_path):
    _stream, writer, rows = until_over_another(tmp_path / "s")
    mark = (tmp_path / "s" / "mark").read_bytes()
    writer.append(batch(rows, ROWS)).result()
    left = crashed(tmp_path / "s", tmp_path / "left")
    (left / "mark").write_bytes(mark)
    assert PersistentStream.open(left).stable().position == rows + ROWS
    writer.close()


def test_a_reader_of_a_segment_that_was_written_over_is_told_that_it_was_trimmed(tmp_path):
    stream, writer = going(tmp_path / "s", 100)
    reader = PersistentStream.open(tmp_path / "s").read()
    next(reader)
    rows = 100 * ROWS
    for number in range(400):
        writer.append(batch(rows + number * ROWS, ROWS)).result()
        finished = stream.catalogue().finished
        stream.trim(before_position=finished[-1].position, discard=writer.discard)
    with pytest.raises(DataError, match="trimmed while it was read"):
        for _ in reader:
            pass
    writer.close()


def test_few_files_wait_to_be_written_over(tmp_path):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA, segment_bytes=1, stability="async")
    with stream.writer() as writer:
        for number in range(20):
            writer.append(batch(number * ROWS, ROWS)).result()
        writer.flush()
        stream.trim(before_position=19 * ROWS, discard=writer.discard)
        assert len(spare_files(tmp_path / "s")) == MAX_SPARES
        assert len(stream.catalogue().finished) <= 1


_KILLED = """
import sys
sys.path.insert(0, sys.argv[2])
from test_spares import ROWS, batch, going
stream, writer = going(sys.argv[1], 1)
number = 1
while True:
    writer.append(batch(number * ROWS, ROWS)).result()
    number += 1
    finished = stream.catalogue().finished
    if len(finished) > 2:
        stream.trim(before_position=finished[-2].position, discard=writer.discard)
    print(number * ROWS, flush=True)
"""


def test_a_kill_at_any_moment_loses_nothing_that_was_acknowledged(tmp_path):
    here = os.path.dirname(__file__)
    for kill, lines in enumerate((120, 150, 175)):
        path = tmp_path / str(kill)
        process = subprocess.Popen([sys.executable, "-c", _KILLED, str(path), here], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        told = 0
        for _ in range(lines):
            told = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        rest = process.stdout.read().split()
        process.wait()
        told = int(rest[-1]) if rest and len(rest) > 1 else told
        stream = PersistentStream.open(path)
        first, end = stream.first_position(), stream.stable().position
        assert end >= told
        found = table(stream.read())
        assert found["_seq"].to_pylist() == list(range(first, end))
        with PersistentStream.open(path).writer(producer="p", epoch=2) as again:
            assert again.position == end
            again.append(batch(end, ROWS)).result()
        assert verify(PersistentStream.open(path)).damage == []
