"""`--resume` with another input than the one that was read is refused in a sentence, before anything starts."""

import shutil
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from riprap.api import run as api
from riprap.base.errors import DataError
from riprap.graph.builder import App
from riprap.runtime.element.ledger import ledger_shape, open_ledger
from riprap.streams import PersistentStream

TS = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("_ts", TS), ("_seq", pa.int64()), ("x", pa.int64())])


class Started(Exception):
    """Nothing was in the way of the run."""


def graph():
    app = App("app")
    app.source("In", "x long").filter("x >= 0", name="All").sink("Out")
    return app.build()


def rows(count, first=0, factor=1):
    numbers = np.arange(first, first + count)
    return pa.record_batch([pa.array(numbers * 1000, TS), pa.array(numbers), pa.array(numbers * factor)], schema=SCHEMA)


def write(path, count, factor=1):
    draft = path.with_name("new.parquet")
    pq.write_table(pa.Table.from_batches([rows(count, factor=factor)]), draft, row_group_size=1_000)
    draft.replace(path)


@pytest.fixture(autouse=True)
def no_spark(monkeypatch):
    def session(*arguments, **options):
        raise Started

    monkeypatch.setattr(api, "ready_session", session)


def begun(directory, path, taken=5_000):
    """As a run leaves it that was killed after so many rows."""
    settings = api.RunSettings(app="", graph=graph().fingerprint, inputs={"In": str(path)})
    layout = settings.layout(graph())
    directory.mkdir()
    api.write_settings(directory, settings)
    api._note_inputs(directory, {"In": api._identity(path)})
    [pe] = layout.hosting("In")
    open_ledger(directory / "ledgers" / quote(pe.id, safe=""), 1, ledger_shape(layout, pe)).sources[
        "In"
    ].position = taken


def resumed(directory):
    return api.resume(directory, app=graph())


def test_the_same_file_goes_on(tmp_path):
    write(tmp_path / "in.parquet", 10_000)
    begun(tmp_path / "run", tmp_path / "in.parquet")
    for _ in range(2):
        with pytest.raises(Started):
            resumed(tmp_path / "run")
        write(tmp_path / "in.parquet", 10_000)  # made again, and equal
    write(tmp_path / "in.parquet", 12_000)
    with pytest.raises(Started):
        resumed(tmp_path / "run")
    write(tmp_path / "in.parquet", 10_000)  # what was there the last time is noted
    with pytest.raises(DataError, match="it has 10,000 rows, and had 12,000"):
        resumed(tmp_path / "run")


@pytest.mark.parametrize(
    ("count", "factor", "odd"),
    [(5_000, 1, "it has 5,000 rows, and had 10,000"), (10_000, 3, "row group 0 differs")],
)
def test_another_file_is_refused(tmp_path, count, factor, odd):
    path = tmp_path / "in.parquet"
    write(path, 10_000)
    begun(tmp_path / "run", path)
    write(path, count, factor)
    with pytest.raises(DataError) as refused:
        resumed(tmp_path / "run")
    assert str(refused.value) == (
        f"the input of source In, {path}, is not what this run has read: {odd}; "
        "restore the original input, or start another run with another `out`"
    )


def stream(path, count):
    with PersistentStream.create(path, SCHEMA).writer() as writer:
        writer.append(rows(count))


def test_another_stream_is_refused(tmp_path):
    path = tmp_path / "in"
    stream(path, 1_000)
    begun(tmp_path / "run", path, taken=900)
    with pytest.raises(Started):
        resumed(tmp_path / "run")
    with PersistentStream.open(path).writer() as writer:
        writer.append(rows(500, 1_000))
    with pytest.raises(Started):
        resumed(tmp_path / "run")
    shutil.rmtree(path)
    stream(path, 1_000)
    with pytest.raises(DataError, match="it is another stream; restore"):
        resumed(tmp_path / "run")


def test_a_stream_that_has_less_than_was_read_is_refused(tmp_path):
    path = tmp_path / "in"
    stream(path, 1_000)
    begun(tmp_path / "run", path, taken=1_400)
    with pytest.raises(DataError, match="it has 1,000 rows, and 1,400 were read"):
        resumed(tmp_path / "run")


def test_a_file_in_the_place_of_a_stream_is_refused(tmp_path):
    path = tmp_path / "in.parquet"
    stream(path, 1_000)
    begun(tmp_path / "run", path)
    shutil.rmtree(path)
    write(path, 10_000)
    with pytest.raises(DataError, match="it was a stream"):
        resumed(tmp_path / "run")
