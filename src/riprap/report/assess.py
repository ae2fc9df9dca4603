"""The report of an assessment: which operators matter, how much, and what to do about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log1p

import numpy as np

from riprap.base.quantities import Duration, format_count, show_duration
from riprap.faults.campaign_settings import CampaignSettings
from riprap.faults.campaign_summary import Metrics, TargetSummary
from riprap.faults.models import STRIKES_ONCE
from riprap.faults.operator_advice import OperatorAdvice, deciding
from riprap.faults.ordering import DRAWS, MetricOrder
from riprap.faults.quality_metrics import Interval, fitted_line
from riprap.faults.targets import TargetChoice
from riprap.graph.drawing import Edge, Node, Shape, draw
from riprap.graph.graph import Graph
from riprap.graph.specs import Sink, Source
from riprap.report import page as p
from riprap.report.chart import ChartPoint, Series, chart

_MILD, _SEVERE = (0xFD, 0xEB, 0xD8), (0xB4, 0x23, 0x18)
_SHOWN = 150  # sections along the stream at most
_STYLE = "<style>.duo{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:0 1.5rem}\
.duo svg{width:100%;height:auto}.duo figure{margin:.4rem 0}</style>"


@dataclass(frozen=True)
class AssessmentReport:
    """The content of the report."""

    graph: Graph
    settings: CampaignSettings
    placed: Sequence[TargetChoice]
    summaries: Sequence[TargetSummary]
    checkpointed: Sequence[TargetSummary]  # of operators with state, from a checkpoint
    verdicts: Mapping[str, OperatorAdvice]
    protected: Mapping[str, TargetSummary]  # by operator: under the given plan, or the proposed one
    techniques: Mapping[str, str]  # by operator: its protection under that plan
    facts: Mapping[str, str]  # the key figures at the top
    method: Mapping[str, str]  # how the results were obtained
    warnings: Sequence[str]
    proposed: str  # the proposed plan, as TOML
    order: Mapping[str, Mapping[str, MetricOrder]]  # by sink and metric
    unassessable: Mapping[str, str] = field(default_factory=dict)  # targets that no fault could hit, and why


def report(content: AssessmentReport) -> str:
    """The whole report."""
    worst = max(content.summaries, key=lambda summary: summary.paired.I)
    lead = (
        f"{worst.target} matters most (I = {worst.paired.I:.1f}); "
        + "; ".join(f"{_list(names)}: {advice}" for advice, names in _by_advice(content.verdicts).items())
        + "."
    )
    blocks = [_STYLE, p.facts(content.facts), *(p.note(words) for words in content.warnings), *summary_blocks(content)]
    if content.protected:
        blocks.append(p.section("Before and after", *_before_and_after(content)))
    blocks.append(p.section("Confidence in the order", *_orders(content)))
    blocks += [p.section(f"{s.target} → {s.sink}", *_target(content, s)) for s in _ranked(content.summaries)]
    blocks.append(
        p.section(
            "The proposed plan",
            p.text("`Before and after` shows its effect; edit it and assess again with --plan to compare."),
            p.code(content.proposed),
        )
    )
    blocks.append(p.section("Method", _method(content)))
    return p.page(f"Assessment of {content.graph.name}", blocks, lead=lead)


def summary_blocks(content: AssessmentReport) -> list[str]:
    """The graph and the table of metrics."""
    caption = "The darker an operator, the larger the error in the output when it fails."
    return [
        p.section("The graph", p.figure(draw(*drawing(content), title=content.graph.name), caption)),
        p.section("The operators, most critical first", _table(content), _legend(content.settings)),
    ]


def drawing(content: AssessmentReport) -> tuple[list[Node], list[Edge]]:
    worst: dict[str, TargetSummary] = {}
    alone = {summary.target for summary in content.summaries}
    for summary in content.summaries:
        for name in summary.target.split("+"):
            if (name == summary.target or name not in alone) and (
                name not in worst or summary.paired.I > worst[name].paired.I
            ):
                worst[name] = summary
    like = {placement.operator: placement for placement in content.placed}
    highest = max((summary.paired.I for summary in content.summaries), default=0.0)
    nodes = []
    for spec in content.graph:
        shape: Shape = "source" if isinstance(spec, Source) else "sink" if isinstance(spec, Sink) else "box"
        placement = like.get(spec.name)
        summary_of = worst.get(spec.name) or worst.get(placement.like if placement else "")
        if summary_of is None:
            words = "not assessed" if spec.name in content.unassessable else ""
            about = content.unassessable.get(spec.name) or (placement.reason if placement else spec.describe())
            nodes.append(Node(spec.name, spec.name, words, shape, tooltip=about))
            continue
        own = spec.name in worst
        words = f"I {summary_of.paired.I:.1f} · R {summary_of.paired.R}" if own else f"like {summary_of.target}"
        verdict = content.verdicts.get(summary_of.target)
        about = f"{spec.name}: {placement.reason if placement else ''}. {verdict.sentence if verdict else ''}"
        badge = verdict.advice if verdict and own else ""
        nodes.append(Node(spec.name, spec.name, words, shape, _colour(summary_of.paired.I, highest), badge, about))
    return nodes, [Edge(s.source, s.target, tooltip=s.id) for s in content.graph.streams]


def _colour(impact: float, highest: float) -> str:
    share = log1p(impact) / log1p(highest) if highest > 0 else 0.0
    return "#" + "".join(f"{round(a + (b - a) * share**2):02x}" for a, b in zip(_MILD, _SEVERE, strict=True))


def _by_advice(verdicts: Mapping[str, OperatorAdvice]) -> dict[str, list[str]]:
    words = {
        "compare": "compare copies",
        "replicate": "replicate",
        "checkpoint": "checkpoint and restart quickly",
        "restart": "a restart is enough",
        "nothing": "nothing is needed",
    }
    return {
        words[advice]: names
        for advice in words
        if (names := [name for name, verdict in verdicts.items() if verdict.advice == advice])
    }


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def _ranked(summaries: Sequence[TargetSummary]) -> list[TargetSummary]:
    return sorted(summaries, key=lambda summary: (-summary.paired.I, -summary.paired.R))


def _table(content: AssessmentReport) -> str:
    several = len(content.settings.scores) > 1
    rows = []
    saved = {(s.sink, s.target): s for s in content.checkpointed}
    for summary in _ranked(content.summaries):
        verdict, kept = content.verdicts[summary.target], saved.get((summary.sink, summary.target))
        rows.append(
            [
                summary.target,
                *([summary.sink] if several else []),
                *_cells(summary.paired),
                *([f"{kept.paired.R}, {kept.paired.I:.2f}" if kept else "–"] if saved else []),
                _interval(summary.impact_interval),
                _in_brackets(summary.unpaired),
                f"{float(np.mean(summary.decisive.quality)):.2f}",
                verdict.sentence,
            ]
        )
    columns = [
        "operator",
        *(["sink"] if several else []),
        "C",
        "D",
        "R",
        "I",
        *(["R, I checkpointed"] if saved else []),
    ]
    first = 2 if several else 1
    numbers = [*range(first, len(columns)), len(columns) + 2]
    columns += ["95 % of I", "unpaired", "QS", "verdict"]
    return p.table(columns, rows, numbers=numbers, long=[len(columns) - 1], hot=_hot(content))


def _hot(content: AssessmentReport) -> list[int]:
    ranked = _ranked(content.summaries)
    return [i for i, summary in enumerate(ranked) if content.verdicts[summary.target].advice == "replicate"]


def _cells(metrics: Metrics) -> list[str]:
    return [f"{metrics.C:.2f}", f"({metrics.D[0]:.2f}, {metrics.D[1]})", str(metrics.R), f"{metrics.I:.2f}"]


def _in_brackets(metrics: Metrics) -> str:
    return " · ".join(_cells(metrics))


def _interval(interval: Interval | None) -> str:
    return f"{interval.low:.2f} … {interval.high:.2f}" if interval is not None else "–"


def _legend(settings: CampaignSettings) -> str:
    return p.text(
        "C: rank correlation of the quality score with the length of the outage. "
        "D: spread of the quality score over the positions of the fault in the stream, and whether these differ "
        "significantly (R) or not (A). "
        f"R: sections of {format_count(settings.section)} tuples until {100 * settings.percentile:g} % of the wrong "
        "sections have passed. I: sum of the squared errors of these sections. "
        f"QS: quality score under {_decisive(settings)}, mean over offsets; inf, and not drawn, where the golden run "
        "has no output. Each faulty run is paired with the golden run of the same jitter; unpaired figures compare "
        "it with the mean of all golden runs."
    )


def _decisive(settings: CampaignSettings) -> str:
    return "the most harmful bit flip" if settings.fault in STRIKES_ONCE else "the longest outage"


def _before_and_after(content: AssessmentReport) -> list[str]:
    """The effect of each operator's fault, without the plan and under it."""
    before = {name: s for s in deciding(content.summaries).values() for name in s.target.split("+")}
    before |= {s.target: s for s in deciding(content.summaries).values()}
    rows = []
    for placement in content.placed:
        name = placement.operator
        old = before.get(name) or before.get(placement.like)
        new = content.protected.get(name, old)
        if old is None or new is None:
            continue
        together = new.target.replace("+", ", ") if "+" in new.target else "alone"
        rows.append(
            [
                name,
                content.techniques.get(name, "restart"),
                *_cells(old.paired)[2:],
                *_cells(new.paired)[2:],
                show_duration(new.decisive.duration),
                together if name in content.protected else "alone",
            ]
        )
    columns = [
        "operator",
        "under the plan",
        "R before",
        "I before",
        "R after",
        "I after",
        "longest outage",
        "fails with",
    ]
    words = (
        "When an operator of a group fails, its whole replica fails and another takes over; the outage of other "
        "operators stays as it was."
    )
    return [p.table(columns, rows, numbers=range(2, 6), long=[1, 7]), p.text(words)]


