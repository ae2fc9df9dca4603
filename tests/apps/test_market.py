"""Market data: the schema, the published statistics for several seeds and sizes, and the command that writes it."""

import inspect
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from riprap.apps import market, market_files
from riprap.apps.market_statistics import statistics
from riprap.base.errors import DataError, UsageError
from riprap.cli import data
from riprap.cli.main import app


@pytest.fixture(scope="module")
def table():
    return market.generate(500_000, seed=market.DEFAULT_SEED)


def test_schema_and_order(table):
    table.validate(full=True)
    assert table.schema == market.SCHEMA
    assert table["_seq"].to_pylist()[:3] == [0, 1, 2]
    assert (np.diff(table["_seq"].to_numpy()) == 1).all()
    times = table["_ts"].cast(pa.int64()).to_numpy()
    assert (np.diff(times) >= 0).all()
    assert all(table[name].null_count == 0 for name in ("ticker", "exchange", "type", "price", "size", "_ts", "_seq"))
    assert table["ticker"].num_chunks == 1
    assert len(set(table["ticker"].chunk(0).dictionary.to_pylist())) == market.SYMBOLS


def test_prices_are_cents_and_sizes_round_lots(table):
    for name in ("price", "bid_price"):
        prices = table[name].drop_null().to_numpy()
        assert (prices == np.rint(prices * 100) / 100).all()
        assert prices.min() >= 0.01
    for name in ("size", "bid_size"):
        sizes = table[name].drop_null().to_numpy()
        assert (sizes % 100 == 0).all()
        assert sizes.min() >= 100


def test_quotes_have_a_bid_below_the_ask_and_trades_have_none(table):
    quotes = table.filter(pc.equal(table["type"], "QUOTE"))
    trades = table.filter(pc.equal(table["type"], "TRADE"))
    assert quotes["bid_price"].null_count == quotes["bid_size"].null_count == 0
    assert trades["bid_price"].null_count == trades["bid_size"].null_count == len(trades)
    assert pc.all(pc.less(quotes["bid_price"], quotes["price"])).as_py()


def test_a_ticker_keeps_its_exchange(table):
    assert len(table.group_by(["ticker", "exchange"]).aggregate([])) == len(table.group_by("ticker").aggregate([]))


@pytest.mark.parametrize(("tuples", "seed"), [(500_000, 1), (500_000, 2), (1_000_000, 3), (1_500_000, 4)])
def test_published_statistics(tuples, seed):
    figures = statistics(market.generate(tuples, seed))
    assert figures.quote_share == pytest.approx(0.80, abs=0.001)
    assert figures.mean_rate == pytest.approx(500, rel=0.001)
    assert figures.peak_rate == pytest.approx(2_200, abs=2)
    assert figures.bargain_share == pytest.approx(0.182, abs=0.001)
    assert figures.mean_size == pytest.approx(400, rel=0.01)
    assert figures.activity_sigma == pytest.approx(1.6, abs=0.1)
    assert figures.volatility == pytest.approx(1.3e-4, rel=0.15)
    assert figures.dispersion > 50, "bursty, not Poisson"


def test_nothing_but_the_published_statistics_ties_the_parts_together(table):
    """Trades come as quotes do, and what a symbol costs does not depend on how active it is."""
    trade = np.array(table["type"].to_pylist()) == "TRADE"
    second = (table["_ts"].cast(pa.int64()).to_numpy() - market.OPEN_US) // 1_000_000
    busy = np.bincount(second)
    calm = busy[second] < np.median(busy)
    assert trade[calm].mean() == pytest.approx(trade[~calm].mean(), abs=0.01)
    first = table.group_by("ticker", use_threads=False).aggregate([("price", "first"), ("price", "count")])
    counts, prices = (np.log(first[name].to_numpy()) for name in ("price_count", "price_first"))
    assert abs(np.corrcoef(counts, prices)[0, 1]) < 0.1


def test_active_symbols_are_tight(table):
    quotes = table.filter(pc.equal(table["type"], "QUOTE"))
    quotes = quotes.append_column(
        "spread", pc.divide(pc.subtract(quotes["price"], quotes["bid_price"]), quotes["price"])
    )
    grouped = quotes.group_by("ticker").aggregate([("spread", "mean"), ("spread", "count")])
    counts, spreads = grouped["spread_count"].to_numpy(), grouped["spread_mean"].to_numpy()
    order = np.argsort(counts)
    assert spreads[order[-300:]].mean() < spreads[order[300:600]].mean() / 5


