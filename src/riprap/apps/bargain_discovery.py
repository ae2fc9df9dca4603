"""Bargain Discovery: finds stocks on offer below the average price of their recent trades.

    Source → TradeQuote ┬→ TradeFilter → Aggregator → VWAP ┐
                        └→ QuoteFilter ────────────────────┴→ BargainIndex → Sink

TradeQuote drops columns. The upper branch computes, per stock, the volume-weighted average price of its five
most recent trades (one output per trade, from the first one on). BargainIndex joins every quote with the latest average
of its stock and emits the quotes that ask for less, with the money to gain.
"""

from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.windows import count, zero

SCHEMA = (
    "ticker string not null, exchange string not null, type string not null, price double not null, "
    "size long not null, bid_price double, bid_size long"
)


def build() -> Graph:
    app = App("bargain-discovery")
    ticks = app.source("Source", SCHEMA)
    tuples = ticks.select("ticker", "type", "price", "size", name="TradeQuote")
    trades = tuples.filter("type = 'TRADE'", name="TradeFilter")
    sums = trades.aggregate(
        "sum(price * size) AS total_price",
        "sum(size) AS total_volume",
        window=count(5),
        every=count(1),
        by="ticker",
        name="Aggregator",
    )
    averages = sums.select("ticker", "total_price / total_volume AS vwap", name="VWAP")
    quotes = tuples.filter("type = 'QUOTE'", name="QuoteFilter")
    bargains = averages.join(
        quotes,
        on="ticker",
        left_window=count(1),
        right_window=zero(),
        where="vwap > price",
        select=["ticker", "price AS ask_price", "size AS ask_size", "vwap", "size * (vwap - price) AS gain"],
        name="BargainIndex",
    )
    bargains.sink("Sink")
    return app.build()
