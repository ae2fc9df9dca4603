"""What the tasks of a campaign share, as nobody wrote it: it is noticed, never read, and made again."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.durable.mutations import Case
from tests.faults.graphs import bench_of

from riprap.faults import sealed, store
from riprap.faults.campaign_settings import CampaignSettings, Target, TargetProfile
from riprap.faults.recording import load, record
from riprap.graph.builder import App
from riprap.graph.windows import count

TS = pa.timestamp("us", "UTC")


def make_campaign(path: Path) -> None:
    app = App("app")
    stream = app.source("S", "k string, x double, i long")
    stream.aggregate("sum(x) AS x", "sum(i) AS i", window=count(3), every=count(1), by="k", name="A").sink("Sink")
    graph, seq = app.build(), np.arange(40)
    columns = {"k": pa.array([f"k{n % 4}" for n in seq]), "x": pa.array(seq * 0.5), "i": pa.array(seq)}
    columns |= {"_ts": pa.array(seq * 1000, TS), "_seq": pa.array(seq)}
    record(graph, {"S": [pa.record_batch(columns)]}, {"S": ("k",)}, path / "recorded")
    recording = load(graph, path / "recorded")
    bench = bench_of(graph, recording, None, [10, 20], "loss")
    store.save_golden(path, 0, bench.golden, dict(bench.by_part))
    store.save_profiles(path, [TargetProfile(Target(("A",)), np.arange(40, dtype=np.int32), 1.0, 2.0)])


def share(path: Path) -> None:
    """What is sound is read without a question asked; what is not is never read."""
    if sealed.sound(path / "golden-0"):
        golden, _ = store.load_golden(path, 0, ["Sink"])
        assert sorted(golden.states) == [10, 20]
    if sealed.sound(path / "recorded"):
        assert sealed.mapped(path / "recorded" / "time.npy").tolist() == list(range(0, 40_000, 1000))
    if sealed.sound(path / "profile"):
        [profile] = store.load_profiles(path, CampaignSettings((Target(("A",)),), (0,), {}))
        assert profile.inputs.tolist() == list(range(40))
    for name in ("golden-0", "profile", "recorded"):
        sealed.remove(path / name)


CASE = Case(make_campaign, [share], 400, recovers=True)


def test_what_was_written_is_fine(tmp_path):
    CASE.sound(tmp_path)


def test_hundreds_of_mutations(tmp_path):
    CASE.share(tmp_path)


@pytest.mark.soak
def test_hours_of_mutations(tmp_path):
    CASE.hours(tmp_path)
