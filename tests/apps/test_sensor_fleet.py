"""The sensor fleet gives what DuckDB gives for the same queries, row by row and bit by bit."""

import pyarrow as pa
import pytest

from benchmarks import sensor_peers as peers
from riprap.apps import sensors
from riprap.apps.catalogue import load_app
from riprap.base.errors import UsageError
from riprap.engine.engine import Engine

TUPLES = 4_000


@pytest.fixture(scope="module")
def table():
    return sensors.generate(TUPLES, seed=3, sensors=40)  # eight minutes


def given(table, rows):
    found = {"Summaries": [], "Alerts": []}
    engine = Engine(load_app("sensor-fleet"))
    for output in engine.run({"Source": table.combine_chunks().to_batches(max_chunksize=rows)}):
        found[output.name].append(output.event)
    summaries, alerts = (pa.Table.from_batches(parts) for parts in found.values())
    return peers.Answer(summaries.append_column("minute", summaries["_ts"].cast(pa.int64())), alerts)


@pytest.mark.parametrize("rows", [TUPLES, 97])
def test_rows_are_duckdbs(table, rows):
    expected = peers.in_order(peers.duckdb_query(peers.duckdb_connection(table)))
    assert all(len(each) > 3 for each in expected)
    assert peers.in_order(given(table, rows)) == expected


def test_readings(table):
    assert table.schema == sensors.SCHEMA
    assert table == sensors.generate(TUPLES, seed=3, sensors=40)
    assert table != sensors.generate(TUPLES, seed=4, sensors=40)
    times = table["_ts"].cast(pa.int64()).to_numpy()
    assert (times[1:] > times[:-1]).all()
    assert 0.01 < table["value"].null_count / TUPLES < 0.03
    assert 0.8 < table["status"].null_count / TUPLES < 0.95
    with pytest.raises(UsageError, match="at least 1"):
        sensors.generate(0, seed=1)
    with pytest.raises(UsageError, match="cannot be polled"):
        sensors.generate(1, seed=1, sensors=0)
