"""Statistics of market data: the figures of the published data set, and those of its burstiness."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from riprap.apps.market import SCHEMA
from riprap.apps.market_kernels import met_averages
from riprap.base.errors import DataError

_VOLATILITY_STEP_US = 120_000_000  # long enough that rounding to cents does not count as movement
_VOLATILITY_STEPS = 5  # fewer are too few to estimate the volatility of a symbol


@dataclass(frozen=True)
class MarketStatistics:
    """Figures of one stream. A second is a second of the clock, from the first tuple's to the last one's."""

    tuples: int
    seconds: int
    symbols: int  # that occur
    quote_share: float  # of the tuples
    mean_rate: float  # tuples/s
    peak_rate: int  # tuples in the busiest second
    trade_peak_rate: int  # trades in the second that has most of them
    dispersion: float  # variance of the tuples in a second over their mean: 1 for a Poisson stream
    bargain_share: float  # of the quotes: those that BargainIndex lets through
    mean_size: float  # shares, of trades and asks
    median_spread: float  # ask over bid, relative to the middle, of a quote
    activity_sigma: float  # standard deviation, over the symbols, of the logarithm of their tuples
    volatility: float  # of the logarithm of the middle, per √s, median over the symbols; NaN if too short


def statistics(table: pa.Table) -> MarketStatistics:
    """The figures of `table`, which has the columns of `SCHEMA` in stream order and at least one row."""
    missing = [name for name in SCHEMA.names if name not in table.column_names]
    if missing or not table.num_rows:
        raise DataError(
            f"this is not market data: it lacks {', '.join(missing)}; `riprap data market` writes what is expected"
            if missing
            else "the market data has no tuples, and statistics need at least one"
        )
    table = table.unify_dictionaries().combine_chunks()
    ticker = table["ticker"].chunk(0)
    codes, symbols = ticker.indices.to_numpy(), len(ticker.dictionary)
    is_trade = pc.equal(table["type"], "TRADE").to_numpy()
    prices, sizes = table["price"].to_numpy(), table["size"].to_numpy()
    times = table["_ts"].cast(pa.int64()).to_numpy()
    bids = table["bid_price"].to_numpy()

    clock = times // 1_000_000 - times[0] // 1_000_000
    per_second = np.bincount(clock)
    per_symbol = np.bincount(codes, minlength=symbols)
    averages = met_averages(codes, is_trade, prices, sizes, symbols)
    quotes = ~is_trade
    middles = (prices + bids) / 2.0
    squares, elapsed, steps = _movements(codes, quotes, middles, times, symbols)
    moved = steps >= _VOLATILITY_STEPS
    return MarketStatistics(
        tuples=table.num_rows,
        seconds=len(per_second),
        symbols=int(np.count_nonzero(per_symbol)),
        quote_share=float(quotes.mean()),
        mean_rate=float(per_second.mean()),
        peak_rate=int(per_second.max()),
        trade_peak_rate=int(np.bincount(clock[is_trade], minlength=1).max()),
        dispersion=float(per_second.var() / per_second.mean()),
        bargain_share=float((averages > prices).sum() / max(quotes.sum(), 1)),
        mean_size=float(sizes.mean()),
        median_spread=float(np.median((prices - bids)[quotes] / middles[quotes])) if quotes.any() else float("nan"),
        activity_sigma=float(np.log(per_symbol[per_symbol > 0]).std()),
        volatility=float(np.median(np.sqrt(squares[moved] / elapsed[moved]))) if moved.any() else float("nan"),
    )


@njit(cache=True, nogil=True)
def _movements(
    codes: np.ndarray, quotes: np.ndarray, middles: np.ndarray, times_us: np.ndarray, symbols: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per symbol: the squared logarithmic price steps, the seconds and the number of steps they were taken over."""
    squares = np.zeros(symbols)
    elapsed = np.zeros(symbols)
    steps = np.zeros(symbols, np.int64)
    since = np.full(symbols, -1, np.int64)
    reference = np.zeros(symbols)
    for i in range(len(codes)):
        if not quotes[i]:
            continue
        symbol = codes[i]
        if since[symbol] >= 0:
            if times_us[i] - since[symbol] < _VOLATILITY_STEP_US:
                continue
            squares[symbol] += np.log(middles[i] / reference[symbol]) ** 2
            elapsed[symbol] += (times_us[i] - since[symbol]) * 1e-6
            steps[symbol] += 1
        since[symbol] = times_us[i]
        reference[symbol] = middles[i]
    return squares, elapsed, steps
