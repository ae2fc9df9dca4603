"""Reads a director's report: the roles of replicas and copies, element by element, and the times of fail-overs."""

from collections.abc import Iterable, Mapping
from typing import Any

Report = Mapping[str, Any]  # of a director: `groups`, by name, or `copies`, by element


def roles(report: Report) -> dict[str, str]:
    """By element of a group: active, backup, refilling or down; the active one may be tainted. By copy: its state."""
    found: dict[str, str] = {}
    for copied in report.get("copies", {}).values():
        found |= {copy["element"]: copy["state"] for copy in copied["copies"]}
    for group in report.get("groups", {}).values():
        for number, replica in enumerate(group["replicas"], 1):
            role = "backup" if replica["state"] == "full" else replica["state"]
            if number == group["active"]:
                role = "active, tainted" if group["tainted"] else "active"
            found |= dict.fromkeys(replica["elements"], role)
    return found


def failovers(report: Report) -> dict[str, dict[str, Any]]:
    """By element of a replica that became active by a fail-over: the number of fail-overs, and the last one."""
    found: dict[str, dict[str, Any]] = {}
    for group in report.get("groups", {}).values():
        if group["failovers"] and group["active"] is not None:
            last = group["failovers"][-1]
            last_failover = {name: last[name] for name in ("seconds", "dropped", "doubled")}
            elements = group["replicas"][group["active"] - 1]["elements"]
            found |= {pe: {"count": len(group["failovers"]), **last_failover} for pe in elements}
    return found


def active_elements(report: Report, pes: Iterable[str]) -> list[str]:
    """Of these elements, those in no group or in its active replica; of copies, the first that emits."""
    known = roles(report)
    first = [
        next((copy["element"] for copy in copied["copies"] if copy["state"] == "speaking"), "")
        for copied in report.get("copies", {}).values()
    ]
    return [pe for pe in pes if pe in first or known.get(pe, "active").startswith("active")]


def tainted(report: Report) -> list[str]:
    """A sentence for each element that lost all copies: no stream counts the lost state as lost items."""
    return [
        f"{name}: {copied['tainted']} times no copy was left that could continue for the others: one started without "
        "their state, so rows behind it may be missing or wrong, and no stream counts them as lost"
        for name, copied in report.get("copies", {}).items()
        if copied["tainted"]
    ]


def with_kills(report: Report, kills: Mapping[str, list[int]]) -> dict[str, Any]:
    """The groups; each fail-over gets `from_kill`, the seconds since the kill that caused it (`kills`: by element,
    microseconds of the wall clock); None: no kill. Other elements of the replica may notice a kill first, so it counts
    for all of them, back to the previous fail-over.
    """
    groups = {}
    for name, group in report.get("groups", {}).items():
        failovers, since = [], 0
        for failover in group["failovers"]:
            replica = next((r["elements"] for r in group["replicas"] if failover["lost"] in r["elements"]), ())
            before = [at for pe in replica for at in kills.get(pe, ()) if since < at <= failover["at"]]
            since = failover["at"]
            took = failover["seconds"]
            total = took + (failover["at"] - max(before)) / 1e6 if before and took is not None else None
            failovers.append({**failover, "from_kill": total})
        groups[name] = {**group, "failovers": failovers}
    return groups
