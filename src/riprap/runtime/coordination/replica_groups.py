"""What the report of a director says of replicas and copies, element by element, and how long fail-overs took."""

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
    """By element of a replica that is active because another was lost: how many fail-overs there were, and the last."""
    found: dict[str, dict[str, Any]] = {}
    for group in report.get("groups", {}).values():
        if group["failovers"] and group["active"] is not None:
            last = group["failovers"][-1]
            told = {name: last[name] for name in ("seconds", "dropped", "doubled")}
            elements = group["replicas"][group["active"] - 1]["elements"]
            found |= {pe: {"count": len(group["failovers"]), **told} for pe in elements}
    return found


def spoken_for(report: Report, pes: Iterable[str]) -> list[str]:
    """Of these elements, those that are in no group, or in its active replica; of copies, the first that speaks."""
    known = roles(report)
    first = [
        next((copy["element"] for copy in copied["copies"] if copy["state"] == "speaking"), "")
        for copied in report.get("copies", {}).values()
    ]
    return [pe for pe in pes if pe in first or known.get(pe, "active").startswith("active")]


def tainted(report: Report) -> list[str]:
    """A sentence for each element of which no copy was left: no stream counts what was in its state as lost."""
    return [
        f"{name}: {copied['tainted']} times no copy was left that could go on where the others were: one began without "
        "their state, so rows behind it may be missing or wrong, and no stream counts them as lost"
        for name, copied in report.get("copies", {}).items()
        if copied["tainted"]
    ]


def with_kills(report: Report, kills: Mapping[str, list[int]]) -> dict[str, Any]:
    """The groups, where each fail-over also says how long it took from the kill that caused it (`kills`: by element,
    microseconds of the wall clock); None: nobody killed it. Who is killed may be missed by others of its replica first,
    so the kill is one of any of them, since the fail-over before.
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
