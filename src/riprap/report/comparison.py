"""The page of a comparison: the advice first, then a picture and a table per workload, published beside ours."""

from collections.abc import Mapping, Sequence

from riprap.compare.advice import advice
from riprap.compare.grid import Case, groups
from riprap.compare.measures import Result
from riprap.compare.published import PUBLISHED, Published
from riprap.report import page as p
from riprap.report.chart import Point, Series, chart

Results = Mapping[Case, Result]

COLUMNS = (
    "protocol", "rows/s", "latency mean", "p50", "p99", "checkpoints", "forced", "size", "take", "first output",
    "recovery", "adaptive", "rollback", "back", "lost", "repeated",
)  # fmt: skip


def comparison_report(results: Results, *, host: str, command: str = "", refused: Sequence[str] = ()) -> str:
    """`host` says in a sentence where it was run; `refused` what could not be run, and why."""
    blocks = [p.text(sentence) for sentence in advice(results)]
    blocks.append(p.note(host))
    blocks += [p.note(sentence) for sentence in refused]
    for group in groups(results):
        chosen = {case: result for case, result in results.items() if case.group == group}
        title = next(iter(chosen)).title
        blocks.append(p.section(title, *_pictures(chosen), _table(chosen)))
    blocks.append(p.section("How it was measured", p.text(_METHOD)))
    return p.page("Protocols compared", blocks, footer=command)


def cells(case: Case, result: Result) -> list[str]:
    """A row of the table, as `COLUMNS` has it."""
    return [
        case.label,
        f"{result.throughput:,.0f}",
        f"{result.latency_mean:.0f} ms",
        f"{result.latency_p50:.0f} ms",
        f"{result.latency_p99:.0f} ms",
        f"{result.checkpoints:,}",
        f"{result.forced:,}",
        f"{result.checkpoint_bytes / 1024:.1f} KiB",
        f"{result.take_ms:.1f} ms",
        _seconds(result.first_output),
        _seconds(result.recovery) if case.failure else "",
        _seconds(result.recovery_adaptive) if case.failure else "",
        _seconds(result.rollback),
        str(result.gone_back) if case.failure else "",
        f"{result.lost:,}",
        f"{result.repeated:,}",
    ]


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f} s"


def _table(chosen: Results) -> str:
    rows = []
    for case, result in chosen.items():
        rows.append(cells(case, result))
        published = PUBLISHED.get((*case.group, case.protocol, round(case.interval / 1e6)))
        if published is not None and case.repetition == 0:
            rows.append(_published(published))
    return p.table(COLUMNS, rows, numbers=tuple(range(1, len(COLUMNS))))


def _published(known: Published) -> list[str]:
    def shown(value: float | None, unit: str = "", digits: int = 0) -> str:
        return "" if value is None else f"{value:,.{digits}f}{unit}"

    return [
        "published, 24 elements", "", shown(known.latency_mean, " ms"), "", shown(known.latency_p99, " ms"),
        shown(known.checkpoints), shown(known.forced), "", "", "", shown(known.recovery, " s"), "",
        shown(known.rollback, " s", 1), "", shown(known.lost), "",
    ]  # fmt: skip


def _pictures(chosen: Results) -> list[str]:
    """Latency and throughput around the kill, a line per protocol; of each the first repetition."""
    failed = {c: r for c, r in chosen.items() if c.failure and c.repetition == 0}
    shown = failed or {c: r for c, r in chosen.items() if c.repetition == 0}
    latency = [
        Series(case.label, [Point(at, ms) for at, _, ms in result.series if ms >= 0]) for case, result in shown.items()
    ]
    rates = [
        Series(case.label, [Point(at, rows) for at, rows, _ in result.series], steps=True)
        for case, result in shown.items()
    ]
    killed = next((f" The kill is at {case.killed_at:.1f} s." for case in failed), "")
    return [
        p.figure(chart(latency, x_label="seconds", y_label="latency of output, ms"), f"Latency.{killed}"),
        p.figure(chart(rates, x_label="seconds", y_label="rows/s at the sinks"), f"Throughput.{killed}"),
    ]


_METHOD = (
    "Everything is taken from outside the elements: rows and latencies from the persistent streams of the sinks, in "
    "steps of 0.3 s; checkpoints, lines and recoveries from the coordinator. Latency is from when a tuple was due at "
    "its source until what it caused was in the sink's stream, before the kill. First output: from the kill until new "
    "rows came. Recovery: until the latency was back within 10 % of its mean before the kill, and stayed for four "
    "steps; adaptive: within 10 % of what 95 % of the steps before stayed below. Rollback: how far the element that "
    "went back furthest went. Back: elements that went back beside the killed one. Lost and repeated: rows of the "
    "output, by an oracle that reads inputs and sinks alone."
)
