"""Checkpoints as nobody wrote them: loading never fails, it takes what is sound."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.durable.mutations import Case

from riprap.checkpoints.checkpointer import Checkpointer
from riprap.checkpoints.load import load
from riprap.checkpoints.storage import LocalStorage
from riprap.engine.engine import Engine
from riprap.graph.builder import App
from riprap.graph.windows import count

TS = pa.timestamp("us", "UTC")


def checkpointed_app():
    app = App("app")
    left, right = app.source("L", "k string, x double"), app.source("R", "k string, y double")
    sums = left.aggregate("sum(x) AS x", window=count(5), every=count(1), by="k", name="A")
    sums.join(right, on="k", left_window=count(3), right_window=count(2), select=["k", "x", "y"], name="J").sink("Sink")
    return app.build()


def make_checkpoints(path: Path) -> None:
    graph = checkpointed_app()
    engine = Engine(graph)
    members = [spec.name for spec in graph.operators]
    taker = Checkpointer(LocalStorage(path), "PE/0", 1, {"all": members}, background=False)
    for number in range(4):
        seq = np.arange(number * 12, number * 12 + 12)
        for source, column in (("L", "x"), ("R", "y")):
            columns = {"k": pa.array([f"k{n % 3}" for n in seq]), column: pa.array(seq * 1.5)}
            columns |= {"_ts": pa.array(seq * 10, TS), "_seq": pa.array(seq)}
            engine.push(source, pa.record_batch(columns))
        taker.capture("all", engine, {"at": number}, number * 1_000_000)


def restore(path: Path) -> None:
    """Loading never fails: what is damaged is passed over, with a warning."""
    for gap in (False, True):
        loaded = load(LocalStorage(path), "PE/0", "all", 9_000_000, gap=gap)
        if loaded is not None:
            assert 0 <= loaded.positions["at"] < 4
            loaded.into(Engine(checkpointed_app()))


CASE = Case(make_checkpoints, [restore], 300, recovers=True)


def test_what_was_written_is_fine(tmp_path):
    CASE.sound(tmp_path)


def test_hundreds_of_mutations(tmp_path):
    CASE.share(tmp_path)


@pytest.mark.soak
def test_hours_of_mutations(tmp_path):
    CASE.hours(tmp_path)
