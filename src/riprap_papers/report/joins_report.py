"""The report of the cost of checkpoints of a join: table 3.1 and figures 3.11 to 3.13, published beside ours."""

from collections.abc import Sequence

from riprap.report import page as p
from riprap.report.chart import ChartPoint, Series, chart
from riprap_papers.experiments.join_checkpoints import (
    CASES,
    PER_GROUP,
    PUBLISHED_ACHIEVED,
    PUBLISHED_LOSS,
    SINGLE,
    JoinOutcome,
)

RATES = ("case", "in, published", "ours", "out, published", "ours")
COLUMNS = ("case", "every", "with / without", "95 %", "blocks in, out", "CPU", "achieved", "published")


def joins_report(outcomes: Sequence[JoinOutcome]) -> str:
    worst = min(outcomes, key=lambda outcome: outcome.ratio)
    lead = (
        f"With checkpoints a join processes {worst.ratio:.3f} of the tuples that it processes without, in the worst "
        f"case ({worst.case}, every {worst.interval} s)."
    )
    intervals = sorted({outcome.interval for outcome in outcomes})
    figures = {1: "Figure 3.11", 10: "Figure 3.12"}
    blocks = [
        p.section("Table 3.1: rates without checkpoints", p.table(RATES, rates(outcomes), numbers=range(1, 5))),
        *(
            p.section(
                f"{figures.get(interval, 'One window')}: one window, a checkpoint every {interval} s",
                p.figure(
                    _curve(outcomes, interval),
                    "Tuples processed with checkpoints, relative to without; 95 % intervals.",
                ),
                p.table(
                    COLUMNS,
                    [cells(o) for o in outcomes if o.interval == interval and o.case != PER_GROUP.name],
                    long=[7],
                ),
            )
            for interval in intervals
        ),
        p.section(
            "Figure 3.13: per-group join",
            p.table(COLUMNS, [cells(o) for o in outcomes if o.case == PER_GROUP.name], long=[7]),
        ),
    ]
    return p.page("The cost of checkpoints of a join", blocks, lead=lead, footer="riprap reproduce joins")


def cells(outcome: JoinOutcome) -> list[str]:
    """One row of the table; columns as in COLUMNS."""
    key = (outcome.case, outcome.interval)
    published = ", ".join(words for words in (PUBLISHED_LOSS.get(key), PUBLISHED_ACHIEVED.get(key)) if words)
    return [
        outcome.case,
        f"{outcome.interval} s",
        f"{outcome.ratio:.3f}",
        f"{outcome.low:.3f} … {outcome.high:.3f}{'' if outcome.decided else ' (open)'}",
        f"{outcome.block_ratio:.2f}, {outcome.output_ratio:.2f}",
        f"{outcome.cpu_ratio:.2f}",
        f"{outcome.achieved:.2f} s",
        published,
    ]


def rates(outcomes: Sequence[JoinOutcome]) -> list[list[str]]:
    """Rows of table 3.1; columns as in RATES."""
    published = {case.name: case.published for case in CASES}
    rows = []
    for case in CASES:
        own = [outcome for outcome in outcomes if outcome.case == case.name]
        if own:
            ours = (sum(o.input_rate for o in own) / len(own), sum(o.output_rate for o in own) / len(own))
            theirs = published[case.name]
            rows.append([case.name, f"{theirs[0]:,.0f}", f"{ours[0]:,.0f}", f"{theirs[1]:,.0f}", f"{ours[1]:,.0f}"])
    return rows


def _curve(outcomes: Sequence[JoinOutcome], interval: int) -> str:
    windows = {case.name: case.window for case in SINGLE}
    own = [o for o in outcomes if o.interval == interval and o.case in windows]
    series = [
        Series("with / without", [ChartPoint(windows[o.case], o.ratio, f"{o.case}: {o.ratio:.3f}") for o in own]),
        Series("low", [ChartPoint(windows[o.case], o.low) for o in own]),
        Series("high", [ChartPoint(windows[o.case], o.high) for o in own]),
    ]
    return chart(series, x_label="tuples in the window", y_label="relative performance", log_x=True)
