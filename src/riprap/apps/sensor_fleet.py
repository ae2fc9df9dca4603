"""Sensor fleet: what each site measured every minute, and which sensors suddenly read something else than before.

    Source → Readings ┬→ Minutes → SiteMinutes → Summaries
                      └→ Answered → Recent → Deviation → Alerts

Readings leaves out what sensors say while somebody works on them. Minutes says of every site and kind of sensor, minute
by minute, how many readings there were, how many of them were answered, and their mean, least and greatest. Recent
keeps, per sensor, the last minute of its answers; Deviation gives those that are far from the mean of that minute.

Two sinks, windows of time that speak by the clock and by the tuple, text that may be missing, values that may be.
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
