"""Scenes of runs in one process with one Spark session. Not a test: `test_run.py` plays them.

What a scene asserts holds on every schedule: see `stories.py`.
"""

import contextlib
import json
import os
import random
import signal
import statistics
import sys
import time
from collections import Counter
from itertools import accumulate
from pathlib import Path
from unittest.mock import patch

import command_scenes
import protocol_scenes
import pyarrow.parquet as pq
import pytest
import stopped
import tap_oracle
import tapped
from drivers import main
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from scene_inputs import BARGAINS, bounded, counts_add_up, market, market_table, numbers_table, same
from stories import SILENCE, alive, follow
from supply import Supply

from riprap.api.run import run
from riprap.apps.catalogue import load_app
from riprap.base.errors import CheckFailed
from riprap.spark.queries import Restarted
from riprap.spark.session import hosting_session

SLOTS = 10
TUPLES = 60_000
PES = {"Source", "TradeQuote", "TradeFilter", "Aggregator", "VWAP", "QuoteFilter", "BargainIndex", "Sink"}


# Without faults -------------------------------------------------------------------------------------------------------


def same_rows_as_bounded(place, **settings):
    paths = market(TUPLES)
    result = run(BARGAINS, paths, out=place / "run", silence=SILENCE, **settings)
    for name, stream in result.summary["streams"].items():
        assert stream["sent"] == stream["received"], name
        assert stream["lost"] == stream["repeated"] == 0, name
    assert all(not pe["restarts"] for pe in result.summary["pes"].values())
    assert result.summary["tuples"] == TUPLES
    same(result.sink("Sink"), bounded(load_app(BARGAINS), paths))
    return result


def one_element_per_operator(place):
    result = same_rows_as_bounded(place, fuse="none")
    assert set(result.summary["pes"]) == PES
    costs = result.summary["costs"]
    assert set(costs) == PES
    assert all(cost["cores"] > 0 and cost["memory"] > 0 for cost in costs.values()), costs
    assert all(cost["sent"] > 0 for name, cost in costs.items() if name != "Sink"), costs
    assert costs["Sink"]["written"] > 0, costs


def fused_chains(place):
    same_rows_as_bounded(place, fuse="auto")


def all_in_one(place):
    result = same_rows_as_bounded(place, fuse="all")
    assert list(result.summary["pes"]) == ["Source"]


