"""The report of the repeated assessment of Bargain Discovery: published tables and figures beside ours."""

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from riprap.base.quantities import format_count, format_duration
from riprap.faults.campaign_summary import TargetSummary
from riprap.faults.quality_metrics import fitted_line
from riprap.report import page as p
from riprap.report.assess import AssessmentReport
from riprap.report.chart import ChartPoint, Series, chart
from riprap_papers.published.assessment_tables import LENGTHS, TABLE, AssessmentRow, at_peak

_STYLE = "<style>.trio{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),1fr));gap:0 1.2rem}\
.trio svg{width:100%;height:auto}.trio figure{margin:.4rem 0}</style>"
_AFTER = 60  # sections shown after a fault


def reproduction_page(content: AssessmentReport, rows: Sequence[AssessmentRow], *, command: str = "") -> str:
    by_target = {summary.target: summary for summary in content.summaries}
    statements = [row for row in rows if row.metric == "holds"]
    held = sum(row.ours == 1.0 for row in statements)
    lead = (
        f"{held} of {len(statements)} published statements hold for generated data. The published numbers are of other "
        "data: only the order of the operators can be compared."
    )
    blocks = [
        _STYLE,
        p.facts(content.facts),
        p.section("Table 4.2: the metrics", _table(by_target)),
        p.section("The order of the operators, and its confidence", _rows(rows, "order")),
        p.section("Statements about single operators", _rows(rows, "statements")),
        p.section(
            "Figure 4.11: quality score against tuples lost, per offset",
            _side_by_side(
                [(name, _against_tuples(content, by_target[name])) for name in ("Source", "QuoteFilter", "TradeFilter")]
            ),
        ),
        p.section(
            "Figure 4.12: quality score under the longest outage, all targets",
            p.figure(_all_targets(content), "By position of the fault; 1 is the golden run."),
        ),
        p.section(
            "Figure 4.14: TradeFilter along the stream, outages of 2, 8 and 16 s",
            _side_by_side(_lengths(content, by_target["TradeFilter"])),
            _rows(rows, "figure 4.14"),
        ),
        p.section("Figure 4.15: before and after re-deployment in two groups", _rows(rows, "figure 4.15")),
    ]
    return p.page("The published assessment of Bargain Discovery, and ours", blocks, lead=lead, footer=command)


def to_json(rows: Sequence[AssessmentRow]) -> list[dict[str, object]]:
    return [asdict(row) for row in rows]


def _table(summaries: dict[str, TargetSummary]) -> str:
    lines = []
    for name, (c, d, r, i) in TABLE.items():
        ours = summaries[name].paired
        theirs = (f"{c:.2f}", f"({d[0]:.2f}, {d[1]})", str(r), f"{i:.2f}")
        own = (f"{ours.C:.2f}", f"({ours.D[0]:.2f}, {ours.D[1]})", str(ours.R), f"{ours.I:.2f}")
        lines.append([name, *(cell for pair in zip(theirs, own, strict=True) for cell in pair)])
    columns = ["operator", "C published", "ours", "D published", "ours", "R published", "ours", "I published", "ours"]
    return p.table(columns, lines, numbers=range(1, 9))


def _rows(rows: Sequence[AssessmentRow], table: str) -> str:
    lines = [
        [row.case, "" if row.metric == "holds" else row.metric, _shown(row.published, row), _shown(row.ours, row)]
        for row in rows
        if row.table == table
    ]
    return p.table(["", "", "published", "ours"], lines, long=[0, 2, 3])


def _shown(value: float | str | None, row: AssessmentRow) -> str:
    if row.metric == "holds":
        return "holds" if value == 1.0 else "does not hold"
    return value if isinstance(value, str) else "" if value is None else f"{value:.3g}"


def _side_by_side(figures: Sequence[tuple[str, str]]) -> str:
    return '<div class="trio">' + "".join(p.figure(svg, words) for words, svg in figures) + "</div>"


def _against_tuples(content: AssessmentReport, summary: TargetSummary) -> str:
    lost = np.array([outage.tuples for outage in summary.outages], float)
    series = []
    for number, offset in enumerate(content.settings.offsets):
        scores = np.array([outage.quality[number] for outage in summary.outages])
        points = [
            ChartPoint(x, y, f"{format_duration(o.duration)} at {o.rate} rate: QS {y:.3f}")
            for x, y, o in zip(lost.tolist(), np.nan_to_num(scores, posinf=0.0).tolist(), summary.outages, strict=True)
        ]
        line = fitted_line(lost, scores)
        slope = f", {1000 * line[0]:+.3g} per 1,000" if line is not None else ""
        series.append(Series(f"after {format_count(offset)}{slope}", points))
    return chart(series, x_label="tuples lost", y_label="quality score")


def _all_targets(content: AssessmentReport) -> str:
    series = [
        Series(
            summary.target,
            [
                ChartPoint(offset / 1e6, float(np.nan_to_num(q, posinf=0.0)), f"{summary.target}: QS {q:.3f}")
                for offset, q in zip(content.settings.offsets, summary.decisive.quality.tolist(), strict=True)
            ],
        )
        for summary in content.summaries
    ]
    return chart(series, x_label="million tuples before the fault", y_label="quality score")


def _lengths(content: AssessmentReport, trades: TargetSummary) -> list[tuple[str, str]]:
    worst = int(np.argmax(np.abs(trades.impact)))
    figures = []
    for seconds in LENGTHS:
        outage = at_peak(trades, seconds)
        if outage is None:
            continue
        error = outage.errors[worst][:_AFTER]
        until = outage.recovery[worst]
        points = [
            ChartPoint(u, float(1.0 + e), f"section {u}: QS {1 + e:.3f}", f"R = {until}" if u == until else "")
            for u, e in enumerate(error.tolist(), 1)
        ]
        ends = (0.0, float(len(error)))
        golden = Series("golden", [ChartPoint(x, 1.0) for x in ends])
        words = f"{seconds} s at the peak rate, after {format_count(content.settings.offsets[worst])} tuples"
        svg = chart([Series("quality score", points), golden], x_label="sections", y_label="quality score")
        figures.append((words, svg))
    return figures
