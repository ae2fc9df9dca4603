"""`riprap stream` as a user calls it: its output and its exit code; as a process of its own where that matters."""

import json
import shutil
import subprocess
import sys

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from refusals import ran

from riprap.streams import PersistentStream

SCHEMA = pa.schema([("_ts", pa.timestamp("us", "UTC")), ("_seq", pa.int64()), ("text", pa.string())])


def riprap(*arguments: object) -> subprocess.CompletedProcess:
    return ran("stream", *arguments)


def process(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "riprap.cli.main", "stream", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    made = tmp_path_factory.mktemp("cli") / "ticks"
    with PersistentStream.create(made, SCHEMA, segment_bytes=3000).writer() as writer:
        for first in range(0, 1000, 50):
            seq = list(range(first, first + 50))
            columns = [pa.array([n * 1000 for n in seq], SCHEMA.field(0).type), pa.array(seq), pa.array(map(str, seq))]
            writer.append(pa.record_batch(columns, schema=SCHEMA))
    return made


def test_ls_and_show(path):
    (listed,) = json.loads(riprap("ls", path.parent, "--json").stdout)
    assert (listed["rows"], listed["min_ts"], listed["max_ts"]) == (1000, 0, 999_000)
    assert listed["rows_per_second"] == pytest.approx(1000 / 0.999)
    shown = json.loads(riprap("show", path, "--json").stdout)
    assert shown["columns"]["_ts"] == "timestamp[us, tz=UTC]"
    assert sum(item["rows"] for item in shown["finished"]) < 1000
    text = riprap("show", path).stdout
    assert "positions 0 to 1,000" in text
    assert "1970-01-01T00:00:00Z to 1970-01-01T00:00:00.999000Z" in text
    assert "ticks" in riprap("ls", path.parent).stdout


def test_tail(path):
    rows = [json.loads(line) for line in riprap("tail", path, "-n", 3, "--json").stdout.splitlines()]
    assert [row["_seq"] for row in rows] == [997, 998, 999]
    assert riprap("tail", path, "--from", "1970-01-01T00:00:00.998Z").stdout.count("\n") == 2


def test_tail_follows(path, tmp_path):
    stream = PersistentStream.create(tmp_path / "s", SCHEMA)
    command = [sys.executable, "-m", "riprap.cli.main", "stream", "tail", str(tmp_path / "s"), "--follow", "--json"]
    with stream.writer() as writer, subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for number in range(3):
            columns = [pa.array([number], SCHEMA.field(0).type), pa.array([number]), pa.array(["x"])]
            writer.append(pa.record_batch(columns, schema=SCHEMA)).result()
            assert json.loads(process.stdout.readline())["_seq"] == number
        process.terminate()


def test_export(path, tmp_path):
    assert riprap("export", path, tmp_path / "all.parquet").returncode == 0
    assert pyarrow.parquet.read_table(tmp_path / "all.parquet")["_seq"].to_pylist() == list(range(1000))
    riprap("export", path, tmp_path / "some.csv", "--from", "5000", "--to", "8000", "--columns", "_seq,text")
    assert pyarrow.csv.read_csv(tmp_path / "some.csv").to_pydict() == {"_seq": [5, 6, 7], "text": [5, 6, 7]}
    riprap("export", path, tmp_path / "all.arrow")
    assert pa.ipc.open_file(tmp_path / "all.arrow").read_all().num_rows == 1000
    wrong = riprap("export", path, tmp_path / "all.xls")
    assert (wrong.returncode, "end its name with .arrow, .parquet, .csv" in wrong.stderr) == (2, True)


def test_a_stream_of_which_nothing_is_left_is_not_called_sound(tmp_path):
    columns = pa.schema([("_ts", pa.timestamp("us", "UTC")), ("_seq", pa.int64()), ("x", pa.int64())])
    place = tmp_path / "s"
    with PersistentStream.create(place, columns).writer(producer="p", epoch=1) as writer:
        writer.append(pa.record_batch([pa.array([0], columns.types[0]), pa.array([0]), pa.array([1])], schema=columns))
    for name in ("00000000.arrow", "mark"):
        (place / name).unlink()
    said = " ".join(riprap("verify", place).stdout.split())
    assert "0 segments are intact: nothing was ever written to it, or all of it is gone" in said


def test_verify_and_trim(path, tmp_path):
    sound = riprap("verify", path)
    assert (sound.returncode, "20 batches, 1,000 rows" in sound.stdout) == (0, True)
    opened = PersistentStream.open(path)
    victim = path / "00000001.arrow"
    data = victim.read_bytes()
    victim.write_bytes(data[:1500] + bytes([data[1500] ^ 1]) + data[1501:])
    damaged = riprap("verify", path)
    assert damaged.returncode == 1
    assert f"{victim}: byte " in damaged.stdout
    assert "damaged in 1 places" in damaged.stderr
    victim.write_bytes(data)
    opened.register_reader("r", 150)
    assert json.loads(riprap("trim", path, "--before", "500000", "--json").stdout)["rows"] == 100
    assert riprap("trim", path, "--before-position", 500, "--force").stdout.startswith("deleted")
    assert riprap("trim", path).returncode == 2


def test_trim_names_the_run_that_needs_what_it_leaves(path):
    opened = PersistentStream.open(path)
    held = opened.first_position() + 100  # other tests trim the same stream
    opened.register_reader("run-1-S", held, run="/runs/mine")
    told = riprap("trim", path, "--before-position", held + 200).stdout
    assert f"the run in /runs/mine needs the stream from position {held} on" in told
    assert opened.first_position() <= held
    assert "needs" not in riprap("trim", path, "--before-position", held + 200, "--force").stdout
    assert "run-1-S" not in PersistentStream.open(path).readers(), "what was forced away cannot be held"


def test_mistakes_are_one_sentence(tmp_path):
    missing = process("show", tmp_path / "nothing")
    assert missing.returncode == 2
    assert missing.stderr.strip() == f"riprap: no stream at {tmp_path / 'nothing'}: create one, or check the path"
    assert riprap("tail", tmp_path, "--from", "yesterday").returncode == 2


@pytest.mark.parametrize("when", ["²", "--", "9" * 30, "9" * 5_000, "٣٣:٣٣", "-", "-²"])
def test_times_that_are_none(path, when):
    told = riprap("tail", path, f"--from={when}")
    assert told.returncode == 2
    assert "as a time: write microseconds or a text" in told.stderr


def test_a_file_that_is_named_almost_like_a_segment(path, tmp_path):
    shutil.copytree(path, tmp_path / "copy")
    (tmp_path / "copy" / "²²²²²²²².arrow").write_bytes(b"")
    (tmp_path / "copy" / ("9" * 30 + ".arrow")).write_bytes(b"")
    assert riprap("verify", tmp_path / "copy").returncode == 0
    assert riprap("tail", tmp_path / "copy").returncode == 0