def in_shards(place):
    """The ends, too; what a sink's shards wrote is one stream, also for Spark."""
    result = same_rows_as_bounded(place, fuse="auto", parallelism={"Source": 2, "Aggregator": 2, "Sink": 2})
    assert {"Source/1", "Aggregator/1", "Sink/1"} <= set(result.summary["pes"])
    assert result.summary["sources"]["Source"] == {"tuples": TUPLES, "lost": 0}
    spark, path, out = SparkSession.getActiveSession(), result.summary["sinks"]["Sink"]["path"], place / "out"
    expected = sorted(result.sink("Sink")["_seq"].to_pylist())
    assert sorted(row._seq for row in spark.read.format("riprap").load(path).select("_seq").collect()) == expected
    live = spark.readStream.format("riprap").option("maxRowsPerTrigger", 2 * len(expected) // 3).load(path)
    live = live.writeStream.format("parquet").option("path", str(out))
    live = live.option("checkpointLocation", str(place / "q")).trigger(availableNow=True)
    Restarted(live.start).until(StreamingQuery.awaitTermination)
    assert sorted(pq.read_table(out)["_seq"].to_pylist()) == expected


def elements_that_stop_while_they_start_are_replaced(place):
    """At every stage of it, before they have registered too."""
    paths = market(TUPLES)
    with (
        patch("riprap.spark.running.run_element", stopped.run_element),
        patch("riprap.runtime.coordination.coordinator.STARTS", 2.0),
    ):
        result = run(BARGAINS, paths, out=place / "run", fuse="none", protocol="coordinated", silence="5s")
    assert all((place / "run" / f"stopped-{stage}").exists() for stage in stopped.STAGES.values())
    for pe, stage in stopped.STAGES.items():
        assert result.summary["pes"][pe]["restarts"] or stage == "registering", pe
    same(result.sink("Sink"), bounded(load_app(BARGAINS), paths))


# Kills ----------------------------------------------------------------------------------------------------------------


def killed_elements_come_back_alone(place):
    victims = ["Aggregator", "QuoteFilter", "TradeQuote", "Source", "BargainIndex", "Sink", "VWAP"]

    def story(scene):
        yield lambda: scene.running() and scene.delivered("Sink") > 0
        for name in victims:
            scene.kill(name)
            yield scene.back
        while not any(status.metrics["lost"] for status in scene.table):  # who was not missed is killed again
            scene.kill("Aggregator")
            yield scene.back
            some = scene.received("Aggregator") + 1_000
            yield lambda: scene.received("Aggregator") > some  # noqa: B023

    supply = Supply(place / "in", market_table(TUPLES))
    result, scene = follow(BARGAINS, {"Source": supply}, story, out=place / "run", fuse="none")
    assert set(scene.kills) == PES - {"TradeFilter"}
    for name, pe in result.summary["pes"].items():
        assert pe["restarts"] == scene.kills[name], name
        assert len(scene.pids[name]) == 1 + pe["restarts"], name
        assert len(pe["recoveries"]) == pe["restarts"], name
        for recovery in pe["recoveries"]:
            assert all(recovery[part] >= 0 for part in ("detect", "restart", "restore", "catch_up")), recovery
    counts_add_up(result.summary)
    streams = result.summary["streams"]
    assert any(stream["lost"] for stream in streams.values())
    assert streams["Aggregator→VWAP"]["sent"] <= streams["TradeFilter→Aggregator"]["received"]
    assert all(stream["repeated"] == 0 for stream in streams.values())
    assert result.summary["tuples"] == supply.rows
    assert 0 < result.summary["sinks"]["Sink"]["tuples"] == result.sink("Sink").num_rows


def a_stopped_element_is_replaced(place):
    """It hangs, as far as anybody can tell."""
    stopped = []

    def story(scene):
        yield lambda: scene.running() and scene.received("QuoteFilter") > 0
        stopped.append(scene.status("QuoteFilter").pid)
        os.kill(stopped[0], signal.SIGSTOP)
        yield lambda: scene.status("QuoteFilter").pid != stopped[0] and scene.running()

    supply = Supply(place / "in", market_table(TUPLES))
    result, scene = follow(BARGAINS, {"Source": supply}, story, out=place / "run", fuse="none", silence="3s")
    assert not alive(stopped[0])
    assert scene.pids["QuoteFilter"][0] == stopped[0]
    assert result.summary["pes"]["QuoteFilter"]["restarts"] == len(scene.pids["QuoteFilter"]) - 1 >= 1
    counts_add_up(result.summary)
    assert result.summary["tuples"] == supply.rows
    assert result.summary["sinks"]["Sink"]["tuples"] == result.sink("Sink").num_rows


def random_kills(victims, kills, chance, apart):
    """A story: they die at any moment, also while others or they themselves come back."""

    def story(scene):
        yield scene.running
        for _ in range(kills):
            yield scene.looks(chance.randrange(1, apart))
            victim = chance.choice(victims)
            yield lambda: scene.killable(victim)  # noqa: B023
            scene.kill(victim)
        yield scene.back

    return story


def random_kills_and_true_counts(place, kills=8, apart=25, seed=1, patience=300):
    """Elements of an app with all three kinds of streams are killed at random; the taps' own books tell the truth."""
    print(f"random_kills_and_true_counts: seed {seed}", file=sys.stderr)
    books, chance, sizes = place / "books", random.Random(seed), Sizes()
    books.mkdir()
    # M is in the element of Both. All but Plain, whose losses nobody would have booked.
    victims = ["G1", "G2", "B1", "Both", "Kept", "R1", "R2"]
    supply = Supply(place / "in", numbers_table(way=0), at_once=250)
    result, scene = follow(
        tapped.tapped(books),
        {"Plain": supply, "Kept": supply},
        random_kills(victims, kills, chance, apart),
        out=place / "run",
        patience=patience,
        then=sizes,
    )
    summary = result.summary
    killed = {pid for pids in scene.pids.values() for pid in pids[:-1]}
    try:
        assert {name: pe["restarts"] for name, pe in summary["pes"].items()} == {
            name: scene.kills[name] for name in summary["pes"]
        }
        _check_books(result, books, supply.rows, killed)
        sizes.check_flat()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {json.dumps(summary['streams'])} {summary['pes']}") from error


def killed_sources_lose_nothing_uncounted(place, seed=1, kills=3, fuse="auto"):
    """The oracle reads inputs and sinks alone, and adds what is said to be lost."""
    chance = random.Random(seed)
    place.mkdir(exist_ok=True)
    supply = Supply(place / "in", numbers_table())
    victims = ["One"] if fuse == "all" else ["One", "Two"]
    result, scene = follow(
        tapped.two_sources(),
        {"One": supply, "Two": supply},
        random_kills(victims, kills, chance, 20),
        out=place / "run",
        fuse=fuse,
    )
    summary, rows = result.summary, supply.rows
    told = f"seed {seed}, {fuse}: {json.dumps(summary['streams'])} {summary['sources']} {summary['sinks']}"
    assert sum(pe["restarts"] for pe in summary["pes"].values()) == scene.kills.total() == kills, told
    for name, stream in summary["streams"].items():
        if name.startswith(("One→", "Two→")):
            assert stream["sent"] + summary["sources"][name[:3]]["lost"] == rows, told
    lost = sum(stream["lost"] for name, stream in summary["streams"].items() if "Both" in name)
    lost += sum(source["lost"] for source in summary["sources"].values()) + summary["sinks"]["All"]["lost"]
    out = result.sink("All")
    assert len(set(zip(out["_src"].to_pylist(), out["_seq"].to_pylist(), strict=True))) == out.num_rows, told
    assert out.num_rows + lost == 2 * rows, told
    keys = list(zip(*(out[name].cast("int64").to_pylist() for name in ("_ts", "_src", "_seq")), strict=True))
    behind = sum(key < greatest for key, greatest in zip(keys, accumulate(keys, max), strict=True))
    assert behind <= sum(stream["late"] for stream in summary["streams"].values()), told  # what is late is not lost


def fifty_kills_of_sources(place):
    for seed in range(50):
        killed_sources_lose_nothing_uncounted(place / str(seed), seed, 1 + seed % 3, ["auto", "none", "all"][seed % 3])


def five_minutes_of_kills(place):
    random_kills_and_true_counts(place, kills=60, apart=200, seed=time.time_ns(), patience=1_200)


def _check_books(result, books, rows, killed):
    streams = result.summary["streams"]
    book = {tap: tap_oracle.read_book(books, tap, killed) for tap in ("G1", "G2", "B1", "M", "R1", "R2")}
    everything = tap_oracle.Book(Counter((0, number) for number in range(rows)), Counter())
    tap_oracle.check_gap(streams["Plain→G1"], everything, book["G1"])
    tap_oracle.check_gap(streams["G1→G2"], book["G1"].passed_on(1), book["G2"])
    tap_oracle.check_buffer(streams["Plain→B1"], rows, book["B1"])
    tap_oracle.check_gap(streams["G2→Both"], book["G2"], book["M"].of_way(1))
    tap_oracle.check_gap(streams["B1→Both.1"], book["B1"].passed_on(2), book["M"].of_way(2))
    tap_oracle.check_replay(streams["Kept→R1"], rows, book["R1"])
    tap_oracle.check_replay(streams["R1→R2"], rows, book["R2"])
    assert result.sink("Exact")["x"].to_pylist() == list(range(rows))
    merged = result.sink("Merged")
    assert merged.num_rows == result.summary["sinks"]["Merged"]["tuples"]
    tap_oracle.check_sink(list(zip(merged["way"].to_pylist(), merged["_seq"].to_pylist(), strict=True)), book["M"])


class Sizes:
    """Resident memory of every process of the run, every second."""

    def __init__(self):
        self.of = {}  # by process: [(age in seconds, bytes)]
        self.first = {}
        self.looked = 0.0

    def __call__(self, watcher):
        now = time.monotonic()
        if now - self.looked < 1:
            return
        self.looked = now
        for status in watcher.table:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                pages = int(Path(f"/proc/{status.pid}/statm").read_text().split()[1])
                age = now - self.first.setdefault(status.pid, now)
                self.of.setdefault(status.pid, []).append((age, pages * os.sysconf("SC_PAGE_SIZE")))

    def check_flat(self):
        """After twenty seconds a process has what it needs."""
        for pid, sizes in self.of.items():
            warm = [size for age, size in sizes if age > 20]
            if len(warm) > 40:
                assert statistics.median(warm[-10:]) < 1.1 * statistics.median(warm[:10]) + (8 << 20), (pid, sizes)


def a_checkpoint_in_the_plan_saves_the_state(place):
    """An element that counts dies: without a checkpoint it begins at one again, with one where it had been."""
    plan = place / "plan.toml"
    plan.write_text('app = "counting"\n[operators.Count]\ncheckpoint = "100ms"\n')

    for given in (None, plan):
        some, name = 2_000, "with" if given else "without"
        supply = Supply(place / f"in-{name}", numbers_table())

        def newest(scene):
            """When the newest checkpoint that is durable was taken."""
            return scene.status("Count").metrics.get("checkpoints", {}).get("Count", {}).get("last_at", 0)

        def story(scene, some=some, supply=supply, given=given):
            yield lambda: scene.running() and scene.delivered("Out") >= some
            if given:  # one that was taken when so many had been counted; what elements tell is from a while ago
                counted_at = time.time_ns() // 1_000
                yield lambda: newest(scene) > counted_at
            scene.kill("Count")
            had = supply.rows  # the life that is over can have told of no more
            yield lambda: scene.back() and scene.delivered("Out") > had

        result, _ = follow(tapped.counting(), {"In": supply}, story, out=place / name, fuse="none", plan=given)
        assert {pe: what["restarts"] for pe, what in result.summary["pes"].items()} == {"In": 0, "Count": 1, "Out": 0}
        told = result.sink("Out")["n"].to_pylist()
        assert told[0] == 1
        again = [told[at] for at in range(1, len(told)) if told[at] != told[at - 1] + 1]
        if given:  # none where exactly the last checkpoint had been told of
            assert len(again) <= 1
            assert all(first > some for first in again)
            assert result.summary["checkpoints"]["Count"]["taken"] >= 1
            assert result.summary["checkpoints"]["Count"]["bytes"] > 0
        else:
            assert again == [1]
            assert result.summary["checkpoints"] == {}
        # What Count had taken is in its state at the end, or was undone; and the bound has every row since.
        [failure] = [one for one in result.summary["failures"] if one["pe"] == "Count"]
        received = result.summary["streams"]["In→Count"]["received"]
        assert received == told[-1] + failure["undone"]["Count"]
        assert any("rows at Count" in text and "of Out from" in text for text in result.summary["warnings"])
        [[since, until]] = failure["sinks"]["Out"]
        times = result.sink("Out")["_ts"].cast("int64").to_pylist()
        assert until is None  # a running count never heals
        assert all(times[at] >= since for at in range(1, len(told)) if told[at] != told[at - 1] + 1)


# Errors ---------------------------------------------------------------------------------------------------------------


def an_exception_of_an_operator_ends_the_run(place):
    scenes = []

    def story(scene):
        scenes.append(scene)
        scene.flowing = False  # there is none yet, and that keeps nobody from running
        yield scene.running
        scene.flowing = True
        yield lambda: False

    supply = Supply(place / "in", numbers_table())
    with pytest.raises(CheckFailed, match="Touchy: ValueError: three thousand is too much") as caught:
        follow(tapped.failing(), {"In": supply}, story, out=place / "run", fuse="none")
    assert caught.value.exit_code != 0
    [scene] = scenes
    assert {pe: len(pids) for pe, pids in scene.pids.items()} == {"In": 1, "Positive": 1, "Touchy": 1, "Out": 1}


def an_exception_in_the_driver_leaves_no_process(place):
    scenes = []

    def story(scene):
        scenes.append(scene)
        yield scene.running
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        follow(BARGAINS, {"Source": Supply(place / "in", market_table(TUPLES))}, story, out=place / "run")
    [scene] = scenes
    assert len(scene.pids) == 4
    scene.all_gone()


SCENES = {
    name: scene
    for module in (command_scenes, protocol_scenes, sys.modules[__name__])
    for name, scene in vars(module).items()
    if callable(scene)
}

if __name__ == "__main__":
    spark = hosting_session(SLOTS)
    main(SCENES)
    with contextlib.suppress(Exception):  # its JVM may have been killed
        spark.stop()
