"""Generated market data for Bargain Discovery: trades and quotes with the statistics of the published data set.

Published: 3,099 symbols, four quotes to a trade, 500 tuples/s on average and 2,200 at the peak, and Bargain Discovery
finds 18.2 % of the quotes to be bargains. `docs/papers/market-data.md` explains the model.

Equal arguments give equal data (with the same libraries on the same kind of processor: elsewhere an exponential may
differ in its last bit, and rarely a price by a cent). Every quantity has its own random generator, so that a change to
one leaves the others unchanged.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from scipy.special import ndtri

from riprap.apps import market_kernels as kernels
from riprap.base.errors import UsageError
from riprap.base.randomness import generator

DEFAULT_SEED = 2
SYMBOLS = 3_099
QUOTE_SHARE = 0.8
MEAN_RATE = 500.0  # tuples/s over the whole stream
PEAK_RATE = 2_200.0  # tuples in the busiest second of the clock
BARGAIN_SHARE = 0.182  # of the quotes
ACTIVITY_SIGMA = 1.6  # of the logarithm of a symbol's share of the tuples
VOLATILITY = 1.3e-4  # of the logarithm of the mid price, median over the symbols, per √s
VOLATILITY_SIGMA = 0.15  # of its logarithm
OPENING_PRICE = 30.0  # dollars, median over the symbols
PRICE_SIGMA = 0.5  # of its logarithm
BURST_SECONDS = 60.0  # correlation time of the rate
LOT = 100  # shares
MEAN_LOTS = 4
OPEN_US = 1_133_447_400_000_000  # 2005-12-01 14:30 UTC, when New York opens
MAX_SYMBOLS = 26**4

EXCHANGES = ("NYSE", "NASDAQ", "AMEX")
EXCHANGE_SHARES = (0.5, 0.4, 0.1)  # of the symbols
TYPES = ("TRADE", "QUOTE")

SCHEMA = pa.schema(
    [
        pa.field("ticker", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("exchange", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("type", pa.dictionary(pa.int32(), pa.string()), nullable=False),  # TRADE or QUOTE
        pa.field("price", pa.float64(), nullable=False),  # dollars to the cent: of a trade, or asked by a quote
        pa.field("size", pa.int64(), nullable=False),  # shares in round lots: traded, or asked
        pa.field("bid_price", pa.float64()),  # dollars to the cent, below the ask; null on trades
        pa.field("bid_size", pa.int64()),  # shares in round lots; null on trades
        pa.field("_ts", pa.timestamp("us", "UTC"), nullable=False),  # never falls
        pa.field("_seq", pa.int64(), nullable=False),  # 0, 1, 2, …
    ]
)


@dataclass(frozen=True)
class Listing:
    """The constant properties of symbols; arrays with one entry per symbol."""

    tickers: list[str]
    exchanges: np.ndarray  # codes into EXCHANGES
    activity: np.ndarray  # share of the tuples; sums to 1
    opening: np.ndarray  # dollars
    volatility: np.ndarray  # of the logarithm of the mid price, per √s
    unit_spread: np.ndarray  # ask over mid, relative, before the common scale factor


def generate(tuples: int, seed: int, *, symbols: int = SYMBOLS, zipf: float | None = None) -> pa.Table:
    """`tuples` rows of `SCHEMA` in stream order, in one chunk; `zipf` replaces log-normal activity by Zipf's law."""
    if tuples < 1:
        raise UsageError(f"a stream of {tuples} tuples cannot be generated: ask for at least 1")
    if not 1 <= symbols <= MAX_SYMBOLS:
        raise UsageError(f"{symbols} symbols cannot be listed: ask for 1 to {MAX_SYMBOLS:,}")
    if zipf is not None and not 0 <= zipf <= 10:
        raise UsageError(f"a Zipf exponent of {zipf:g} is out of range: give one from 0 to 10")
    listing = _listing(seed, symbols, zipf)
    counts = _tuples_per_second(tuples, seed)
    times = kernels.arrival_times(
        counts, generator(seed, "market", "gaps").standard_gamma(0.5, tuples + len(counts)), OPEN_US
    )
    is_trade = np.zeros(tuples, np.bool_)
    trades = round(tuples * (1.0 - QUOTE_SHARE))
    is_trade[generator(seed, "market", "type").choice(tuples, trades, replace=False)] = True
    codes = _symbols_of_tuples(tuples, seed, listing.activity)
    sizes = _round_lots(tuples, seed, "size")
    steps = generator(seed, "market", "mid").standard_normal(tuples)
    mids = kernels.mid_prices(codes, times, steps, listing.opening, listing.volatility)
    trade_prices = np.maximum(np.rint(mids * 100.0), 1.0) / 100.0
    averages = kernels.met_averages(codes, is_trade, trade_prices, sizes, symbols)
    scale = _spread_scale(codes, mids, averages, listing.unit_spread, int(np.count_nonzero(~is_trade)))
    asks, bids = kernels.asks_and_bids(scale, codes, mids, averages, listing.unit_spread)
    return pa.table(
        [
            pa.DictionaryArray.from_arrays(codes, pa.array(listing.tickers)),
            pa.DictionaryArray.from_arrays(listing.exchanges[codes], pa.array(EXCHANGES)),
            pa.DictionaryArray.from_arrays(np.where(is_trade, np.int32(0), np.int32(1)), pa.array(TYPES)),
            pa.array(np.where(is_trade, trade_prices, asks)),
            pa.array(sizes),
            pa.array(bids, mask=is_trade),
            pa.array(_round_lots(tuples, seed, "bid_size"), mask=is_trade),
            pa.array(times).cast(SCHEMA.field("_ts").type),
            pa.array(np.arange(tuples)),
        ],
        schema=SCHEMA,
    )


