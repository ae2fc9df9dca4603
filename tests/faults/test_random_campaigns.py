"""Campaigns over random apps and streams (`tests/random_apps.py`), all of their tasks in this process."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.random_apps import RELATIONAL, random_app, random_inputs
from tests.simulation.shares import soak

from riprap.api.request import AssessRequest, settings_of
from riprap.engine.inputs import read_file
from riprap.faults import work
from riprap.faults.campaign_settings import assessable, units
from riprap.faults.campaign_summary import summarise
from riprap.faults.divided import dividing_columns
from riprap.faults.models import KINDS
from riprap.faults.recording import record
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.windows import time


def run_through(seed: int, folder: Path, kinds: dict | None = None) -> None:
    graph = random_app(seed, kinds)
    paths = random_inputs(graph, seed, folder)
    kind = ("loss", "loss", *KINDS)[seed % (len(KINDS) + 2)]
    if kind == "reorder" and all(spec.inputs < 2 for spec in graph):
        kind = "loss"  # order within a stream is kept
    asked = AssessRequest(
        graph, paths, fault=kind, state="lost" if seed % 3 == 0 and kind == "loss" else "kept", offsets=(0.3, 0.6),
        outages=("5ms", "20ms"), reps=2, golden=3, section=50,
    )  # fmt: skip
    campaign(graph, paths, asked, folder)


def campaign(graph: Graph, paths: dict, asked: AssessRequest, folder: Path) -> None:
    record(graph, {name: read_file(path) for name, path in paths.items()}, dividing_columns(graph), folder / "recorded")
    job = work.CampaignJob(graph, settings_of(graph, asked), folder, folder / "recorded")
    work.profile_all(job)
    chosen, reasons = assessable(graph, job.recording, job.settings, job.profiles)
    assert len(chosen.targets) + len(reasons) == len(job.settings.targets)
    job = replace(job, settings=chosen)
    for what in work.preparations(chosen):
        work.prepare(job, what)
    trials = pa.Table.from_batches([work.run_unit(job, *unit) for unit in units(chosen)])
    found = trials.filter(trials["affected"].is_valid()).to_pylist()
    affected = {
        sink: [np.array(row["affected"], np.int64).view(np.uint64) for row in found if row["sink"] == sink]
        for sink in chosen.scores
    }
    golden = pa.Table.from_batches(list(work.run_golden(job, range(chosen.golden), affected)))
    summaries = summarise(chosen, trials, golden, job.recording.tuples)
    assert {(s.sink, s.target) for s in summaries} == {(k, t.name) for k in chosen.scores for t in chosen.targets}


@pytest.mark.parametrize("seed", [*range(5), 174])  # 174: a reorder that would reach a join behind a join
def test_a_campaign(seed, tmp_path):
    run_through(seed, tmp_path)


@pytest.mark.parametrize("seed", range(4))
def test_a_campaign_over_relational_operators(seed, tmp_path):
    run_through(seed, tmp_path, RELATIONAL)


def test_output_after_the_last_tuple_belongs_to_the_last_section(tmp_path):
    app = App("words")
    app.source("S", "word string").aggregate("count(*) AS n", window=time("1s"), by="word", name="Count").sink("Sink")
    rows = np.arange(400)
    words = pa.table(
        {"word": (rows % 7).astype(str), "_ts": pa.array(rows * 10_000, pa.timestamp("us", "UTC")), "_seq": rows}
    )
    pq.write_table(words, tmp_path / "words.parquet")
    paths = {"S": tmp_path / "words.parquet"}
    asked = AssessRequest(
        app.build(), paths, state="lost", offsets=(0.4, 0.6), outages=("200ms", "1s"), reps=1, golden=2, section=100,
        osf="sum(n)",
    )  # fmt: skip
    campaign(app.build(), paths, asked, tmp_path)


@pytest.mark.soak
def test_many_campaigns(tmp_path_factory):
    soak(5, 205, lambda seed: run_through(seed, tmp_path_factory.mktemp(f"campaign-{seed}")))
