"""Sensor fleet: summaries of every site and minute, and alerts for sensors that suddenly deviate.

    Source → Readings ┬→ Minutes → SiteMinutes → Summaries
                      └→ Answered → Recent → Deviation → Alerts

Readings drops the readings of sensors under maintenance. Minutes computes for every site, kind of sensor and minute the
number of readings, the number of answers, and their mean, minimum and maximum. Recent has, per sensor, a window of the
answers of the last minute; Deviation emits answers that are far from the mean of that window.

The app shows two sinks, time windows that emit by the clock or for every tuple, and text and values that may be null.
"""

from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.windows import count, time

SCHEMA = "sensor string not null, site string not null, kind string not null, value double, status string"


def build() -> Graph:
    app = App("sensor-fleet")
    readings = app.source("Source", SCHEMA).select(
        "sensor", "site", "kind", "value", "coalesce(status, 'ok') AS status",
        where="status IS NULL OR status NOT LIKE 'maintenance%'", name="Readings",
    )  # fmt: skip
    minutes = readings.aggregate(
        "count(*) AS readings",
        "count(value) AS answered",
        "avg(value) AS mean",
        "min(value) AS least",
        "max(value) AS greatest",
        window=time("1m"),
        by=["site", "kind"],
        name="Minutes",
    )
    minutes.select(
        "site", "kind", "readings", "readings - answered AS silent", "mean", "least", "greatest",
        name="SiteMinutes",
    ).sink("Summaries")  # fmt: skip
    recent = readings.filter("value IS NOT NULL", name="Answered").aggregate(
        "count(*) AS answers",
        "avg(value) AS mean",
        "last(value) AS value",
        "last(status) AS status",
        window=time("1m"),
        every=count(1),
        by="sensor",
        name="Recent",
    )
    recent.filter("answers >= 5 AND abs(value - mean) > 8", name="Deviation").sink("Alerts")
    return app.build()
