"""The report of crashes of the yield model: prediction errors with a checkpoint and without."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from riprap.apps import fab
from riprap.report import page as p
from riprap.report.chart import ChartPoint, Series, chart
from riprap_papers.experiments.yield_crashes import (
    PUBLISHED_PROCESSED,
    PUBLISHED_RMSE,
    PUBLISHED_TUPLES,
    PUBLISHED_WORST,
    SCENARIOS,
    Scenario,
    Study,
)

NAMES: dict[Scenario, str] = {"S2": "latest checkpoint", "S3": "from scratch"}
OTHER_DATA = (
    "The published numbers are of another fab, another model and other data. Only the relation of the two scenarios "
    "can be compared, not the numbers."
)
THRESHOLDS = np.geomspace(0.001, 100.0, 26)  # percentage points, five to a decade


def yield_report(study: Study, *, command: str = "") -> str:
    s2, s3 = (study.rmse(scenario) for scenario in SCENARIOS)
    facts = {
        "RMSE, latest checkpoint": f"{s2:#.3g}",
        "RMSE, from scratch": f"{s3:#.3g}",
        "crashes": str(len(study.crashes)),
        "predictions a run": f"{len(study.golden.wafers):,}",
        "tuples to the model": f"{study.tuples:,}",
    }
    lead = (
        f"After a crash, the predictions of a model that restarts from its latest checkpoint differ by {s2:#.3g} "
        "percentage points (RMSE) from those without a crash; those of a model that starts from scratch, by "
        f"{s3:#.3g}."
    )
    blocks = [
        p.facts(facts),
        p.note(OTHER_DATA),
        p.section("Prediction errors, all runs", _summary(study), p.text(_losses(study))),
        p.section(
            "Distribution of prediction errors",
            p.figure(_curves({one: study.cdf(one, THRESHOLDS) for one in SCENARIOS}), _CAPTION),
        ),
        p.section("Run by run", _runs(study)),
    ]
    return p.page("Crashes of the yield model", blocks, lead=lead, footer=command)


_CAPTION = (
    "The share of the predictions made after a crash whose difference from the run without one is at most x, "
    "over all runs."
)


def _summary(study: Study) -> str:
    rows = []
    for scenario in SCENARIOS:
        errors = study.errors(scenario)
        middle, most, nearly_all = np.percentile(errors, (50, 90, 99))
        rows.append(
            [
                f"{scenario}, {NAMES[scenario]}",
                f"{study.rmse(scenario):#.3g}",
                f"{PUBLISHED_RMSE[scenario]:.2f}",
                *(f"{value:.2g}" for value in (middle, most, nearly_all, errors[-1])),
                f"{PUBLISHED_WORST[scenario]:.0f}",
            ]
        )
    columns = ["scenario", "RMSE", "published", "median", "90 %", "99 %", "worst", "published, of one run"]
    return p.table(columns, rows, numbers=range(1, len(columns)))


def _losses(study: Study) -> str:
    got = study.tuples - float(np.mean(study.lost))
    missing = np.mean([outcome.missing for outcome in study.outcomes["S2"]])
    return (
        f"In both scenarios the model processed {got:,.1f} of {study.tuples:,} tuples on average (published: "
        f"{PUBLISHED_PROCESSED['S2']:,.1f} of {PUBLISHED_TUPLES:,}), and {missing:.1f} wafers a run, which arrived "
        "while it was down, were not predicted."
    )


def kills_report(
    found: Mapping[Scenario, Mapping[str, Any]], errors: Mapping[Scenario, np.ndarray], *, command: str = ""
) -> str:
    """The same for killed processes. `found`: the results of each scenario; `errors`: by wafer."""
    s2, s3 = (found[scenario]["rmse"] for scenario in SCENARIOS)
    rows = [
        [
            f"{scenario}, {NAMES[scenario]}",
            f"{one['kills']}",
            f"{one['rmse']:#.3g}",
            f"{PUBLISHED_RMSE[scenario]:.2f}",
            *(f"{one['quantiles'].get(q, 0.0):.2g}" for q in ("50", "90", "99")),
            f"{one['worst']:.2g}",
            f"{one['predictions']:,}",
            f"{one['wafers_not_predicted']:,}",
            f"{one['tuples_lost']:,}",
            f"{one['away_seconds']:.2f} s",
        ]
        for scenario, one in found.items()
    ]
    columns = ["scenario", "kills", "RMSE", "published", "median", "90 %", "99 %", "worst"]
    columns += ["predictions", "not predicted", "tuples lost", "outage"]
    shares = {
        scenario: np.searchsorted(np.sort(np.abs(each)), THRESHOLDS, side="right") / max(len(each), 1)
        for scenario, each in errors.items()
    }
    lead = (
        f"After its process was killed, the predictions of a model that restarts from its latest checkpoint differ by "
        f"{s2:#.3g} percentage points (RMSE) from those without a kill; those of one that starts from scratch, by "
        f"{s3:#.3g}."
    )
    words = (
        "“Not predicted”: wafers without a prediction. “Outage”: median time from a kill until the model ran again, "
        "in wall clock time; event time runs ten times as fast. S2/proof.html and S3/proof.html beside this page "
        "show each kill."
    )
    blocks = [
        p.note(OTHER_DATA),
        p.section("Prediction errors after real kills", p.table(columns, rows, numbers=range(1, 12)), p.text(words)),
        p.section("Distribution of prediction errors", p.figure(_curves(shares), _KILLS_CAPTION)),
    ]
    return p.page("Kills of the yield model", blocks, lead=lead, footer=command)


_KILLS_CAPTION = (
    "The share of the predictions made after the first kill whose difference from a run without is at most x."
)


def _curves(shares: Mapping[Scenario, np.ndarray]) -> str:
    """The share of predictions within each threshold, by scenario."""
    series = []
    for scenario in reversed(SCENARIOS):
        points = [
            ChartPoint(error, share, f"{scenario}: {share:.1%} within {error:.3g} points")
            for error, share in zip(THRESHOLDS.tolist(), shares[scenario].tolist(), strict=True)
        ]
        series.append(Series(f"{scenario}, {NAMES[scenario]}", points))
    return chart(series, x_label="prediction error, percentage points", y_label="share of the predictions", log_x=True)


def _runs(study: Study) -> str:
    rows = []
    for number in sorted(range(len(study.crashes)), key=lambda n: study.crashes[n].at):
        crash, lost = study.crashes[number], study.lost[number]
        both = [study.outcomes[scenario][number] for scenario in SCENARIOS]
        seconds = (crash.at - fab.START_US) / 1e6
        rows.append(
            [
                f"{seconds:,.1f} s", f"{crash.outage / 1e6:.2f} s", str(lost),
                *(f"{value:.2g}" for one in both for value in (one.rmse, one.worst)),
            ]
        )  # fmt: skip
    columns = ["crash at", "down for", "tuples lost", "S2 RMSE", "S2 worst", "S3 RMSE", "S3 worst"]
    return p.table(columns, rows, numbers=range(len(columns)))
