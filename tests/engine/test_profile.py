"""The profile of an app: what is told of loops adds up to what is told of their operators."""

import itertools
import tomllib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from riprap.api.profile import profile as profile_app
from riprap.apps import market
from riprap.apps.catalogue import load_app
from riprap.base.errors import DataError, UsageError
from riprap.engine.profile import profile, write_profile
from riprap.graph.builder import App
from riprap.graph.windows import session_window


class Ticking:
    """A second passes whenever somebody looks."""

    def __init__(self) -> None:
        self._now = itertools.count()

    def monotonic(self) -> float:
        return float(next(self._now))


def test_a_loop_is_timed_inside_and_at_its_edges():
    batches = market.generate(3_000, seed=1).combine_chunks().to_batches(max_chunksize=1_000)
    result = profile(load_app("bargain-discovery"), {"Source": batches}, clock=Ticking())
    (piece,) = result.pieces
    assert piece.operators == tuple(load_app("bargain-discovery").order)
    assert (piece.tuples, piece.batches) == (3_000, 3)
    inside = piece.seconds_per_tuple * piece.tuples  # one look before a call and one behind it: a second a call
    assert inside >= 3
    # Between two calls one as well, and one more for each batch and for the end.
    assert piece.seconds_per_batch * piece.batches == pytest.approx(inside + 4)
    operators = result.operators.values()
    assert sum(row.seconds_per_tuple * sum(row.tuples_in) for row in operators) == pytest.approx(inside)
    assert piece.seconds_per_tuple * 3_000 + piece.seconds_per_batch * 3 <= result.taken
    written = tomllib.loads(write_profile(result))
    assert written["pieces"][0]["operators"] == list(piece.operators)
    assert written["operators"]["VWAP"]["tuples_in"] == list(result.operators["VWAP"].tuples_in)


def test_from_python_as_from_the_command_line(tmp_path):
    table = market.generate(2_000, seed=1)
    pq.write_table(table, tmp_path / "market.parquet")
    found = profile_app("bargain-discovery", {"Source": tmp_path / "market.parquet"})
    expected = profile(load_app("bargain-discovery"), {"Source": table.combine_chunks().to_batches()})
    assert {name: row.tuples_in for name, row in found.operators.items()} == {
        name: row.tuples_in for name, row in expected.operators.items()
    }
    with pytest.raises(UsageError, match="no input for source Source"):
        profile_app("bargain-discovery", {"Other": tmp_path / "market.parquet"})
    with pytest.raises(DataError, match="does not exist"):
        profile_app("bargain-discovery", {"Source": tmp_path / "none.parquet"})


def test_the_flush_at_the_end_is_no_time_of_the_data():
    """What the end closes is emitted later than anything came, and is in the state until then."""
    app = App("sessions")
    source = app.source("S", "k string, x long")
    source.aggregate("count(*) AS n", window=session_window("10m"), by="k", name="Sessions").sink("Out")
    size = 1_200
    rows = {
        "k": pa.array(["a", "b"] * (size // 2)),
        "x": pa.array(range(size)),
        "_ts": pa.array([second * 1_000_000 for second in range(size)], pa.timestamp("us", "UTC")),
        "_seq": pa.array(range(size)),
    }
    given = pa.record_batch(rows)
    graph = app.build()
    found = profile(graph, {"S": [given]})
    assert found.seconds == 1_199
    assert found.operators["S"].mean_rate == found.operators["Sessions"].mean_rate == (size / 1_199,)
    assert found.operators["Sessions"].tuples_out == (2,)
    assert found.operators["Sessions"].state_tuples > 0
    one = profile(graph, {"S": [given.slice(0, 1)]})
    assert one.operators["S"].mean_rate == (1.0,)
