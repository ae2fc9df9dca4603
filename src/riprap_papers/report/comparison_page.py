"""The page of a comparison: the advice first, then a picture and a table per workload, published beside ours."""

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
    "protocol", "lost, altered", "repeated", "messages lost", "first output", "recovery, adaptive", "rollback, back",
    "rows/s", "latency mean, p50, p99", "taken, forced", "size, take", "detect, restart, restore",
)  # fmt: skip


def comparison_report(
    results: Results,
    *,
    host: str,
    command: str = "",
    notes: Sequence[str] = (),
    falls: Mapping[Falling, Fall] | None = None,
) -> str:
    """`host` says in a sentence where it was run; `notes` what to know of it; `falls` are of a cycle."""
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
        else "–",  # nothing had come out yet
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
        hurt = replace(case, failure=True, repetition=0)  # what was published is shown once
        if published is not None and (case.failure or hurt not in chosen):
            rows.append(_published(published, failure=case.failure))
    return p.table(COLUMNS, rows, numbers=tuple(range(1, len(COLUMNS))))


def _repetitions(chosen: Results) -> dict[ComparedCase, list[Result]]:
    """By the first of them."""
    found: dict[ComparedCase, list[Result]] = {}
    for case, result in chosen.items():
        found.setdefault(replace(case, repetition=0), []).append(result)
    return found


def _label(case: ComparedCase, chosen: Results) -> str:
    """Of a case among others: the interval, where it is not the same in all of them."""
    alike = len({other.interval for other in chosen}) == 1
    return case.label.replace(f" @ {format_duration(case.interval)}", "") if alike else case.label


def _published(known: PublishedMeasures, *, failure: bool) -> list[str]:
    def shown(*values: float | None, unit: str = "", digits: int = 0) -> str:
        if all(value is None for value in values):
            return ""
        return ", ".join("–" if value is None else f"{value:,.{digits}f}{unit}" for value in values)

    latency = shown(known.latency_mean, None, known.latency_p99)
    hurt = [shown(known.lost), "", shown(known.recovery, unit=" s"), shown(known.rollback, unit=" s", digits=1)]
    return [
        "↑ published, 24 elements", "", "", *(hurt if failure else [""] * len(hurt)), "",
        f"{latency} ms" if latency else "",
        shown(known.checkpoints, known.forced), "", "",
    ]  # fmt: skip


def _skewed(found: Sequence[Pair]) -> str:
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
        for pair in found
        for case, even, skewed in [pair]
    ]  # fmt: skip
    return p.table(columns, rows, numbers=tuple(range(2, len(columns))))


def _fallen(falls: Mapping[Falling, Fall]) -> str:
    columns = ("protocol", "checkpoints", "forced", "rollback", "elements back to the start")
    rows = []
    for falling, one in falls.items():
        start = f"{one.to_the_start} of {one.elements}"
        rows.append([falling.label, str(one.checkpoints), str(one.forced), _seconds(one.rollback), start])
        known = PUBLISHED.get(("nhop", "", falling.protocol, round(parse_duration(falling.interval) / 1e6)))
        if known is not None and falling.scope != "cycles" and falling.rule != "bcs":
            rows.append(["published", str(known.checkpoints), str(known.forced), _seconds(known.rollback), ""])
    return p.table(columns, rows, numbers=(1, 2, 3, 4))


def _pictures(chosen: Results) -> list[str]:
    """Latency and throughput around the kill, a line per protocol; of each the first repetition."""
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
        over = " Lines that lie on each other show as stripes." if len(shown) > 1 else ""
        pictures.append(p.figure(drawn, f"{what}.{when}{over}"))
    return pictures


_CYCLE = (
    "A run hosts the operators of a cycle in one element, so its checkpoints see no cycle of channels. These are the "
    "machines and the director of each protocol on the published deployment, six pipelines with a channel from any to "
    "any that leads back, with messages instead of rows; one element dies after twelve intervals."
)

_METHOD = (
    "Everything is taken from outside the elements: rows and latencies from the persistent streams of the sinks, in "
    "steps of 0.3 s; checkpoints, lines and recoveries from the coordinator. Latency is from when a tuple was due at "
    "its source until what it caused was in the sink's stream, before the kill. First output: from the kill until new "
    "rows came. Recovery: until the latency was back within 10 % of its mean before the kill, and stayed for four "
    "steps; adaptive: within 10 % of what 95 % of the steps before stayed below. Rollback: how far the element that "
    "went back furthest went. Back: elements that went back beside the killed one. Taken, forced: checkpoints that are "
    "durable, and those of them that a message forced; size, take: their mean size and time until durable. Lost, "
    "altered and repeated: rows of the output that are missing, have other values, or are there too often, by an "
    "oracle that reads inputs and sinks alone. Messages lost: rows that an element sent and its consumer never had, by "
    "their numbers. Of repetitions the mean is shown, of what was lost, altered or repeated the most."
)