def _listing(seed: int, symbols: int, zipf: float | None) -> Listing:
    def draws(name: str) -> np.random.Generator:
        return generator(seed, "market", "listing", name)

    # Shuffled quantiles, not random draws: the few most active symbols carry much of the stream, and their share should
    # not depend on the seed.
    ranks = draws("activity").permutation(symbols)
    activity = np.exp(ACTIVITY_SIGMA * ndtri((ranks + 0.5) / symbols)) if zipf is None else (ranks + 1.0) ** -zipf
    activity /= activity.sum()
    volatility = VOLATILITY * np.exp(VOLATILITY_SIGMA * draws("volatility").standard_normal(symbols))
    trade_rate = activity * MEAN_RATE * (1.0 - QUOTE_SHARE)
    return Listing(
        tickers=_tickers(draws("ticker"), symbols),
        exchanges=draws("exchange").choice(len(EXCHANGES), symbols, p=EXCHANGE_SHARES).astype(np.int32),
        activity=activity,
        opening=OPENING_PRICE * np.exp(PRICE_SIGMA * draws("opening").standard_normal(symbols)),
        volatility=volatility,
        unit_spread=volatility * np.sqrt(kernels.AVERAGED_TRADES / trade_rate),
    )


def _tickers(draws: np.random.Generator, symbols: int) -> list[str]:
    """Distinct tickers of capital letters, as few letters each as the number of symbols allows."""
    letters = next(n for n in range(1, 5) if 26**n >= symbols)
    digits = (draws.permutation(26**letters)[:symbols, None] // 26 ** np.arange(letters)) % 26
    return ["".join(chr(ord("A") + digit) for digit in row) for row in digits.tolist()]


def _tuples_per_second(tuples: int, seed: int) -> np.ndarray:
    """Flurries around MEAN_RATE, as strong as PEAK_RATE demands.

    A stream of a few seconds cannot have such a peak; there the strength of flurries is limited.
    """
    seconds = max(1, round(tuples / MEAN_RATE))
    noise = generator(seed, "market", "bursts").standard_normal(seconds)
    flurries = kernels.autoregression(noise, np.exp(-1.0 / BURST_SECONDS))

    def beyond(strength: float) -> bool:
        rates = np.exp(strength * flurries)
        return bool(rates.max() > PEAK_RATE / MEAN_RATE * rates.mean())

    return _whole(np.exp(_bisect(beyond, 0.0, 2.0) * flurries), tuples)


def _whole(shares: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers in proportion to `shares` that add up to `total`."""
    return np.diff(np.rint(np.cumsum(shares) * (total / shares.sum())).astype(np.int64), prepend=0)


def _symbols_of_tuples(tuples: int, seed: int, activity: np.ndarray) -> np.ndarray:
    """The symbol code of each tuple, independently by activity."""
    draws = generator(seed, "market", "symbol")
    codes = np.repeat(np.arange(len(activity), dtype=np.int32), draws.multinomial(tuples, activity))
    draws.shuffle(codes)
    return codes


def _round_lots(tuples: int, seed: int, name: str) -> np.ndarray:
    return LOT * generator(seed, "market", name).geometric(1.0 / MEAN_LOTS, tuples)


def _spread_scale(
    codes: np.ndarray, mids: np.ndarray, averages: np.ndarray, unit_spread: np.ndarray, quotes: int
) -> float:
    """The common factor of all spreads that makes BARGAIN_SHARE of the quotes bargains: wider spreads give fewer."""
    enough = BARGAIN_SHARE * quotes
    return _bisect(lambda scale: kernels.bargains(scale, codes, mids, averages, unit_spread) < enough, 0.0, 4.0)


def _bisect(beyond: Callable[[float], bool], low: float, high: float) -> float:
    """The least argument in [low, high] that is `beyond`, to 20 binary digits; `beyond` turns true once."""
    for _ in range(20):
        middle = (low + high) / 2.0
        low, high = (low, middle) if beyond(middle) else (middle, high)
    return high