def _orders(content: AssessmentReport) -> list[str]:
    rows = []
    for sink, by_metric in content.order.items():
        for metric, order in by_metric.items():
            named = f"{metric} at {sink}" if len(content.order) > 1 else metric
            for place in order.places:
                above = f"{place.above_next:.0%}" if place.above_next is not None else ""
                rows.append([named, place.target, f"{place.value:.4g}", f"{place.low:.4g} … {place.high:.4g}", above])
            rows.append([named, "the whole order", "", "", f"{order.whole:.0%}"])
    words = (
        f"A bootstrap of {DRAWS} draws over offsets and repetitions: how often an operator ranks above the next "
        "one. A tie counts half."
    )
    return [p.table(["by", "operator", "value", "95 %", "above the next"], rows, numbers=[2, 4]), p.text(words)]


def _target(content: AssessmentReport, summary: TargetSummary) -> list[str]:
    lost = "Quality score (mean over offsets) against the tuples lost, and the fitted line."
    once = content.settings.fault in STRIKES_ONCE  # such faults lose nothing
    figures = [
        *([] if once else [p.figure(_against_outage(summary), lost)]),
        p.figure(
            _against_offset(content.settings, summary),
            f"Quality score under {_decisive(content.settings)}, by position of the fault.",
        ),
        p.figure(
            _along(content.settings, summary),
            f"Quality score along the stream after the fault, worst offset, under {_decisive(content.settings)}.",
        ),
    ]
    return [p.text(content.verdicts[summary.target].sentence), '<div class="duo">' + "".join(figures) + "</div>"]


