"""The apps of `make bench ONLY=protect`, with their data and objectives: three bundled ones and three of other shapes.

shop       two sources, NULLs, a few users with most of the rows; tumbling windows and a join; two sinks
meters     a row a second for hours, so that it is replayed faster than it came; hopping windows; two sinks
funnel     a union of two branches, then a window by key; one sink with a score
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from riprap.apps.catalogue import load_app
from riprap.apps.samples import sample_inputs
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.windows import count, time, tumbling, zero
from riprap.planner.slo import Slo

_START = 1_700_000_000_000_000


@dataclass(frozen=True)
class ProtectedApp:
    graph: Graph
    inputs: Mapping[str, Path]
    slo: Slo
    score: Mapping[str, str] = field(default_factory=dict)


def apps(place: Path) -> dict[str, ProtectedApp]:
    bundled = {
        "bargain-discovery": Slo(recovery="10s", wrong="25%"),
        "sensor-fleet": Slo(recovery="10s", exactly_once=["Summaries"]),
        "yield-prediction": Slo(recovery="15s", wrong="60%"),
    }
    found = {}
    for name, slo in bundled.items():
        graph = load_app(name)
        found[name] = ProtectedApp(graph, sample_inputs(graph, 50_000, 2, place), slo)
    return found | {"shop": _shop(place), "meters": _meters(place), "funnel": _funnel(place)}


def _shop(place: Path) -> ProtectedApp:
    app = App("shop")
    orders = app.source("Orders", "user long not null, amount long, country string")
    views = app.source("Views", "user long not null, page string")
    paid = orders.filter("amount IS NOT NULL", name="Paid")
    calls = "sum(amount) AS revenue", "count(*) AS orders"
    paid.aggregate(*calls, window=tumbling("2s"), by="country", name="Revenue").sink("Invoices")
    carts = views.filter("page = 'cart' OR page = 'pay'", name="Carts")
    seen = carts.aggregate("count(*) AS seen", window=count(20), every=count(1), by="user", name="Interest")
    seen.join(
        paid, on="user", left_window=count(1), right_window=zero(), where="amount > 100",
        select=["user", "seen", "amount"], name="Likely",
    ).sink("Alerts")  # fmt: skip
    draws = np.random.Generator(np.random.Philox(11))
    rows, more = 24_000, 9_000
    country = pa.array(draws.choice(["de", "fr", "uk"], rows), mask=draws.random(rows) < 0.1)
    amount = pa.array(draws.integers(1, 500, rows), mask=draws.random(rows) < 0.05)
    order = {"user": draws.zipf(1.4, rows) % 500, "amount": amount, "country": country}
    view = {"user": draws.zipf(1.4, more) % 500, "page": draws.choice(["home", "cart", "pay"], more)}
    inputs = {
        "Orders": _written(place / "orders.parquet", draws, 60.0, order),
        "Views": _written(place / "views.parquet", draws, 60.0, view),
    }
    return ProtectedApp(
        app.build(), inputs, Slo(recovery="10s", exactly_once=["Invoices"], sinks={"Alerts": {"wrong": "60%"}})
    )


def _meters(place: Path) -> ProtectedApp:
    app = App("meters")
    good = app.source("Readings", "meter long not null, kwh double").filter("kwh IS NOT NULL", name="Good")
    calls = "sum(kwh) AS kwh", "count(*) AS n"
    good.aggregate(*calls, window=time("10m"), every=time("1m"), by="meter", name="Usage").sink("Bills")
    high = good.filter("kwh > 4.0", name="High").select("meter", "round(kwh, 2) AS kwh", name="Rounded")
    high.filter("kwh > 4.5", name="Extreme").sink("Peaks")
    draws = np.random.Generator(np.random.Philox(12))
    rows = 20_000
    kwh = pa.array(draws.random(rows) * 5, mask=draws.random(rows) < 0.1)
    inputs = {
        "Readings": _written(
            place / "meters.parquet", draws, float(rows), {"meter": draws.integers(0, 40, rows), "kwh": kwh}
        )
    }
    return ProtectedApp(app.build(), inputs, Slo(recovery="10s", exactly_once=["Bills"]))


def _funnel(place: Path) -> ProtectedApp:
    app = App("funnel")
    clicks = app.source("Clicks", "visitor long not null, step long not null, spent long not null")
    early = clicks.filter("step < 3", name="Early").select("visitor", "step", "0 AS spent", name="Free")
    late = clicks.filter("step >= 3", name="Late").select("visitor", "step", "spent", name="Spent")
    both = early.union(late, name="Both")
    both.aggregate(
        "sum(spent) AS spent", "max(step) AS step", window=time("3s"), every=count(1), by="visitor", name="Visits"
    ).sink("Funnel")
    draws = np.random.Generator(np.random.Philox(13))
    rows = 20_000
    data = {
        "visitor": draws.integers(0, 80, rows),
        "step": draws.integers(0, 6, rows),
        "spent": draws.integers(0, 90, rows),
    }
    inputs = {"Clicks": _written(place / "clicks.parquet", draws, 50.0, data)}
    return ProtectedApp(
        app.build(), inputs, Slo(recovery="10s", score_at_least={"Funnel": 0.8}), {"Funnel": "sum(spent)"}
    )


def _written(path: Path, draws: np.random.Generator, seconds: float, columns: Mapping[str, object]) -> Path:
    rows = len(next(iter(columns.values())))  # type: ignore[arg-type]
    at = np.sort(draws.integers(0, round(seconds * 1e6), rows)) + _START
    pq.write_table(pa.table({"_ts": pa.array(at, pa.int64()), **columns}), path)  # type: ignore[dict-item]
    return path
