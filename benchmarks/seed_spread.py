"""How the assessment of Bargain Discovery varies with the seed of its generated data: prints the table of
docs/papers/market-data.md.

    python benchmarks/seed_spread.py [FIRST LAST]        # seeds, 1 and 40 unless given

A small campaign per seed, in this process and without Spark: 500,000 tuples, three offsets, one outage of 16 s at the
peak rate of each operator, one repetition, sections of 5,000.
"""

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from riprap.api.request import AssessRequest, settings_of
from riprap.apps.bargain_discovery import build
from riprap.apps.samples import sample_inputs
from riprap.engine.inputs import read_file
from riprap.faults.campaign_settings import units
from riprap.faults.campaign_summary import summarise
from riprap.faults.divided import dividing_columns
from riprap.faults.recording import record
from riprap.faults.work import CampaignJob, preparations, prepare, profile_all, run_golden, run_unit

TUPLES = 500_000
OPERATORS = ("TradeFilter", "VWAP", "Source", "BargainIndex", "QuoteFilter")
Found = Mapping[str, tuple[int, float]]  # R and I by operator


def assessed(seed: int) -> Found:
    """One campaign over the data of one seed."""
    graph = build()
    with tempfile.TemporaryDirectory(prefix="riprap-seeds-") as folder:
        place = Path(folder)
        inputs = sample_inputs(graph, TUPLES, seed, place)
        settings = settings_of(
            graph,
            AssessRequest(
                graph, inputs, targets=",".join(OPERATORS), offsets=(0.2, 0.5, 0.8), outages=("16s",), rates=("peak",),
                reps=1, golden=1, osf="sum(gain)", state="kept",
            ),
        )  # fmt: skip
        record(graph, {n: read_file(p) for n, p in inputs.items()}, dividing_columns(graph), place / "recorded")
        (place / "shared").mkdir()
        job = CampaignJob(graph, settings, place / "shared", place / "recorded")
        profile_all(job)
        for what in preparations(settings):
            prepare(job, what)
        trials = pa.Table.from_batches([run_unit(job, *unit) for unit in units(settings)])
        affected = {
            sink: [
                np.array(row["affected"], np.int64).view(np.uint64) for row in trials.to_pylist() if row["sink"] == sink
            ]
            for sink in settings.scores
        }
        golden = pa.Table.from_batches(list(run_golden(job, [0], affected)))
        found = summarise(settings, trials, golden, job.recording.tuples)
        return {each.target: (each.paired.R, each.paired.I) for each in found}


def table(found: Mapping[int, Found]) -> str:
    """R and I over the seeds, and how many of them show each of the published orders."""
    lines = ["| operator | R: least, median, most | I: least, quartiles, most |", "| --- | --- | --- |"]
    for name in OPERATORS:
        recovery = np.array([each[name][0] for each in found.values()])
        impact = np.array([each[name][1] for each in found.values()])
        low, middle, high = np.percentile(impact, [25, 50, 75])
        lines.append(
            f"| {name} | {recovery.min()}, {np.median(recovery):g}, {recovery.max()} "
            f"| {impact.min():.2f}, {low:.2f} – {middle:.2f} – {high:.2f}, {impact.max():.2f} |"
        )
    lines += ["", f"| order | seeds of {len(found)} |", "| --- | --- |"]
    for text, holds in ORDERS.items():
        lines.append(f"| {text} | {sum(holds(each) for each in found.values())} |")
    return "\n".join(lines)


def _by_impact(each: Found) -> bool:
    first, second, *rest = (each[name][1] for name in OPERATORS)
    return min(first, second) > rest[0] > rest[1] > rest[2]


def _by_recovery(each: Found) -> bool:
    recovery = [each[name][0] for name in ("TradeFilter", "VWAP", "BargainIndex", "QuoteFilter")]
    return recovery == sorted(recovery, reverse=True)


ORDERS = {
    "I(TradeFilter), I(VWAP) > I(Source) > I(BargainIndex) > I(QuoteFilter)": _by_impact,
    "I(TradeFilter) > I(VWAP)": lambda each: each["TradeFilter"][1] > each["VWAP"][1],
    "R(Source) = R(TradeFilter)": lambda each: each["Source"][0] == each["TradeFilter"][0],
    "R(TradeFilter) ≥ R(VWAP) ≥ R(BargainIndex) ≥ R(QuoteFilter)": _by_recovery,
}


def main() -> None:
    first, last = map(int, sys.argv[1:3]) if len(sys.argv) > 2 else (1, 40)
    found = {}
    for seed in range(first, last + 1):
        found[seed] = assessed(seed)
        shown = ", ".join(f"{name} {found[seed][name][0]} {found[seed][name][1]:.2f}" for name in OPERATORS)
        print(f"seed {seed}: {shown}", file=sys.stderr, flush=True)
    print(table(found))


if __name__ == "__main__":
    main()