def test_no_ask_is_so_near_the_average_that_the_order_of_a_sum_decides(table):
    """Averages in exact arithmetic (worths in cents are integers): no ask equals the average it meets."""
    recent: dict[int, list[tuple[int, int]]] = {}
    cents = np.rint(table["price"].to_numpy() * 100).astype(np.int64).tolist()
    codes, sizes = table["ticker"].chunk(0).indices.to_pylist(), table["size"].to_pylist()
    for code, kind, price, size in zip(codes, table["type"].to_pylist(), cents, sizes, strict=True):
        trades = recent.setdefault(code, [])
        if kind == "TRADE":
            trades.append((price * size, size))
            del trades[:-5]
        elif trades:
            assert sum(worth for worth, _ in trades) != price * sum(volume for _, volume in trades)


def test_equal_seeds_give_equal_data():
    one, other = market.generate(20_000, 5), market.generate(20_000, 5)
    assert one.equals(other)
    assert not one.equals(market.generate(20_000, 6))


def test_zipf_activity():
    table = market.generate(200_000, 1, symbols=100, zipf=1.0)
    counts = np.sort(table["ticker"].value_counts().field("counts").to_numpy())[::-1]
    assert len(counts) == 100
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.1)


@given(tuples=st.integers(1, 3_000), symbols=st.integers(1, 40), seed=st.integers(0, 5))
@settings(max_examples=40)
def test_any_size_is_valid(tuples, symbols, seed):
    table = market.generate(tuples, seed, symbols=symbols)
    table.validate(full=True)
    assert table.num_rows == statistics(table).tuples == tuples
    assert (np.diff(table["_ts"].cast(pa.int64()).to_numpy()) >= 0).all()


@pytest.mark.parametrize("options", [{"tuples": 0}, {"symbols": 0}, {"symbols": 10**9}, {"zipf": -1.0}])
def test_bad_arguments_are_refused(options):
    with pytest.raises(UsageError):
        market.generate(**{"tuples": 10, "seed": 1, **options})


def test_statistics_refuse_other_tables(table):
    with pytest.raises(DataError, match="lacks bid_price"):
        statistics(table.drop_columns(["bid_price"]))
    with pytest.raises(DataError, match="no tuples"):
        statistics(table.slice(0, 0))


@pytest.mark.parametrize("format", market_files.FORMATS)
def test_files_come_back_as_they_were(tmp_path, table, format):
    path = tmp_path / f"market.{format}"
    market_files.write(table, path)
    if format == "parquet":
        back = pq.read_table(path)
        assert pq.ParquetFile(path).num_row_groups == 2
    else:
        with pa.memory_map(str(path)) as source:
            back = pa.ipc.open_file(source).read_all()
    assert back.schema == market.SCHEMA
    assert back.equals(table)
    assert statistics(back) == statistics(table)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def run(*arguments: object):
    return CliRunner().invoke(app, ["data", "market", *map(str, arguments)])


def test_command_and_library_have_the_same_defaults():
    defaults = {name: option.default for name, option in inspect.signature(data.market).parameters.items()}
    assert (defaults["seed"], defaults["symbols"]) == (market.DEFAULT_SEED, market.SYMBOLS)


def test_command_writes_and_prints(tmp_path):
    path = tmp_path / "market.arrow"
    result = run("--tuples", 2_000, "--symbols", 20, "--out", path, "--stats", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["tuples"] == 2_000
    assert path.exists()
    assert "bargains" in run("--tuples", 2_000, "--stats").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to do"),
        (["--out", "{dir}/market.csv"], "cannot tell the format"),
        (["--out", "{dir}/market", "--format", "arow"], "did you mean arrow"),
        (["--out", "{dir}/none/market.arrow"], "does not exist"),
        (["--out", "{dir}", "--format", "arrow"], "is a directory"),
        (["--out", "{dir}/there.parquet"], "exists already"),
        (["--stats", "--tuples", "0"], "at least 1"),
        (["--stats", "--symbols", "0"], "1 to"),
        (["--stats", "--zipf", "99"], "Zipf exponent"),
        (["--json", "--out", "{dir}/market.arrow"], "--stats"),
    ],
)
def test_bad_arguments_get_one_sentence(tmp_path, arguments, message):
    (tmp_path / "there.parquet").write_bytes(b"precious")
    result = run(*(argument.format(dir=tmp_path) for argument in arguments))
    assert isinstance(result.exception, UsageError)
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)
    assert (tmp_path / "there.parquet").read_bytes() == b"precious"


def test_overwrite(tmp_path):
    path = tmp_path / "market.parquet"
    path.write_bytes(b"old")
    assert run("--tuples", 1_000, "--out", path, "--overwrite").exit_code == 0
    assert pq.read_table(path).num_rows == 1_000
