"""The benchmark peers answer alike, so that the ratios compare the same work."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import bargain_peers as peers
from riprap.apps import market

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def table():
    return market.generate(60_000, seed=3)


def reference(table) -> tuple[int, float]:
    """Tuple by tuple, as plainly as it can be said."""
    recent: dict[str, list[tuple[float, int]]] = {}
    bargains, gain = 0, 0.0
    for row in table.select(["ticker", "type", "price", "size"]).to_pylist():
        trades = recent.setdefault(row["ticker"], [])
        if row["type"] == "TRADE":
            trades.append((row["price"], row["size"]))
            del trades[:-5]
        elif trades:
            average = sum(price * size for price, size in trades) / sum(size for _, size in trades)
            if average > row["price"]:
                bargains += 1
                gain += row["size"] * (average - row["price"])
    return bargains, gain


def assert_equal(answer: peers.Answer, expected: tuple[int, float]) -> None:
    assert answer.bargains == expected[0] > 0
    assert answer.gain == pytest.approx(expected[1], rel=1e-9)


def test_fused_loop(table):
    answer, positions, gains = peers.fused_loop(peers.coded(table))
    assert_equal(answer, reference(table))
    assert len(positions) == len(gains) == answer.bargains
    assert (gains > 0).all()
    assert set(table["type"].take(positions).to_pylist()) == {"QUOTE"}


def test_duckdb(table):
    assert_equal(peers.duckdb_query(peers.duckdb_connection(table)), reference(table))


def test_polars(table):
    """In a process of its own: Polars reads its thread count once, when it is first imported."""
    code = (
        "from benchmarks import bargain_peers as peers; from riprap.apps import market;"
        "print(*peers.polars_query(peers.polars_frame(market.generate(60_000, seed=3))))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT, env={**os.environ, "POLARS_MAX_THREADS": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    bargains, gain = ran.stdout.split()
    assert_equal(peers.Answer(int(bargains), float(gain)), reference(table))


def test_spark(spark, table, tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(table, tmp_path / "ticks.parquet")
    assert_equal(peers.spark_query(peers.spark_view(spark, str(tmp_path / "ticks.parquet"))), reference(table))


def test_polars_with_more_threads_is_refused(table, monkeypatch):
    monkeypatch.delenv("POLARS_MAX_THREADS", raising=False)
    with pytest.raises(RuntimeError, match="POLARS_MAX_THREADS"):
        peers.polars_frame(table)
