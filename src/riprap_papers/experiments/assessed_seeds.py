"""The assessment of Bargain Discovery over the data of several seeds: how many of the published statements hold.

A smaller campaign for each seed, in this process and without Spark: 1,000,000 tuples instead of 5,000,000, the shortest
and the longest outage, one repetition; then again under the published groups.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from riprap.api.request import AssessRequest, settings_of
from riprap.apps import bargain_discovery
from riprap.apps.samples import sample_inputs
from riprap.base.quantities import Duration
from riprap.engine.inputs import read_file
from riprap.faults.campaign_settings import CampaignSettings, units
from riprap.faults.campaign_summary import TargetSummary, summarise
from riprap.faults.divided import dividing_columns
from riprap.faults.protected import protected_targets
from riprap.faults.recording import record
from riprap.faults.targets import placements
from riprap.faults.work import CampaignJob, preparations, prepare, profile_all, run_golden, run_unit
from riprap.graph.plan_file import parse_plan
from riprap_papers.published.assessment_tables import PLAN, TABLE, statements

TUPLES = 1_000_000
FAILOVER = Duration(2_000_000)  # at most, as published


class AssessedSeed(NamedTuple):
    """What the data of one seed shows."""

    held: Mapping[str, bool]  # by statement
    metrics: Mapping[str, tuple[int, float]]  # R and I by operator
    failed_over: tuple[int, float]  # R and I of the group of TradeFilter


def assessed_seed(seed: int, tuples: int = TUPLES) -> AssessedSeed:
    graph = bargain_discovery.build()
    with tempfile.TemporaryDirectory(prefix="riprap-seeds-") as folder:
        place = Path(folder)
        inputs = sample_inputs(graph, tuples, seed, place)
        settings = settings_of(
            graph,
            AssessRequest(
                graph, inputs, state="kept", targets=",".join(TABLE), offsets=(0.1, 0.3, 0.5, 0.7, 0.9),
                outages=("0.5s", "16s"), reps=1, golden=1, seed=seed,
            ),
        )  # fmt: skip
        record(graph, {n: read_file(p) for n, p in inputs.items()}, dividing_columns(graph), place / "recorded")
        found = _summaries(CampaignJob(graph, settings, place / "shared", place / "recorded"))
        targets = protected_targets(graph, settings, placements(graph, "loss", ["Sink"]), parse_plan(PLAN), FAILOVER)
        again = replace(settings, targets=tuple(dict.fromkeys(targets.values())))
        after = {s.target: s for s in _summaries(CampaignJob(graph, again, place / "again", place / "recorded"))}
    protected = {name: after[target.name] for name, target in targets.items()}
    group = protected["TradeFilter"].paired
    metrics = {s.target: (s.paired.R, s.paired.I) for s in found}
    return AssessedSeed(statements(found, protected), metrics, (group.R, group.I))


def _summaries(job: CampaignJob) -> list[TargetSummary]:
    settings: CampaignSettings = job.settings
    job.path.mkdir()
    profile_all(job)
    for what in preparations(settings):
        prepare(job, what)
    trials = pa.Table.from_batches([run_unit(job, *unit) for unit in units(settings)])
    affected = {
        sink: [
            np.array(row["affected"], np.int64).view(np.uint64)
            for row in trials.select(["sink", "affected"]).to_pylist()
            if row["sink"] == sink and row["affected"] is not None
        ]
        for sink in settings.scores
    }
    golden = pa.Table.from_batches(list(run_golden(job, [0], affected)))
    return summarise(settings, trials, golden, job.recording.tuples)
