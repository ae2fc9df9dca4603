"""HA groups and copies of a run: states, failovers and their cost, and differences between copies; for reports and
notebooks."""

from collections.abc import Mapping, Sequence
from typing import Any

from riprap.report import page as p
from riprap.report.chart import ChartPoint, Series, chart

_COLUMNS = ["group", "lost", "failed over to", "first tuple after", "dropped", "doubled", "tainted"]
_DIFFERENCES = 100  # listed at most


def replicas(summary: Mapping[str, Any]) -> list[str]:
    """Blocks of a report; none if nothing is replicated."""
    groups, copies = summary.get("groups", {}), summary.get("copies", {})
    blocks: list[str] = []
    if groups:
        blocks.append(p.table(["group", "replica", "elements", "state"], _states(groups)))
        failovers = [row for name, group in groups.items() for row in _failovers(name, group["failovers"])]
        if failovers:
            blocks.append(p.table(_COLUMNS, failovers, numbers=(3, 4, 5)))
            blocks += [
                p.figure(_picture(group), f"HA group {name}: which replica was active.")
                for name, group in groups.items()
                if group["failovers"]
            ]
        else:
            blocks.append(p.text("No group failed over."))
    if copies:
        states = [[name, copy["element"], copy["state"]] for name, group in copies.items() for copy in group["copies"]]
        blocks.append(p.table(["operators", "copy", "state"], states))
        counts = [
            [name, str(group["restored"]), str(group["tainted"]), str(len(group["differences"]))]
            for name, group in copies.items()
        ]
        columns = ["operators", "restored from another copy", "times no copy was left", "differences"]
        blocks.append(p.table(columns, counts, numbers=(1, 2, 3)))
        differences = [difference for group in copies.values() for difference in group["differences"]]
        if differences:
            blocks.append(_differing(differences))
    return blocks


def _states(groups: Mapping[str, Any]) -> list[list[str]]:
    rows = []
    for name, group in groups.items():
        for number, replica in enumerate(group["replicas"], 1):
            active = "active, tainted" if group["tainted"] else "active"
            state = (
                active if number == group["active"] else "backup" if replica["state"] == "full" else replica["state"]
            )
            rows.append([name, str(number), ", ".join(replica["elements"]), state])
    return rows


def _failovers(name: str, failovers: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    rows = []
    for failover in failovers:
        took = failover["seconds"] if failover.get("from_kill") is None else failover["from_kill"]
        rows.append(
            [
                name,
                failover["lost"],
                "none" if failover["to"] is None else f"replica {failover['to']}",
                "" if took is None else f"{took:.3f} s",
                f"{failover['dropped']:,}",
                f"{failover['doubled']:,}",
                "yes" if failover["tainted"] else "",
            ]
        )
    return rows


def _picture(group: Mapping[str, Any]) -> str:
    """The active replica over time, from a second before the first failover; 0: none."""
    failovers = group["failovers"]
    start = failovers[0]["at"] / 1e6 - 1.0
    points = [ChartPoint(0.0, float(failovers[0]["from"] or 0))]
    for failover in failovers:
        at, to = failover["at"] / 1e6 - start, failover["to"] or 0
        active = "no replica" if failover["to"] is None else f"replica {to}"
        points.append(ChartPoint(at, float(to), f"{failover['lost']} was lost, {active} is active"))
    points.append(ChartPoint(points[-1].x + 1.0, points[-1].y))
    return chart([Series("active replica", points, steps=True)], x_label="seconds", y_label="replica")


def _differing(differences: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [
            difference["operator"],
            difference["stream"],
            f"{difference['from'] / 1e6:.3f} s to {difference['to'] / 1e6:.3f} s",
            ", ".join(difference["odd"]) or "unknown",
        ]
        for difference in differences[:_DIFFERENCES]
    ]
    return p.table(["copies differed at", "stream", "event time", "wrong"], rows)
