"""The published statements about crashes (section 5.6.4, figures 5.12, 5.13), for a reading of configuration 2.

Statements about the size of a difference that can be close to 0 hold unless our interval contradicts them. "Slightly"
means by less than 0.01, and "approximately half" from 0.4 to 0.6; 0.009 is meant to three digits.
"""

import itertools
from collections.abc import Sequence

from riprap.san.replicate import Replications
from riprap.san.streaming.scenario import AVAILABILITY, WITHOUT_PROPAGATION, tainted
from riprap_papers.san.table_rows import SanRow, gap, mean, measured, statement

RATES = (250.0, 350.0, 450.0, 550.0)
CRASH_RATES = (5.56e-4, 3.33e-4, 2.38e-4, 1.85e-4)
RECOVERIES = (3.5, 15.0)
SINK = "Sink"
RATE, CRASHES = "figure 5.12: input rate", "figure 5.13: crash rate"  # names of tables

Points = dict[tuple[float, float, float], Replications]  # by input rate, recovery and crash rate


def wanted() -> list[tuple[float, float, float]]:
    """The points of both figures."""
    by_rate = [(rate, recovery, 1.85e-4) for rate in RATES for recovery in RECOVERIES]
    return list(dict.fromkeys([*by_rate, *((450.0, 3.5, crash_rate) for crash_rate in CRASH_RATES)]))


def figures(technique: str, points: Points, fault_free: dict[float, float]) -> list[SanRow]:
    """The numbers of both figures. `fault_free`: tuples at the sink by input rate."""
    rows = []
    for recovery in RECOVERIES:
        for rate in RATES:
            point, case = points[rate, recovery, 1.85e-4], f"{technique}, recovery {recovery:g} s, {rate:g} tuples/s"
            share = point.column(tainted(SINK)) / fault_free[rate]
            rows += [
                measured(RATE, case, "availability", None, point.column(AVAILABILITY)),
                measured(RATE, case, "tainted tuples", None, point.column(tainted(SINK))),
                measured(RATE, case, "share of fault-free output", None, share),
            ]
    for crash_rate in CRASH_RATES:
        point, case = points[450.0, 3.5, crash_rate], f"{technique}, {crash_rate:.2E}/s"
        rows += [
            measured(CRASHES, case, "availability", None, point.column(AVAILABILITY)),
            measured(CRASHES, case, "availability ignoring propagation", None, point.column(WITHOUT_PROPAGATION)),
            measured(CRASHES, case, "tainted tuples", None, point.column(tainted(SINK))),
        ]
    return rows


def alone(technique: str, points: Points, reading: str = "") -> list[SanRow]:
    """Statements about each technique."""
    rows = []
    for recovery in RECOVERIES:
        found = [points[rate, recovery, 1.85e-4] for rate in RATES]
        shares = [mean(point, tainted(SINK)) / rate for point, rate in zip(found, RATES, strict=True)]
        case = f"{technique}, recovery {recovery:g} s"
        told = {
            "availability rises with the input rate": _rise([mean(point, AVAILABILITY) for point in found]),
            "tainted tuples rise with it": _rise([mean(point, tainted(SINK)) for point in found]),
            "their share falls": _rise([-share for share in shares]),
        }
        rows += [statement(RATE, f"{case}: {words}", true, reading) for words, true in told.items()]
    found = [points[450.0, 3.5, crash_rate] for crash_rate in CRASH_RATES]
    falls = _rise([mean(point, AVAILABILITY) for point in found])
    over = all(mean(point, WITHOUT_PROPAGATION) > mean(point, AVAILABILITY) for point in found)
    return [
        *rows,
        statement(CRASHES, f"{technique}: availability falls as the crash rate rises", falls, reading),
        statement(CRASHES, f"{technique}: ignoring propagation overestimates availability", over, reading),
    ]


def against(groups: Points, checkpoints: Points, reading: str) -> list[SanRow]:
    """Statements that compare groups and checkpoints."""
    slow = {rate: groups[rate, 15.0, 1.85e-4] for rate in RATES}
    quick = {rate: checkpoints[rate, 3.5, 1.85e-4] for rate in RATES}
    behind = {rate: gap(slow[rate], quick[rate], AVAILABILITY) for rate in RATES}
    fewer = all(mean(slow[rate], tainted(SINK)) < mean(quick[rate], tainted(SINK)) for rate in RATES)
    equal = all(
        mean(groups[rate, recovery, 1.85e-4], tainted(SINK)) < mean(checkpoints[rate, recovery, 1.85e-4], tainted(SINK))
        for rate in RATES
        for recovery in RECOVERIES
    )
    slightly = all(behind[rate].mean > -0.01 and behind[rate].low < 0.0 for rate in RATES[:-1])
    rows = [
        statement(RATE, "HA groups give fewer tainted tuples than checkpoints with the same recovery", equal, reading),
        statement(RATE, "HA groups at 15 s give fewer tainted tuples than checkpoints at 3.5 s", fewer, reading),
        statement(
            RATE,
            "HA groups at 15 s are slightly less available than checkpoints at 3.5 s, below 550/s",
            slightly,
            reading,
        ),
        statement(RATE, "and not less available at 550/s", behind[550.0].high >= 0.0, reading),
    ]
    rows += [
        SanRow(
            RATE, f"HA groups at 15 s less checkpoints at 3.5 s, {rate:g} tuples/s", "difference in availability", None,
            behind[rate].mean, behind[rate].low, behind[rate].high, "", reading,
        )
        for rate in RATES
    ]  # fmt: skip
    pairs = [(groups[450.0, 3.5, rate], checkpoints[450.0, 3.5, rate]) for rate in CRASH_RATES]
    largest = max((gap(*pair, AVAILABILITY) for pair in pairs), key=lambda found: abs(found.mean))
    ratio = mean(pairs[0][0], tainted(SINK)) / mean(pairs[0][1], tainted(SINK))
    differs, halves = (
        "the difference in availability is at most 0.009",
        "HA groups make approximately half the tainted tuples",
    )
    return [
        *rows,
        SanRow(CRASHES, "HA groups less checkpoints", "largest difference in availability", 0.009, largest.mean,
            largest.low, largest.high, "at most", reading),
        statement(CRASHES, differs, min(abs(largest.low), abs(largest.high)) < 0.0095, reading),
        SanRow(CRASHES, "HA groups over checkpoints, 5.56E-04/s", "ratio of tainted tuples", 0.5, ratio, bound="equal",
            reading=reading),
        statement(CRASHES, f"{halves} at 5.56E-04/s", 0.4 <= ratio <= 0.6, reading),
    ]  # fmt: skip


def _rise(values: Sequence[float]) -> bool:
    return all(first < second for first, second in itertools.pairwise(values))
