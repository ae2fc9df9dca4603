"""The report of a comparison: advice, then charts and a table per workload, published numbers beside ours."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from riprap.base.quantities import format_duration, parse_duration
from riprap.report import page as p
from riprap.report.chart import ChartPoint, Series, chart
from riprap_papers.compare.advice import advice
from riprap_papers.compare.cycle import Fall, Falling
from riprap_papers.compare.grid import ComparedCase, groups
from riprap_papers.compare.measures import Result, averaged
from riprap_papers.compare.published import PUBLISHED, PublishedMeasures
from riprap_papers.compare.skew import Pair, pairs

Results = Mapping[ComparedCase, Result]

COLUMNS = (
    "protocol", "lost, altered", "repeated", "messages lost", "first output", "recovery, adaptive",
    "rollback, elements", "rows/s", "latency mean, p50, p99", "taken, forced", "size, take", "detect, restart, restore",
)  # fmt: skip


def comparison_report(
    results: Results,
    *,
    host: str,
    command: str = "",
    notes: Sequence[str] = (),
    falls: Mapping[Falling, Fall] | None = None,
) -> str:
    """`host`: a sentence about where it ran; `notes`: what to know about that; `falls`: rollbacks in a cycle."""
    blocks = [p.text(sentence) for sentence in advice(results, falls)]
    blocks.append(p.note(host))
    blocks += [p.note(sentence) for sentence in notes]
    for group in groups(results):
        chosen = {case: result for case, result in results.items() if case.group == group}
        title = next(iter(chosen)).title
        blocks.append(p.section(title, *_pictures(chosen), _table(chosen)))
    if skewed := pairs(results):
        blocks.append(p.section("Under skewed keys", _skewed(skewed)))
    if falls:
        blocks.append(p.section("nhop as a cycle of 24 elements", _fallen(falls), p.note(_CYCLE)))
    blocks.append(p.section("How it was measured", p.text(_METHOD)))
    return p.page("Protocols compared", blocks, footer=command)


def cells(case: ComparedCase, result: Result, label: str) -> list[str]:
    """A row of the table, as `COLUMNS` has it."""
    down = (result.detect, result.restart, result.restore)
    return [
        label,
        f"{result.lost:,}" + (f", {result.altered:,}" if result.altered else ""),
        f"{result.repeated:,}",
        f"{result.messages:,}",
        _seconds(result.first_output) if case.failure else "",
        f"{_seconds(result.recovery)}, {_seconds(result.recovery_adaptive)}" if case.failure else "",
        f"{_seconds(result.rollback)}, {result.gone_back}" if case.failure else "",
        f"{result.throughput:,.0f}",
        f"{result.latency_mean:,.0f}, {result.latency_p50:,.0f}, {result.latency_p99:,.0f} ms"
        if result.throughput
        else "–",  # no output yet
        f"{result.checkpoints:,}, {result.forced:,}",
        f"{_bytes(result.checkpoint_bytes)}, {result.take_ms:.1f} ms",
        ", ".join(map(_seconds, down)) if case.failure else "",
    ]


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f} s" if value < 100 else f"{value:,.0f} s"


def _bytes(count: float) -> str:
    return f"{count / 1024:.1f} KiB" if count < 1 << 20 else f"{count / (1 << 20):.1f} MiB"


def _table(chosen: Results) -> str:
    rows = []
    for case, repeated in _repetitions(chosen).items():
        rows.append(cells(case, averaged(repeated), _label(case, chosen) + ("" if case.failure else ", no failure")))
        published = PUBLISHED.get((*case.group, case.protocol, round(case.interval * case.compressed / 1e6)))
        with_failure = replace(case, failure=True, repetition=0)  # published numbers are shown once
        if published is not None and (case.failure or with_failure not in chosen):
            rows.append(_published(published, failure=case.failure))
    return p.table(COLUMNS, rows, numbers=tuple(range(1, len(COLUMNS))))


def _repetitions(chosen: Results) -> dict[ComparedCase, list[Result]]:
    """The repetitions of each case, by the first one."""
    by_case: dict[ComparedCase, list[Result]] = {}
    for case, result in chosen.items():
        by_case.setdefault(replace(case, repetition=0), []).append(result)
    return by_case


def _label(case: ComparedCase, chosen: Results) -> str:
    """The label of a case; with its interval, unless all cases have the same."""
    alike = len({other.interval for other in chosen}) == 1
    return case.label.replace(f" @ {format_duration(case.interval)}", "") if alike else case.label


def _published(known: PublishedMeasures, *, failure: bool) -> list[str]:
    def shown(*values: float | None, unit: str = "", digits: int = 0) -> str:
        if all(value is None for value in values):
            return ""
        return ", ".join("–" if value is None else f"{value:,.{digits}f}{unit}" for value in values)

    latency = shown(known.latency_mean, None, known.latency_p99)
    recovery = [shown(known.lost), "", shown(known.recovery, unit=" s"), shown(known.rollback, unit=" s", digits=1)]
    return [
        "↑ published, 24 elements", "", "", *(recovery if failure else [""] * len(recovery)), "",
        f"{latency} ms" if latency else "",
        shown(known.checkpoints, known.forced), "", "",
    ]  # fmt: skip


def _skewed(compared: Sequence[Pair]) -> str:
    columns = (
        "workload",
        "protocol",
        "events/s",
        "p99",
        "with skew",
        "",
        "take",
        "with skew",
        "first output",
        "with skew",
    )
    rows = [
        [
            case.title, replace(case, skew=None).label, f"{skewed.rate:,.0f}", f"{even.latency_p99:.0f} ms",
            f"{skewed.latency_p99:.0f} ms", f"× {pair.slower:.2f}", f"{even.take_ms:.1f} ms",
            f"{skewed.take_ms:.1f} ms", _seconds(even.first_output), _seconds(skewed.first_output),
        ]
        for pair in compared
        for case, even, skewed in [pair]
    ]  # fmt: skip
    return p.table(columns, rows, numbers=tuple(range(2, len(columns))))


def _fallen(falls: Mapping[Falling, Fall]) -> str:
    columns = ("protocol", "checkpoints", "forced", "rollback", "elements rolled back to the start")
    rows = []
    for falling, one in falls.items():
        start = f"{one.to_the_start} of {one.elements}"
        rows.append([falling.label, str(one.checkpoints), str(one.forced), _seconds(one.rollback), start])
        known = PUBLISHED.get(("nhop", "", falling.protocol, round(parse_duration(falling.interval) / 1e6)))
        if known is not None and falling.scope != "cycles" and falling.rule != "bcs":
            rows.append(["published", str(known.checkpoints), str(known.forced), _seconds(known.rollback), ""])
    return p.table(columns, rows, numbers=(1, 2, 3, 4))


def _pictures(chosen: Results) -> list[str]:
    """Charts of latency and throughput around the kill, a line per protocol, of the first repetition."""
    failed = {c: r for c, r in chosen.items() if c.failure and c.repetition == 0}
    shown = failed or {c: r for c, r in chosen.items() if c.repetition == 0}
    latency, rates = [], []
    for case, result in shown.items():
        name = _label(case, chosen)
        latency.append(Series(name, [ChartPoint(at, ms) for at, _, ms in result.series if ms >= 0], dots=False))
        rates.append(Series(name, [ChartPoint(at, rows) for at, rows, _ in result.series], steps=True, dots=False))
    kills = {case.killed_at: "kill" for case in failed}
    about = (
        ("Latency", chart(latency, x_label="seconds", y_label="latency of output, ms", moments=kills)),
        ("Throughput", chart(rates, x_label="seconds", y_label="rows/s at the sinks", moments=kills)),
    )
    pictures = []
    for what, drawn in about:
        when = f" A kill at {' or '.join(f'{at:.1f} s' for at in kills)}." if kills else ""
        over = " Lines that coincide show as stripes." if len(shown) > 1 else ""
        pictures.append(p.figure(drawn, f"{what}.{when}{over}"))
    return pictures


_CYCLE = (
    "A run hosts the operators of a cycle in one element, so its checkpoints see no cycle of channels. Here the "
    "elements and the director of each protocol run in the published deployment, six pipelines with feedback "
    "channels from any to any, with messages instead of rows; one element is killed after twelve intervals."
)

_METHOD = (
    "Everything is measured outside the elements: rows and latencies in the persistent streams of the sinks, in "
    "steps of 0.3 s; checkpoints, recovery lines and recoveries at the coordinator. Latency: from when a tuple was "
    "due at its source until its result was in the sink's stream, before the kill. First output: from the kill to "
    "the first new rows. Recovery: until the latency was within 10 % of its mean before the kill for four steps; "
    "adaptive: within 10 % of the 95th percentile of the steps before the kill. Rollback: the longest rollback of an "
    "element; elements: how many rolled back beside the killed one. Taken, forced: durable checkpoints, and those of "
    "them that a message forced; size, take: their mean size and time until durable. Lost, altered and repeated: "
    "rows of the output that are missing, have other values or occur too often, by an oracle that reads only inputs "
    "and sinks. Messages lost: rows that were sent and never delivered, by their numbers. For repetitions the table "
    "has the mean, and the maximum of lost, altered and repeated rows."
)
