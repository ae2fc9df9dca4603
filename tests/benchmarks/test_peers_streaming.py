"""The peers on Structured Streaming find the bargains that the app finds, over several micro-batches."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks import peers_streaming as peers
from riprap.apps import market, market_files
from riprap.apps.catalogue import load_app
from riprap.spark.bounded import run_bounded

TICKERS = 60  # what costs time is a key in a micro-batch


@pytest.fixture(scope="module")
def expected(spark, tmp_path_factory):
    table = market.generate(60_000, seed=5)
    counts = pc.value_counts(table["ticker"].cast("string")).to_pylist()
    busiest = sorted(counts, key=lambda item: -item["counts"])[:TICKERS]
    table = table.filter(pc.is_in(table["ticker"].cast("string"), pa.array([item["values"] for item in busiest])))
    path = tmp_path_factory.mktemp("market") / "market.parquet"
    market_files.write(table, path)
    rows = run_bounded(load_app("bargain-discovery"), path, spark=spark)["Sink"].toPandas()
    return table, rows.sort_values("_seq").reset_index(drop=True)


@pytest.mark.parametrize(
    ("form", "bargains"),
    [
        (peers.arrow, peers.arrow_bargains),
        pytest.param(peers.per_key, peers.per_key_bargains, marks=pytest.mark.soak),
    ],
)
def test_same_bargains(spark, tmp_path, expected, form, bargains):
    table, wanted = expected
    peers.write_ticks(table, tmp_path / "ticks", len(table) // 3 + 1)
    own = peers.streaming_session(spark)
    form(own, tmp_path / "ticks", tmp_path / "out").awaitTermination()
    got = bargains(own, tmp_path / "out").toPandas().sort_values("seq").reset_index(drop=True)
    assert len(wanted) > 300
    assert got["seq"].tolist() == wanted["_seq"].tolist()
    for name in ("ticker", "ask_price", "ask_size"):
        assert got[name].tolist() == wanted[name].tolist(), name
    for name in ("vwap", "gain"):
        assert got[name].tolist() == pytest.approx(wanted[name].tolist(), rel=1e-9), name


def test_rates_are_of_the_micro_batches_behind_the_warm_up(spark):
    table = market.generate(3_000, seed=5)
    assert peers.tuples_per_second_per_core(spark, peers.arrow, table, 1_000) > 0
