"""The published assessment of Bargain Discovery (tables and figures of chapter 4), as rows with our results.

The published numbers are of trades and quotes of December 2005, ours of generated data. Only the order of the operators
and the statements about single operators can be compared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from riprap.faults.campaign_summary import OutageSummary, TargetSummary
from riprap.faults.ordering import MetricOrder

# Table 4.2: C, D, R, I.
TABLE: Mapping[str, tuple[float, tuple[float, str], int, float]] = {
    "Source": (-0.38, (0.21, "R"), 340, 21.23),
    "TradeFilter": (0.97, (0.76, "R"), 340, 48.70),
    "QuoteFilter": (-1.00, (0.00, "A"), 6, 6.00),
    "VWAP": (0.99, (0.14, "R"), 73, 30.87),
    "BargainIndex": (-0.69, (0.08, "A"), 43, 7.89),
}
# Figure 4.14: highest overestimate and I of TradeFilter at one offset, by seconds of outage.
LENGTHS: Mapping[int, tuple[float, float]] = {2: (0.07, 0.25), 8: (0.72, 12.85), 16: (1.44, 48.70)}
# Figure 4.15: R and I before and after re-deployment.
REDEPLOYED: Mapping[str, tuple[tuple[int, float], tuple[int, float]]] = {
    "Source": ((340, 21.23), (39, 1.05)),
    "TradeQuote": ((340, 21.23), (39, 1.05)),
    "TradeFilter": ((340, 48.70), (2, 2.0)),
    "Aggregator": ((340, 48.70), (2, 2.0)),
    "VWAP": ((73, 30.87), (2, 2.0)),
}
PLAN = """app = "bargain-discovery"

[operators.Source]
ha_group = "ticks"
[operators.TradeQuote]
ha_group = "ticks"
[operators.TradeFilter]
ha_group = "trades"
[operators.Aggregator]
ha_group = "trades"
[operators.VWAP]
ha_group = "trades"

[ha_groups.ticks]
replicas = 2
[ha_groups.trades]
replicas = 2
"""


@dataclass(frozen=True)
class AssessmentRow:
    """A number and the published one, or a statement: 1 if it holds."""

    table: str
    case: str
    metric: str
    published: float | str | None
    ours: float | str


def rows(
    summaries: Sequence[TargetSummary], protected: Mapping[str, TargetSummary], order: Mapping[str, MetricOrder]
) -> list[AssessmentRow]:
    """All published numbers and statements."""
    found = {summary.target: summary for summary in summaries}
    held = statements(summaries, protected)
    return [
        *_table(found),
        *(
            AssessmentRow("order", f"by {metric}", "order", _ranked(metric), order[metric].sentence())
            for metric in _PUBLISHED
        ),
        *(AssessmentRow("statements", words, "holds", 1.0, float(true)) for words, true in held.items()),
        *_lengths(found["TradeFilter"]),
        *_after(found, protected),
    ]


def _table(found: Mapping[str, TargetSummary]) -> list[AssessmentRow]:
    out = []
    for name, (c, d, r, i) in TABLE.items():
        ours = found[name].paired
        out += [
            AssessmentRow("table 4.2", name, "C", c, ours.C),
            AssessmentRow("table 4.2", name, "D", f"({d[0]:.2f}, {d[1]})", f"({ours.D[0]:.2f}, {ours.D[1]})"),
            AssessmentRow("table 4.2", name, "R", r, ours.R),
            AssessmentRow("table 4.2", name, "I", i, ours.I),
        ]
    return out


_PUBLISHED: Mapping[str, Mapping[str, float]] = {
    "R": {name: float(row[2]) for name, row in TABLE.items()},
    "I": {name: row[3] for name, row in TABLE.items()},
}


def _ranked(metric: str) -> str:
    theirs = _PUBLISHED[metric]
    return " > ".join(sorted(theirs, key=lambda name: -theirs[name]))


def statements(summaries: Sequence[TargetSummary], protected: Mapping[str, TargetSummary]) -> dict[str, bool]:
    """The statements that the publication makes, and whether each holds."""
    found = {summary.target: summary for summary in summaries}
    source, trades, quotes = found["Source"], found["TradeFilter"], found["QuoteFilter"]
    ours = {
        "R": {name: float(found[name].paired.R) for name in TABLE},
        "I": {name: found[name].paired.I for name in TABLE},
    }
    theirs = _PUBLISHED["I"]
    like = {"TradeQuote": "Source", "Aggregator": "TradeFilter"}
    return {
        "Source and TradeFilter have the greatest R, then VWAP and BargainIndex, then QuoteFilter": (
            min(ours["R"]["Source"], ours["R"]["TradeFilter"]) > max(ours["R"]["VWAP"], ours["R"]["BargainIndex"])
            and min(ours["R"]["VWAP"], ours["R"]["BargainIndex"]) > ours["R"]["QuoteFilter"]
        ),
        "the order of operators by I is that of table 4.2": all(
            ours["I"][a] > ours["I"][b] for a in theirs for b in theirs if theirs[a] > theirs[b]
        ),
        "Source and TradeFilter have the same R": source.paired.R == trades.paired.R,
        "TradeFilter has the greatest I, and QuoteFilter the least": (
            max(found.values(), key=lambda s: s.paired.I) is trades
            and min(found.values(), key=lambda s: s.paired.I) is quotes
        ),
        "figure 4.12: the quality score of QuoteFilter is 0 at every offset": bool(
            (np.abs(quotes.decisive.quality) < 1e-9).all()
        ),
        "figure 4.12: that of TradeFilter is above 1 at every offset": bool((trades.decisive.quality > 1.0).all()),
        "figure 4.11: Source overestimates under a short outage and underestimates under a long one": (
            float(source.outages[0].quality.mean()) > 1.0 > float(source.decisive.quality.mean())
        ),
        "figure 4.15: I falls for every operator of the two groups": all(
            protected[name].paired.I < found[like.get(name, name)].paired.I for name in REDEPLOYED if name in protected
        ),
    }


def at_peak(summary: TargetSummary, seconds: int) -> OutageSummary | None:
    """The outage of this many seconds at the highest rate of the assessment."""
    own = [outage for outage in summary.outages if outage.duration == seconds * 1_000_000]
    return max(own, key=lambda outage: outage.tuples, default=None)


def _lengths(trades: TargetSummary) -> list[AssessmentRow]:
    out, worst = [], int(np.argmax(np.abs(trades.impact)))
    for seconds, (over, impact) in LENGTHS.items():
        outage = at_peak(trades, seconds)
        if outage is not None:
            case = f"TradeFilter, {seconds} s at the peak rate"
            highest = float(outage.errors[worst].max(initial=0.0))
            out.append(AssessmentRow("figure 4.14", case, "highest overestimate", over, highest))
            out.append(AssessmentRow("figure 4.14", case, "I at this offset", impact, outage.impact[worst]))
    return out


def _after(found: Mapping[str, TargetSummary], protected: Mapping[str, TargetSummary]) -> list[AssessmentRow]:
    like = {"TradeQuote": "Source", "Aggregator": "TradeFilter"}
    out = []
    for name, (before, after) in REDEPLOYED.items():
        if name in protected:
            old, new = found[like.get(name, name)].paired, protected[name].paired
            out += [
                AssessmentRow("figure 4.15", name, "R", f"{before[0]} → {after[0]}", f"{old.R} → {new.R}"),
                AssessmentRow(
                    "figure 4.15", name, "I", f"{before[1]:.2f} → {after[1]:.2f}", f"{old.I:.2f} → {new.I:.2f}"
                ),
            ]
    return out
