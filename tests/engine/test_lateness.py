"""Input whose times fall is sorted within a bound, as the obvious reference does it; what is later is counted."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.base.errors import DataError, GraphError
from riprap.engine.engine import Engine
from riprap.engine.input_check import check_input
from riprap.engine.inputs import keyed, late_rows
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.runtime.feed import Feed
from riprap.streams import PersistentStream

times = st.lists(st.integers(0, 40), max_size=60)


def app(lateness: int) -> Graph:
    made = App("late")
    made.source("In", "at long, text string", time="at", lateness=f"{lateness}us").sink("Out")
    return made.build()


def expected(values: list[int], lateness: int) -> tuple[list[tuple[int, str]], int]:
    """Rows that are not late, by time and then as they came; and how many are late."""
    kept, greatest = [], None
    for number, value in enumerate(values):
        greatest = value if greatest is None else max(greatest, value)
        if value >= greatest - lateness:
            kept.append((value, f"row {number}"))
    return sorted(kept, key=lambda row: row[0]), len(values) - len(kept)


def table(values: list[int]) -> pa.Table:
    return pa.table({"at": pa.array(values, pa.int64()), "text": [f"row {number}" for number in range(len(values))]})


def rows(batches) -> list[tuple[int, str]]:
    return [(row["at"], row["text"]) for batch in batches for row in batch.to_pylist()]


@settings(max_examples=100)
@given(times, st.integers(0, 20), st.integers(1, 9))
def test_sorts_within_the_bound(values, lateness, size):
    source = app(lateness).sources[0]
    found = list(keyed(table(values).to_batches(max_chunksize=size), source))
    assert rows(found) == expected(values, lateness)[0]
    numbers = [row["_seq"] for batch in found for row in batch.to_pylist()]
    assert numbers == list(range(len(numbers)))
    assert all(row["_ts"].timestamp() * 1e6 == pytest.approx(row["at"]) for batch in found for row in batch.to_pylist())


@settings(max_examples=20)
@given(times.filter(bool), st.integers(0, 20), st.integers(1, 9), st.data())
def test_a_feed_goes_on_from_any_position(tmp_path_factory, values, lateness, size, data):
    graph = app(lateness)
    source, path = graph.sources[0], tmp_path_factory.mktemp("late") / "in.parquet"
    pq.write_table(table(values), path, row_group_size=size)
    check_input(path, source)
    wanted, late = expected(values, lateness)
    position = data.draw(st.integers(0, len(wanted)))
    feed = Feed(path, source, None, position)
    found = []
    while (batch := feed.next(3)) is not None:
        found.append(batch)
        assert feed.position == position + len(rows(found))
    assert feed.ended
    assert rows(found) == wanted[position:]
    assert feed.late == late == late_rows(path, source)
    assert [n for batch in found for n in batch.column("_seq").to_pylist()] == list(range(position, len(wanted)))


def test_a_stream_that_is_followed_keeps_what_may_still_be_overtaken(tmp_path):
    source = app(10).sources[0]
    moments = pa.array([5, 20, 12, 9, 30], pa.timestamp("us", "UTC"))
    rows_ = (
        table([5, 20, 12, 9, 30]).append_column("_ts", moments).append_column("_seq", pa.array(range(5), pa.int64()))
    )
    written = rows_.combine_chunks().to_batches()[0]
    stream = PersistentStream.create(tmp_path / "stream", written.schema, stability="async", ordered=False)
    with stream.writer() as writer:
        writer.append(written.slice(0, 4))
        writer.flush()
        feed = Feed(tmp_path / "stream", source, follow=True)
        assert rows([feed.next(10)]) == [(5, "row 0")]  # 9 is late; 12 and 20 may be overtaken
        assert feed.next(10) is None
        assert not feed.ended
        writer.append(written.slice(4))
        writer.mark(None, kind="end")
    found = []
    while (batch := feed.next(10)) is not None:
        found.append(batch)
    assert feed.ended
    assert rows(found) == [(12, "row 2"), (20, "row 1"), (30, "row 4")]
    assert feed.late == 1


def test_an_app_runs_over_it(tmp_path):
    graph = app(10)
    pq.write_table(table([5, 20, 12, 9, 30]), tmp_path / "in.parquet")
    outputs = Engine(graph).run({"In": keyed(table([5, 20, 12, 9, 30]).to_batches(), graph.sources[0])})
    assert [n for _, batch in outputs for n in batch.column("at").to_pylist()] == [5, 12, 20, 30]
    assert graph["In"].describe() == "in order, up to 10us late"


def test_what_cannot_be():
    with pytest.raises(GraphError, match="operator In: a source with a lateness sorts its whole input"):
        App("late").source("In", "at long", time="at", lateness="5s", parallelism=2)
    with pytest.raises(Exception, match="soon"):
        App("late").source("In", "at long", time="at", lateness="soon")
    source = app(5).sources[0]
    with pytest.raises(DataError, match="its time column at has nulls"):
        list(keyed([pa.record_batch({"at": pa.array([1, None], pa.int64()), "text": ["a", "b"]})], source))
