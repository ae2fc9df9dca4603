"""From stored to live and back: nothing lost, nothing repeated; memory when caught up; other processes too."""

import subprocess
import sys
import threading
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_data import SCHEMA, batch, batches, table, write

from riprap.streams import Fenced, PersistentStream


def follow_all(stream, rows, **options):
    got = []
    for item in stream.read(follow=True, idle=300, **options):
        got.append(item)
        if item.next_position >= rows:
            break
    return got


@settings(max_examples=25)
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=40),
    st.integers(0, 39),
    st.sampled_from([0, 2000, 1 << 20]),
    st.sampled_from([1, 5000, 1 << 20]),
)
def test_a_follower_sees_every_row_once(memory_root, sizes, stored, memory_bytes, segment_bytes):
    """Some batches are there before it starts, the rest come while it reads; memory holds none, some or all of them."""
    path = Path(mkdtemp(dir=memory_root)) / "s"
    stream = PersistentStream.create(
        path, SCHEMA, memory_bytes=memory_bytes, segment_bytes=segment_bytes, stability="async", outstanding=2
    )
    items = batches(sizes)
    got: list = []
    with stream.writer() as writer:
        for item in items[:stored]:
            writer.append(item)
        thread = threading.Thread(target=lambda: got.extend(follow_all(PersistentStream.open(path), sum(sizes))))
        thread.start()
        for item in items[stored:]:
            writer.append(item)
        writer.flush()
        thread.join(300)
    assert table(got).equals(table(items))


def test_one_that_has_caught_up_is_served_from_memory(tmp_path):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA)
    write(stream, batches([5] * 4))
    with stream.writer() as writer:
        reader = stream.read(follow=True, idle=300)
        stored = [next(reader) for _ in range(4)]
        live = []
        for number in range(20, 40):
            writer.append(batch(number, 1)).result()
            live.append(next(reader))
        assert (reader.counts.stored, reader.counts.live) == (4, 20)
        assert table(stored + live).equals(table([batch(0, 40)]))
        reader.close()


def test_one_that_falls_behind_goes_back_to_disk(tmp_path):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA, memory_bytes=3000)
    with stream.writer() as writer:
        reader = stream.read(follow=True, idle=300)
        writer.append(batch(0, 1)).result()
        got = [next(reader)]
        for number in range(1, 60):
            writer.append(batch(number, 1)).result()
        got += [next(reader) for _ in range(59)]
        assert reader.counts.stored > 0
        assert reader.counts.live > 0
        assert table(got).equals(table([batch(0, 60)]))


def test_it_goes_on_over_writers_and_ends_when_told(tmp_path):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA)
    got, stop = [], threading.Event()
    thread = threading.Thread(
        target=lambda: got.extend(PersistentStream.open(tmp_path / "s").read(follow=True, stop=stop))
    )
    thread.start()
    for life in range(3):
        write(stream, [batch(life * 4, 4)], epoch=life)
    while len(got) < 3:
        thread.join(0.01)
    stop.set()
    thread.join(300)
    assert not thread.is_alive()
    assert table(got).equals(table([batch(0, 12)]))


FOLLOWER = """
import sys
from riprap.streams import Fenced, PersistentStream
for item in PersistentStream.open(sys.argv[1]).read(follow=True, idle=300):
    print(item.batch["_seq"].to_pylist(), flush=True)
    if item.next_position >= int(sys.argv[2]):
        break
"""


@pytest.mark.parametrize("stability", ["fsync", "none"])
def test_a_follower_in_another_process(tmp_path, stability):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA, segment_bytes=3000, stability=stability)
    command = [sys.executable, "-c", FOLLOWER, str(tmp_path / "s"), "300"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, stream.writer() as writer:
        for number in range(100):
            writer.append(batch(number * 3, 3))
        output, _ = process.communicate(timeout=300)
    assert [seq for line in output.splitlines() for seq in eval(line)] == list(range(300))


def test_memory_stays_bounded_while_nobody_reads(tmp_path):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA, memory_bytes=20_000)
    with stream.writer() as writer:
        for number in range(300):
            writer.append(batch(number * 10, 10))
        writer.flush()
        live = stream.live()
        assert live is not None
        held = sum(recent.header.length for recent in live.since(live.mark.position - 1) or [])
        oldest = next(at for at in range(0, 3000, 10) if live.since(at) is not None)
        assert held > 0
        assert sum(recent.header.length for recent in live.since(oldest)) <= 20_000
    assert stream.live() is None


def test_a_reader_that_goes_on_reads_the_file_that_has_the_name_now(tmp_path):
    """It keeps the open segment open; a newer epoch replaces that of one that hangs by a copy."""
    stream = PersistentStream.create(tmp_path / "s", SCHEMA, memory_bytes=0, stability="async")
    items = batches([3, 4, 5, 6])
    hangs = stream.writer(producer="p", epoch=1)
    hangs.append(items[0]).result()
    reader = stream.read()
    got = list(reader)
    hangs.append(items[1]).result()
    got += reader.again()
    with PersistentStream.open(tmp_path / "s").writer(producer="p", epoch=2) as newer:
        newer.append(items[2]).result()
        got += reader.again()
        newer.append(items[3]).result()
        got += reader.again()
    assert table(got).equals(table(items))
    with pytest.raises(Fenced):
        hangs.append(batch(18, 1)).result()
