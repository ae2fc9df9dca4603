"""The oracle finds what was done to rows, whatever it was."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.proof.oracle import SinkRows, compare, difference, found_rows
from riprap.streams import OrderKey, PersistentStream

TS = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("price", pa.float64()), ("name", pa.string()), ("_ts", TS), ("_seq", pa.int64())])


def rows(count: int, first: int = 0) -> pa.Table:
    seq = np.arange(first, first + count)
    price = [None if s % 7 == 3 else float("nan") if s % 5 == 1 else s * 0.5 for s in seq]
    names = [None if s % 4 == 2 else f"n{s % 3}" for s in seq]
    columns = [pa.array(price, pa.float64()), pa.array(names), pa.array(seq // 3, TS), pa.array(seq)]
    return pa.table(columns, schema=SCHEMA)


def picked(table: pa.Table, at: list[int]) -> pa.Table:
    return table.take(pa.array(at, pa.int64()))


@given(
    count=st.integers(0, 30),
    lost=st.sets(st.integers(0, 29)),
    doubled=st.lists(st.integers(0, 29), max_size=5),
    strange=st.integers(0, 3),
)
def test_counts_what_was_done(count, lost, doubled, strange):
    lost = {at for at in lost if at < count}
    kept = [at for at in range(count) if at not in lost]
    doubled = [at for at in doubled if at in kept]
    expected = rows(count)
    found = pa.concat_tables([picked(expected, sorted([*kept, *doubled])), rows(strange, first=1000)])
    verdict = compare(expected, found)
    assert (verdict.lost, verdict.doubled, verdict.wrong) == (len(lost), len(doubled), strange)
    assert verdict.ordered == (not doubled)
    differing = difference(expected, SinkRows(found))[1]
    assert (len(differing.lost), len(differing.wrong)) == (len(lost), strange)
    assert verdict.exact == (not lost and not doubled and not strange)


@pytest.mark.parametrize("column", ["price", "name"])
@pytest.mark.parametrize("row", range(8))
def test_another_value_is_wrong(column, row):
    expected = rows(8)
    values = expected.column(column).to_pylist()
    values[row] = (-1.0 if values[row] != -1.0 else 1.0) if column == "price" else "other"
    found = expected.set_column(
        SCHEMA.get_field_index(column), SCHEMA.field(column), pa.array(values, SCHEMA.field(column).type)
    )
    assert compare(expected, found).wrong == 1


def test_null_is_not_a_value():
    expected = rows(4)
    values = [None, *expected.column("price").to_pylist()[1:]]
    found = expected.set_column(0, SCHEMA.field("price"), pa.array(values, pa.float64()))
    assert compare(expected, found).wrong == 1
    assert compare(found, expected).wrong == 1


def test_order_is_of_the_whole_key():
    expected = rows(6)
    assert compare(expected, picked(expected, [0, 1, 2, 3, 4, 5])).ordered
    verdict = compare(expected, picked(expected, [0, 1, 3, 2, 4, 5]))  # `_seq` falls where `_ts` rises
    assert not verdict.ordered
    assert (verdict.lost, verdict.doubled, verdict.wrong) == (0, 0, 0)


def test_reads_streams_as_they_lie_on_disk(tmp_path):
    """Over several segments, an open one among them, with marks between the rows and garbage behind them."""
    stream = PersistentStream.create(tmp_path / "sink", SCHEMA)
    table = rows(20)
    with stream.writer() as writer:
        for at in range(0, 20, 4):
            writer.append(table.slice(at, 4).combine_chunks().to_batches()[0], record=b"a record")
            writer.mark(OrderKey(at, 0, at, 0), kind="progress")
            if at == 8:
                writer.finish_segment()
    newest = sorted((tmp_path / "sink").glob("*.arrow"))[-1]
    newest.write_bytes(newest.read_bytes() + b"\xff\xff\xff\xff\x40\x00\x00\x00 torn")
    assert compare(table, found_rows(tmp_path / "sink", SCHEMA).rows).exact


def test_a_sink_that_nothing_came_to_has_lost_everything(tmp_path):
    found = found_rows(tmp_path / "never", SCHEMA)
    verdict, _ = difference(rows(5), found)
    assert (verdict.found, verdict.lost, verdict.ordered) == (0, 5, True)


def test_shards_are_in_order_each_for_itself(tmp_path):
    """Rows of a sink with three shards, one of them empty; a shard out of order is found out all the same."""
    table = rows(20)
    parts = [picked(table, list(range(0, 20, 2))), table.slice(0, 0), picked(table, list(range(1, 20, 2)))]
    for shard, part in enumerate(parts):
        with PersistentStream.create(tmp_path / "sink" / str(shard), SCHEMA).writer() as writer:
            for batch in part.combine_chunks().to_batches():
                writer.append(batch)
    found = found_rows(tmp_path / "sink", SCHEMA)
    assert found.begins == (10, 10)
    assert difference(table, found)[0].exact
    swapped = picked(found.rows, [*range(12), 13, 12, *range(14, 20)])
    assert not difference(table, SinkRows(swapped, found.begins))[0].ordered


def test_says_when_what_differs_was_due():
    expected = rows(9)
    found = picked(expected, [0, 1, 2, 3, 4, 5, 7, 8])
    price = found.column("price").to_pylist()
    found = found.set_column(0, SCHEMA.field("price"), pa.array([-5.0, *price[1:]], pa.float64()))
    _, differing = difference(expected, SinkRows(found))
    assert (differing.lost.tolist(), differing.wrong.tolist()) == ([2], [0])
