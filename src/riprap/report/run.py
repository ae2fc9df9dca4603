"""The report of a run: counts of every stream, restarts and costs of every element, failovers of replicas."""

from collections.abc import Mapping
from typing import Any

from riprap.base.quantities import format_size
from riprap.report import page as p
from riprap.report.replicas import replicas

_COUNTS = ("sent", "received", "late", "lost", "repeated")


def run_report(summary: Mapping[str, Any], *, command: str = "") -> str:
    streams = summary["streams"].values()
    latency = summary["latency"]["p50"]
    facts = {
        "tuples": f"{summary['tuples']:,}",
        "tuples/s": f"{summary['throughput']:,.0f}",
        "latency, median": "unknown" if latency is None else f"{latency:.3g} ms",
        "lost": f"{sum(stream['lost'] for stream in streams):,}",
        "undone": f"{sum(rows for failure in summary['failures'] for rows in failure['undone'].values()):,}",
        "repeated": f"{sum(stream['repeated'] for stream in streams):,}",
        "restarts": f"{sum(pe['restarts'] for pe in summary['pes'].values()):,}",
    }
    blocks = [p.facts(facts), *(p.note(text) for text in summary["warnings"])]
    missed = [[fault["fault"], fault["why"]] for fault in summary.get("not_injected", ())]
    if missed:
        blocks.append(p.section("Not injected", p.table(["fault", "why"], missed)))
    if replicated := replicas(summary):
        blocks.append(p.section("Replicas", *replicated))
    blocks.append(p.section("Streams", stream_table(summary)))
    blocks.append(p.section("Elements", element_table(summary)))
    lead = f"{summary['app']} ran for {summary['seconds']:.1f} s under protocol {summary['protocol']['name']}."
    return p.page(f"Run of {summary['app']}", blocks, lead=lead, footer=command)


def stream_table(summary: Mapping[str, Any]) -> str:
    rows = [[name, s["recovery"], *(f"{s[count]:,}" for count in _COUNTS)] for name, s in summary["streams"].items()]
    return p.table(["stream", "recovery", *_COUNTS], rows, numbers=range(2, 2 + len(_COUNTS)))


def element_table(summary: Mapping[str, Any]) -> str:
    rows = []
    for name, pe in summary["pes"].items():
        cost = summary.get("costs", {}).get(name)
        sizes = [format_size(round(cost[part])) for part in ("memory", "written", "sent")] if cost else ["", "", ""]
        rows.append([name, pe["delivery"], str(pe["restarts"]), f"{cost['cores']:.3f}" if cost else "", *sizes])
    columns = ["element", "after a crash", "restarts", "cores", "memory", "written/s", "sent/s"]
    return p.table(columns, rows, numbers=range(2, 7))
