"""Scenes of runs in one process with one Spark session. Not a test: `test_run.py` plays them."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tapped
from drivers import main

from riprap.api.run import run
from riprap.apps.catalogue import load_app
from riprap.apps.samples import cache_directory, sample_inputs
from riprap.base.errors import CheckFailed
from riprap.cli.main import main as riprap
from riprap.engine.engine import Engine
from riprap.engine.inputs import keyed, read_file
from riprap.runtime.states import SystemState, WorkerState
from riprap.spark.session import hosting_session

SLOTS = 10
PATIENCE = 60  # seconds
BARGAINS = "bargain-discovery"
PES = {"Source", "TradeQuote", "TradeFilter", "Aggregator", "VWAP", "QuoteFilter", "BargainIndex", "Sink"}


def market(tuples):
    return sample_inputs(load_app(BARGAINS), tuples, 1, cache_directory())


def bounded(graph, inputs):
    """What the engine gives out at the only sink when it reads the whole input."""
    batches = {name: keyed(read_file(path), graph[name]) for name, path in inputs.items()}
    return pa.Table.from_batches([batch for _, batch in Engine(graph).run(batches)])


def same(found, expected):
    assert found.num_rows == expected.num_rows
    assert set(found.schema.names) == set(expected.schema.names)
    for name in expected.schema.names:
        assert found[name].combine_chunks().to_pylist() == expected[name].combine_chunks().to_pylist(), name


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Watcher:
    """Sees every look at the run; `pids` has all processes that each element has had."""

    def __init__(self, then=lambda watcher: None):
        self.pids = {}
        self.table = ()
        self.then = then

    def __call__(self, state, table):
        self.state, self.table = state, table
        for status in table:
            if status.pid and status.pid not in self.pids.setdefault(status.pe, []):
                self.pids[status.pe].append(status.pid)
        self.then(self)

    def all_gone(self):
        deadline = time.monotonic() + PATIENCE
        while any(alive(pid) for pids in self.pids.values() for pid in pids):
            assert time.monotonic() < deadline, f"processes are left: {self.pids}"
            time.sleep(0.05)


def counts_add_up(summary):
    for name, stream in summary["streams"].items():
        assert stream["sent"] == stream["received"] + stream["lost"], name
        assert stream["lost"] >= 0, name


# Without faults -------------------------------------------------------------------------------------------------------


def same_rows_as_bounded(place, **settings):
    paths = market(200_000)
    result = run(BARGAINS, paths, out=place / "run", **settings)
    for name, stream in result.summary["streams"].items():
        assert stream["sent"] == stream["received"], name
        assert stream["lost"] == stream["repeated"] == 0, name
    assert all(not pe["restarts"] for pe in result.summary["pes"].values())
    assert result.summary["tuples"] == 200_000
    same(result.sink("Sink"), bounded(load_app(BARGAINS), paths))
    return result


def one_element_per_operator(place):
    result = same_rows_as_bounded(place, fuse="none")
    assert set(result.summary["pes"]) == PES


def fused_chains(place):
    same_rows_as_bounded(place, fuse="auto")


def all_in_one(place):
    result = same_rows_as_bounded(place, fuse="all")
    assert list(result.summary["pes"]) == ["Source"]


def in_shards(place):
    result = same_rows_as_bounded(place, parallelism={"Aggregator": 2, "BargainIndex": 3})
    assert {"Aggregator/1", "BargainIndex/2"} <= set(result.summary["pes"])


# Kills ----------------------------------------------------------------------------------------------------------------


def killed_elements_come_back_alone(place):
    watcher = Watcher()
    result = run(
        BARGAINS,
        market(400_000),
        out=place / "run",
        rate=50_000,
        fuse="none",
        kill="Aggregator@1s,QuoteFilter@2s,TradeQuote@3s,Source@4s,BargainIndex@5s,Sink@6s,Aggregator@7s",
        watch=watcher,
    )
    kills = {"Aggregator": 2, "QuoteFilter": 1, "TradeQuote": 1, "Source": 1, "BargainIndex": 1, "Sink": 1}
    for name, pe in result.summary["pes"].items():
        assert pe["restarts"] == kills.get(name, 0), name
        assert len(watcher.pids[name]) == 1 + kills.get(name, 0), name
        assert len(pe["recoveries"]) == pe["restarts"], name
        for recovery in pe["recoveries"]:
            assert all(recovery[part] >= 0 for part in ("detect", "restart", "restore", "catch_up")), recovery
    counts_add_up(result.summary)
    streams = result.summary["streams"]
    assert streams["TradeFilter→Aggregator"]["lost"] > 0
    assert streams["Aggregator→VWAP"]["sent"] == streams["TradeFilter→Aggregator"]["received"]
    assert all(stream["repeated"] == 0 for stream in streams.values())
    assert result.summary["tuples"] == 400_000
    assert 0 < result.summary["sinks"]["Sink"]["tuples"] == result.sink("Sink").num_rows
    watcher.all_gone()


def a_stopped_element_is_replaced_and_fenced(place):
    """Let the stopped process go on just before Spark kills it: it has to end by itself."""
    watcher = Watcher()
    stopped = []

    def stop_and_continue(watcher):
        by_pe = {status.pe: status for status in watcher.table}
        victim = by_pe["QuoteFilter"]
        if not stopped and victim.state is WorkerState.RUNNING and watcher.state is SystemState.RUNNING:
            stopped.append(victim.pid)
            os.kill(victim.pid, signal.SIGSTOP)
        elif stopped and len(stopped) == 1 and victim.pid != stopped[0] and victim.state is WorkerState.RUNNING:
            stopped.append(victim.pid)
            if alive(stopped[0]):
                os.kill(stopped[0], signal.SIGCONT)

    watcher.then = stop_and_continue
    result = run(BARGAINS, market(400_000), out=place / "run", rate=40_000, fuse="none", watch=watcher)
    assert len(stopped) == 2
    restarts = {name: pe["restarts"] for name, pe in result.summary["pes"].items()}
    assert restarts == {name: int(name == "QuoteFilter") for name in PES}
    counts_add_up(result.summary)
    streams = result.summary["streams"]
    assert {name for name, stream in streams.items() if stream["lost"]} == {"TradeQuote→QuoteFilter"}
    assert result.summary["sinks"]["Sink"]["tuples"] == result.sink("Sink").num_rows
    watcher.all_gone()


# Errors ---------------------------------------------------------------------------------------------------------------


def numbers(place, rows, **columns):
    path = place / "numbers.parquet"
    times = pa.array(range(rows), pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"x": pa.array(range(rows), pa.int64()), **columns, "_ts": times}), path)
    return path


def an_exception_of_an_operator_ends_the_run(place):
    watcher = Watcher()
    with pytest.raises(CheckFailed, match="Touchy.*three thousand is too much") as caught:
        run(tapped.failing(), {"In": numbers(place, 100_000)}, out=place / "run", rate=2_000, fuse="none", watch=watcher)
    assert caught.value.exit_code != 0
    assert {pe: len(pids) for pe, pids in watcher.pids.items()} == {"In": 1, "Positive": 1, "Touchy": 1, "Out": 1}
    watcher.all_gone()


def an_exception_in_the_driver_leaves_no_process(place):
    def fail(watcher):
        if watcher.state is SystemState.RUNNING:
            raise ZeroDivisionError

    watcher = Watcher(fail)
    with pytest.raises(ZeroDivisionError):
        run(BARGAINS, market(400_000), out=place / "run", rate=1_000, watch=watcher)
    assert len(watcher.pids) == 4
    watcher.all_gone()


SCENES = {name: scene for name, scene in globals().items() if callable(scene)}

if __name__ == "__main__":
    spark = hosting_session(SLOTS)
    main(SCENES)
    spark.stop()
