"""The compiled loops of the market data generator: pure functions over arrays, one pass each, in stream order.

Times are seconds since the open, prices are dollars unless a name says cents, symbols are codes 0 … n−1.
"""

import numpy as np
from numba import njit

AVERAGED_TRADES = 5  # the moving average of Bargain Discovery: the five most recent trades of a symbol
TIE = 1e-9  # relative; an ask this close to a moving average compares differently from one summation order to another


@njit(cache=True, nogil=True)
def autoregression(noise: np.ndarray, memory: float) -> np.ndarray:
    """A stationary process of variance 1: `memory` is the correlation of neighbours, `noise` the innovations."""
    values = np.empty(len(noise), np.float64)
    fresh = np.sqrt(1.0 - memory * memory)
    value = noise[0]
    values[0] = value
    for i in range(1, len(noise)):
        value = memory * value + fresh * noise[i]
        values[i] = value
    return values


@njit(cache=True, nogil=True)
def arrival_times(counts: np.ndarray, gaps: np.ndarray, open_us: int) -> np.ndarray:
    """Microseconds of `counts[s]` arrivals in second `s`, never decreasing, spaced within it in proportion to `gaps`.

    A second with c arrivals uses c + 1 gaps, the last of which leads to its end.
    """
    times = np.empty(counts.sum(), np.int64)
    done = 0
    used = 0
    for second in range(len(counts)):
        whole = 0.0
        for i in range(counts[second] + 1):
            whole += gaps[used + i]
        elapsed = 0.0
        for i in range(counts[second]):
            elapsed += gaps[used + i]
            times[done] = open_us + second * 1_000_000 + min(int(elapsed / whole * 1e6), 999_999)
            done += 1
        used += counts[second] + 1
    return times


@njit(cache=True, nogil=True)
def mid_prices(
    codes: np.ndarray, times_us: np.ndarray, steps: np.ndarray, opening: np.ndarray, volatility: np.ndarray
) -> np.ndarray:
    """The mid price of each tuple's symbol at its time: a geometric diffusion driven by the standard normal `steps`."""
    mids = np.empty(len(codes), np.float64)
    log_mid = np.log(opening)
    last = np.full(len(opening), times_us[0] if len(times_us) else 0, np.int64)
    for i in range(len(codes)):
        symbol = codes[i]
        elapsed = (times_us[i] - last[symbol]) * 1e-6
        last[symbol] = times_us[i]
        log_mid[symbol] += volatility[symbol] * np.sqrt(elapsed) * steps[i]
        mids[i] = np.exp(log_mid[symbol])
    return mids


@njit(cache=True, nogil=True)
def met_averages(
    codes: np.ndarray, is_trade: np.ndarray, prices: np.ndarray, sizes: np.ndarray, symbols: int
) -> np.ndarray:
    """For each quote the volume-weighted average price of its symbol's five most recent trades; NaN if there is none.

    `prices` is read at trades only. NaN also at trades.
    """
    met = np.full(len(codes), np.nan)
    window_price = np.zeros((symbols, AVERAGED_TRADES))
    window_size = np.zeros((symbols, AVERAGED_TRADES))
    trades = np.zeros(symbols, np.int64)
    latest = np.full(symbols, np.nan)
    for i in range(len(codes)):
        symbol = codes[i]
        if not is_trade[i]:
            met[i] = latest[symbol]
            continue
        slot = trades[symbol] % AVERAGED_TRADES
        trades[symbol] += 1
        window_price[symbol, slot] = prices[i] * sizes[i]
        window_size[symbol, slot] = sizes[i]
        latest[symbol] = window_price[symbol].sum() / window_size[symbol].sum()
    return met


@njit(cache=True, nogil=True)
def ask_cents(mid: float, relative_spread: float, average: float) -> int:
    """The ask to the cent; where that is the moving average itself (a tie), the next cent up.

    So no comparison of an ask with a moving average depends on the order in which an engine adds five numbers.
    """
    cents = max(int(np.rint(mid * (1.0 + relative_spread) * 100.0)), 2)
    if abs(average - cents / 100.0) <= TIE * average:
        cents += 1
    return cents


@njit(cache=True, nogil=True)
def bargains(scale: float, codes: np.ndarray, mids: np.ndarray, averages: np.ndarray, unit_spread: np.ndarray) -> int:
    """How many quotes ask less than their symbol's average if every spread is `scale` times its unit."""
    found = 0
    for i in range(len(codes)):
        average = averages[i]
        if average > ask_cents(mids[i], scale * unit_spread[codes[i]], average) / 100.0:
            found += 1
    return found


@njit(cache=True, nogil=True)
def asks_and_bids(
    scale: float, codes: np.ndarray, mids: np.ndarray, averages: np.ndarray, unit_spread: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Both sides of every tuple as if it were a quote: the ask, and a bid as far below the mid."""
    asks = np.empty(len(codes), np.float64)
    bids = np.empty(len(codes), np.float64)
    for i in range(len(codes)):
        spread = scale * unit_spread[codes[i]]
        ask = ask_cents(mids[i], spread, averages[i])
        asks[i] = ask / 100.0
        bids[i] = min(max(int(np.rint(mids[i] * (1.0 - spread) * 100.0)), 1), ask - 1) / 100.0
    return asks, bids
