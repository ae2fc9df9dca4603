"""Persistent streams as nobody wrote them: damage is told, what is read is what was written, and a writer goes on."""

import shutil
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.durable.mutations import Case, attempt

from riprap.cli.stream import export
from riprap.graph.order_keys import OrderKey
from riprap.streams import PersistentStream
from riprap.streams.overview import overview, segment_table
from riprap.streams.verify import verify

TS = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("_ts", TS), ("_seq", pa.int64()), ("text", pa.string())])


def rows(first: int, number: int) -> pa.RecordBatch:
    seq = np.arange(first, first + number)
    return pa.record_batch(
        [pa.array(seq * 1000, TS), pa.array(seq), pa.array([f"row {n}" for n in seq])], schema=SCHEMA
    )


def make_stream(path: Path) -> None:
    stream = PersistentStream.create(path, SCHEMA, segment_bytes=4000)
    with stream.writer(producer="p", epoch=1) as writer:
        for first in range(0, 120, 10):
            writer.append(rows(first, 10), watermark=OrderKey(first * 1000))
        writer.mark(OrderKey(119_000), kind="punctuation")
        writer.flush()
    stream.register_reader("r", 30)


def read_rows(path: Path) -> None:
    for item in PersistentStream.open(path).read():
        for row in item.batch.to_pylist():
            number = row["_seq"]
            assert 0 <= number < 120
            assert (row["text"], row["_ts"].timestamp()) == (f"row {number}", number / 1000)


def read_marks(path: Path) -> None:
    list(PersistentStream.open(path).read(marks=True, from_position=50))


def look(path: Path) -> None:
    stream = PersistentStream.open(path)
    overview(stream)
    segment_table(stream)
    stream.readers()


def check(path: Path) -> None:
    verify(PersistentStream.open(path))


def take_elsewhere(path: Path) -> None:
    export(str(path), path.parent / "out.arrow")


def go_on(path: Path) -> None:
    """Whatever a writer could open it can append to, and what it appends is there."""
    with PersistentStream.open(path).writer(producer="p", epoch=2) as writer:
        position = writer.position
        writer.append(rows(1000, 3)).result()
    last = [item.batch for item in PersistentStream.open(path).read(from_position=position)][-1]
    assert last.equals(rows(1000, 3))


def trim(path: Path) -> None:
    PersistentStream.open(path).trim(before_position=60)


CASE = Case(make_stream, [read_rows, read_marks, look, check, take_elsewhere, trim, go_on], 300, recovers=False)


def test_what_was_written_is_fine(tmp_path):
    CASE.sound(tmp_path)


def test_hundreds_of_mutations(tmp_path):
    CASE.share(tmp_path)


def _gone(path: Path) -> None:
    path.unlink()


def _cut(share: float):
    def cut(path: Path) -> None:
        path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])

    return cut


LOSSES = {"gone": _gone, "cut": _cut(0.6)}


def test_wherever_rows_are_lost_the_stream_is_not_called_sound(tmp_path):
    """Any two files, each of them gone or cut: what can still be read is all, or somebody says so."""
    make_stream(tmp_path / "sample")
    names = sorted(str(p.relative_to(tmp_path / "sample")) for p in (tmp_path / "sample").rglob("*") if p.is_file())
    assert {"mark", "catalogue", "stream.json", "writer.lock"} < set(names)
    done = [(name, how) for name in names for how in LOSSES]
    lost = 0
    for first, second in combinations_with_replacement(done, 2):
        if first[0] == second[0] and first != second:
            continue
        work = tmp_path / "work"
        shutil.copytree(tmp_path / "sample", work)
        for name, how in {first, second}:
            LOSSES[how](work / name)
        found = [0]
        refused = attempt(lambda: found.extend(item.batch.num_rows for item in PersistentStream.open(work).read()))  # noqa: B023
        if refused is None and sum(found) < 120:
            lost += 1
            refused = attempt(lambda: found.append(len(verify(PersistentStream.open(work)).damage)))  # noqa: B023
            assert refused is not None or found[-1] > 0, f"{first} and {second}: {sum(found[:-1])} rows, and sound"
        shutil.rmtree(work)
    assert lost > 30


@pytest.mark.soak
def test_hours_of_mutations(tmp_path):
    CASE.hours(tmp_path)