def _against_outage(summary: TargetSummary) -> str:
    x = np.array([outage.tuples for outage in summary.outages], float)
    y = np.array([outage.quality.mean() for outage in summary.outages])
    points = [
        ChartPoint(
            a,
            b,
            f"{show_duration(o.duration)} at {o.rate} rate, {format_count(o.tuples)} tuples: "
            f"QS {b:.3f}, R {o.R}, I {o.I:.2f}",
        )
        for a, b, o in zip(x.tolist(), y.tolist(), summary.outages, strict=True)
        if np.isfinite(b)
    ]
    series = [Series("quality score", points)]
    line = fitted_line(x, y)
    if line is not None:
        ends = [float(x.min()), float(x.max())]
        series.append(
            Series(
                f"{line[1]:.2f} {'+' if line[0] >= 0 else '−'} {1000 * abs(line[0]):.3g} per 1,000 tuples",
                [ChartPoint(end, line[0] * end + line[1]) for end in ends],
            )
        )
    return chart(series, x_label="tuples lost", y_label="quality score")


def _against_offset(settings: CampaignSettings, summary: TargetSummary) -> str:
    points = [
        ChartPoint(offset / 1e6, q, f"after {format_count(offset)} tuples: QS {q:.3f}")
        for offset, q in zip(settings.offsets, summary.decisive.quality.tolist(), strict=True)
        if np.isfinite(q)
    ]
    golden = [ChartPoint(0.0, 1.0, "golden"), ChartPoint(settings.offsets[-1] / 1e6, 1.0, "golden")]
    return chart(
        [Series("quality score", points), Series("golden", golden)],
        x_label="million tuples before the fault",
        y_label="quality score",
    )


def _along(settings: CampaignSettings, summary: TargetSummary) -> str:
    worst = int(np.argmax(np.abs(summary.impact)))
    error, until = summary.errors[worst], summary.recovery[worst]
    shown = error[: min(len(error), _SHOWN, max(20, 2 * until))]
    points = [
        ChartPoint(u, 1.0 + e, f"section {u}: QS {1 + e:.3f}", f"R = {until}" if u == until else "")
        for u, e in enumerate(shown.tolist(), 1)
    ]
    ends = (0.0, float(len(shown)))
    limits = [
        Series(name, [ChartPoint(x, level) for x in ends])
        for name, level in (("threshold", 1 + settings.threshold), ("", 1 - settings.threshold))
    ]
    return chart(
        [Series("quality score", points), *limits],
        x_label=f"sections after offset {format_count(settings.offsets[worst])}",
        y_label="quality score",
    )


def _method(content: AssessmentReport) -> str:
    settings = content.settings
    rows = [
        ["fault", f"{settings.fault}, state {', '.join(sorted({str(t.state) for t in settings.targets}))}"],
        ["output score functions", ", ".join(f"{sink}: {text}" for sink, text in settings.scores.items())],
        ["errors", "overestimates alone" if settings.errors == "over" else "absolute"],
        ["offsets", ", ".join(format_count(offset) for offset in settings.offsets)],
        [
            "outages",
            ", ".join(show_duration(Duration(d)) for d in settings.outages)
            + " at "
            + " and ".join(settings.rates)
            + " rate",
        ],
        *([name, value] for name, value in content.method.items()),
        *([f"target {placement.operator}", placement.reason] for placement in content.placed),
    ]
    return p.table(["", ""], rows, long=[1])
