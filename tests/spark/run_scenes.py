"""Scenes of runs in one process with one Spark session. Not a test: `test_run.py` plays them."""

import contextlib
import ctypes
import io
import json
import os
import random
import signal
import socket
import statistics
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import references
import tap_oracle
import tapped
from drivers import main
from pyspark.sql import SparkSession

from riprap.api.run import RunResult, run
from riprap.apps.catalogue import load_app
from riprap.apps.samples import cache_directory, sample_inputs
from riprap.base.errors import CheckFailed
from riprap.cli.main import main as riprap
from riprap.engine.engine import Engine
from riprap.engine.inputs import keyed, read_file
from riprap.runtime.coordination.states import SystemState
from riprap.spark.session import hosting_session
from riprap.streams import Busy, Stream
from riprap.workloads.catalogue import load_workload

SLOTS = 10
PR_SET_CHILD_SUBREAPER = 36
PATIENCE = 300  # seconds; only how long a test that fails takes
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
    """The ends, too; what a sink's shards wrote is one stream, also for Spark."""
    result = same_rows_as_bounded(place, fuse="auto", parallelism={"Source": 2, "Aggregator": 2, "Sink": 2})
    assert {"Source/1", "Aggregator/1", "Sink/1"} <= set(result.summary["pes"])
    assert result.summary["sources"]["Source"] == {"tuples": 200_000, "lost": 0}
    spark, path, out = SparkSession.getActiveSession(), result.summary["sinks"]["Sink"]["path"], place / "out"
    expected = sorted(result.sink("Sink")["_seq"].to_pylist())
    assert sorted(row._seq for row in spark.read.format("riprap").load(path).select("_seq").collect()) == expected
    live = spark.readStream.format("riprap").option("maxRowsPerTrigger", 2 * len(expected) // 3).load(path)
    live = live.writeStream.format("parquet").option("path", str(out))
    live.option("checkpointLocation", str(place / "q")).trigger(availableNow=True).start().awaitTermination()
    assert sorted(pq.read_table(out)["_seq"].to_pylist()) == expected


# Kills ----------------------------------------------------------------------------------------------------------------


def killed_elements_come_back_alone(place):
    watcher = Watcher()
    result = run(
        BARGAINS,
        market(300_000),
        out=place / "run",
        rate=60_000,
        fuse="none",
        kill="Aggregator@0.6s,QuoteFilter@1.2s,TradeQuote@1.8s,Source@2.4s,BargainIndex@3s,Sink@3.6s,VWAP@4.2s",
        watch=watcher,
    )
    for name, pe in result.summary["pes"].items():
        assert pe["restarts"] == int(name != "TradeFilter"), name
        assert len(watcher.pids[name]) == 1 + pe["restarts"], name
        assert len(pe["recoveries"]) == pe["restarts"], name
        for recovery in pe["recoveries"]:
            assert all(recovery[part] >= 0 for part in ("detect", "restart", "restore", "catch_up")), recovery
    counts_add_up(result.summary)
    streams = result.summary["streams"]
    assert streams["TradeFilter→Aggregator"]["lost"] > 0
    assert streams["Aggregator→VWAP"]["sent"] <= streams["TradeFilter→Aggregator"]["received"]
    assert all(stream["repeated"] == 0 for stream in streams.values())
    assert result.summary["tuples"] == 300_000
    assert 0 < result.summary["sinks"]["Sink"]["tuples"] == result.sink("Sink").num_rows


def a_stopped_element_is_replaced(place):
    stopped = []

    def stop(watcher):
        [victim] = [status for status in watcher.table if status.pe == "QuoteFilter"]
        if not stopped and watcher.state is SystemState.RUNNING and victim.metrics.get("received"):
            stopped.append(victim.pid)
            os.kill(victim.pid, signal.SIGSTOP)

    watcher = Watcher(stop)
    result = run(BARGAINS, market(200_000), out=place / "run", rate=50_000, fuse="none", watch=watcher)
    [victim] = stopped
    assert not alive(victim)
    assert result.summary["pes"]["QuoteFilter"]["restarts"] >= 1
    counts_add_up(result.summary)
    streams = result.summary["streams"]
    assert streams["TradeQuote→QuoteFilter"]["lost"] > 0
    assert result.summary["sinks"]["Sink"]["tuples"] == result.sink("Sink").num_rows


def random_kills_and_true_counts(place, seconds=20, every=1.5, seed=1):
    """Elements of an app with all three kinds of streams are killed at random; the taps' own books tell the truth."""
    chance = random.Random(seed)
    print(f"random_kills_and_true_counts: seed {seed}", file=sys.stderr)
    rate = 5_000
    rows = seconds * rate
    ways = pa.array([0] * rows, pa.int64())
    path = numbers(place, rows, way=ways)
    books = place / "books"
    books.mkdir()
    victims = ["G1", "G2", "B1", "M", "Kept", "R1", "R2"]  # all but Plain, whose losses nobody would have booked
    times = [chance.uniform(0.5, seconds - 1) for _ in range(round(seconds / every))]
    sizes = Sizes()
    result = run(
        tapped.tapped(books),
        {"Plain": path, "Kept": path},
        out=place / "run",
        rate=rate,
        kill=",".join(f"{chance.choice(victims)}@{at:.3f}s" for at in times),
        watch=Watcher(sizes),
    )
    summary = result.summary
    try:
        assert sum(pe["restarts"] for pe in summary["pes"].values()) >= len(times) // 2
        _check_books(result, books, rows, sizes.killed)
        sizes.check_flat()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {json.dumps(summary['streams'])} {summary['pes']}") from error


def killed_sources_lose_nothing_uncounted(place, seed=1, kills=3, fuse="auto"):
    """The oracle reads inputs and sinks alone, and adds what is said to be lost."""
    chance, rows, rate = random.Random(seed), 150_000, 30_000
    place.mkdir(exist_ok=True)
    path = numbers(place, rows)
    times = sorted(chance.uniform(0.2, 2.5) for _ in range(kills))  # there is input for some seconds after them
    kill = ",".join(f"{chance.choice(['One', 'Two'])}@{at:.3f}s" for at in times)
    result = run(tapped.two_sources(), {"One": path, "Two": path}, out=place / "run", rate=rate, fuse=fuse, kill=kill)
    summary = result.summary
    told = f"seed {seed}, {fuse}: {json.dumps(summary['streams'])} {summary['sources']} {summary['sinks']}"
    assert sum(pe["restarts"] for pe in summary["pes"].values()) >= 1, told
    for name, stream in summary["streams"].items():
        if name.startswith(("One→", "Two→")):
            assert stream["sent"] + summary["sources"][name[:3]]["lost"] == rows, told
    lost = sum(stream["lost"] for name, stream in summary["streams"].items() if "Both" in name)
    lost += sum(source["lost"] for source in summary["sources"].values()) + summary["sinks"]["All"]["lost"]
    out = result.sink("All")
    assert len(set(zip(out["_src"].to_pylist(), out["_seq"].to_pylist(), strict=True))) == out.num_rows, told
    assert out.num_rows + lost == 2 * rows, told


def fifty_kills_of_sources(place):
    for seed in range(50):
        killed_sources_lose_nothing_uncounted(place / str(seed), seed, 1 + seed % 3, ["auto", "none", "all"][seed % 3])


def five_minutes_of_kills(place):
    random_kills_and_true_counts(place, seconds=300, every=5, seed=time.time_ns())


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
    """Resident memory of every process of the run, every second; and which of them were killed."""

    def __init__(self):
        self.of = {}  # by process: [(age in seconds, bytes)]
        self.first = {}
        self.looked = 0.0

    def __call__(self, watcher):
        self.watcher = watcher
        now = time.monotonic()
        if now - self.looked < 1:
            return
        self.looked = now
        for status in watcher.table:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                pages = int(Path(f"/proc/{status.pid}/statm").read_text().split()[1])
                age = now - self.first.setdefault(status.pid, now)
                self.of.setdefault(status.pid, []).append((age, pages * os.sysconf("SC_PAGE_SIZE")))

    @property
    def killed(self):
        """Of every element, all its processes but the last."""
        return {pid for pids in self.watcher.pids.values() for pid in pids[:-1]}

    def check_flat(self):
        """After twenty seconds a process has what it needs."""
        for pid, sizes in self.of.items():
            warm = [size for age, size in sizes if age > 20]
            if len(warm) > 40:
                assert statistics.median(warm[-10:]) < 1.1 * statistics.median(warm[:10]) + (8 << 20), (pid, sizes)


def kills_under_a_protocol(place, protocol):
    """Whoever goes back, the rows are those of a run that nobody disturbed. Judged by inputs and sink alone."""
    workload = load_workload("nexmark-3")
    inputs, paths = workload.inputs(60_000, 1, rate=20_000), {}
    for name, table in inputs.items():
        paths[name] = place / f"{name}.parquet"
        pq.write_table(table, paths[name])
    expected = references.local_items(inputs, 15_000_000)

    def killed_at(rate):
        """The elements that came back from a kill: the machine may be too busy to kill while there is input."""
        volleys, killed = [{"Found"}, {"Auction", "Sink"}], set()

        def kill(watcher):
            """The next ones, whenever all work, and have done so for a while."""
            busy = all(status.metrics.get("received") for status in watcher.table if status.pe != "Sink")
            if volleys and watcher.state is SystemState.RUNNING and busy:
                victims = volleys.pop(0)
                killed.update(victims)
                for status in watcher.table:
                    if status.pe in victims:
                        os.kill(status.pid, signal.SIGKILL)

        result = run(
            workload.graph("small"),
            paths,
            out=place / f"run-{rate}",
            rate=rate,
            fuse="none",
            protocol=protocol,
            interval="300ms",
            watch=Watcher(kill),
        )
        pes = result.summary["pes"]
        restarted = {name for name, pe in pes.items() if pe["restarts"]}
        assert restarted <= killed
        alone = protocol in ("repeat", "recompute")  # who fails goes back alone
        for pe in pes.values():
            assert not (alone and pe["went_back"]), pes
            assert alone or not restarted or pe["restarts"] + pe["went_back"] >= 1, pes
        found = result.sink("Sink")
        assert found.num_rows == result.summary["sinks"]["Sink"]["tuples"]
        columns = [found[name].to_pylist() for name in ("name", "city", "state", "auction")]
        assert list(zip(*columns, strict=True)) == expected
        return restarted

    assert any("Found" in killed_at(rate) for rate in (15_000, 5_000, 1_500))


# Live inputs ----------------------------------------------------------------------------------------------------------


def live_inputs_are_followed(place):
    """Spark's `rate` and `socket` sources into streams, a run that follows them and is killed, a query behind it."""
    spark = SparkSession.getActiveSession()
    server, enough = socket.create_server(("127.0.0.1", 0)), threading.Event()
    talking = threading.Thread(target=_talk, args=(server, enough), daemon=True)
    talking.start()
    lines = spark.readStream.format("socket").option("host", "127.0.0.1").option("port", server.getsockname()[1])
    lines = lines.option("includeTimestamp", "true").load()
    rate = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    ways = {
        "Numbers": rate.selectExpr("value", "timestamp AS _ts", "value AS _seq"),
        "Lines": lines.selectExpr("CAST(value AS long) AS value", "timestamp AS _ts", "CAST(value AS long) AS _seq"),
    }
    paths = {name: place / name for name in ways}
    queries = [
        frame.writeStream.format("riprap")
        .option("checkpointLocation", str(place / f"{name}-query"))
        .start(str(paths[name]))
        for name, frame in ways.items()
    ]
    while not all((path / "stream.json").exists() for path in paths.values()):
        assert all(query.exception() is None for query in queries)
        time.sleep(0.1)

    ends = {}  # by input: rows before its end

    def end(watcher):
        """Once the union has died and come back, and both inputs have brought some more."""
        [union] = [status for status in watcher.table if status.pe == "Both"]
        if not enough.is_set():
            if not union.restarts or watcher.state is not SystemState.RUNNING:
                return
            if any(Stream.open(path).stable().position <= 100 for path in paths.values()):
                return
            enough.set()
            for query in queries:
                query.stop()
        for name, path in paths.items():
            if name not in ends:
                with contextlib.suppress(Busy), Stream.open(path).writer(producer="the end") as writer:
                    writer.mark(None, kind="end")
                    ends[name] = writer.position

    given = {name: f"stream:{path}" for name, path in paths.items()}
    result = run(
        tapped.live(), given, out=place / "run", follow=True, fuse="none", kill="Both@0.5s", watch=Watcher(end)
    )
    assert result.summary["pes"]["Both"]["restarts"] >= 1
    assert all(stream["lost"] == 0 for stream in result.summary["streams"].values()), result.summary["streams"]
    behind = spark.readStream.format("riprap").load(result.summary["sinks"]["All"]["path"])
    behind.writeStream.format("parquet").option("path", str(place / "out")).option(
        "checkpointLocation", str(place / "out-query")
    ).trigger(availableNow=True).start().awaitTermination()
    out = pq.read_table(place / "out")
    found = sorted(zip(out["_src"].to_pylist(), out["value"].to_pylist(), strict=True))
    held = {name: [v for i in Stream.open(paths[name]).read() for v in i.batch["value"].to_pylist()] for name in paths}
    assert len(set(found)) == len(found)
    for src, name in enumerate(paths):  # a micro-batch that was still being written may have come behind the end
        there = [value for which, value in found if which == src]
        assert set(held[name][: ends[name]]) <= set(there) <= set(held[name]), name


def _talk(server, enough):
    connection, _ = server.accept()
    with connection, contextlib.suppress(OSError):
        number = 0
        while not enough.wait(0.005):
            connection.sendall(f"{number}\n".encode())
            number += 1


# Errors ---------------------------------------------------------------------------------------------------------------


def numbers(place, rows, **columns):
    path = place / "numbers.parquet"
    times = pa.array(range(rows), pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"x": pa.array(range(rows), pa.int64()), **columns, "_ts": times}), path)
    return path


def an_exception_of_an_operator_ends_the_run(place):
    watcher = Watcher()
    with pytest.raises(CheckFailed, match="Touchy: ValueError: three thousand is too much") as caught:
        run(
            tapped.failing(), {"In": numbers(place, 100_000)}, out=place / "run", rate=2_000, fuse="none", watch=watcher
        )
    assert caught.value.exit_code != 0
    assert {pe: len(pids) for pe, pids in watcher.pids.items()} == {"In": 1, "Positive": 1, "Touchy": 1, "Out": 1}


def an_exception_in_the_driver_leaves_no_process(place):
    def fail(watcher):
        if watcher.state is SystemState.RUNNING:
            raise ZeroDivisionError

    watcher = Watcher(fail)
    with pytest.raises(ZeroDivisionError):
        run(BARGAINS, market(400_000), out=place / "run", rate=1_000, watch=watcher)
    assert len(watcher.pids) == 4
    watcher.all_gone()


# The command, in this process and on its session ----------------------------------------------------------------------


def command(*arguments):
    """`riprap run …`: its exit code, and what it wrote to stdout and stderr."""
    before, sys.argv = sys.argv, ["riprap", "run", *map(str, arguments)]
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            riprap()
        code = 0
    except SystemExit as end:
        code = 0 if end.code is None else end.code
    finally:
        sys.argv = before
    return code, out.getvalue(), err.getvalue()


def bad_input_is_refused_in_a_sentence(place):
    plan = place / "plan.toml"
    plan.write_text('app = "other"\n')
    full = place / "full"
    full.mkdir()
    (full / "file").touch()
    out = ["--out", place / "run"]
    refusals = [
        (["bargain-discoverie", *out], 2, "bargain-discovery"),
        ([BARGAINS, "--kill", "Agregator@1s", *out], 2, "did you mean Aggregator?"),
        ([BARGAINS, "--kill", "Aggregator", *out], 2, "write WHAT@TIME"),
        ([BARGAINS, "--kill", "executor@1s", *out], 2, "the executor is the driver"),
        ([BARGAINS, "--parallelism", "Agregator=2", *out], 2, "Agregator"),
        ([BARGAINS, "--parallelism", "Aggregator", *out], 2, "write OPERATOR=N"),
        ([BARGAINS, "--parallelism", "Aggregator=20", *out], 3, "has 12 free of 12"),
        ([BARGAINS, "--fuse", "some", *out], 2, "auto, none, all"),
        ([BARGAINS, "--stability", "none", *out], 2, "one of async, group, fsync"),
        ([BARGAINS, "--for", "1s", "--until-end", *out], 2, "--for and --until-end"),
        ([BARGAINS, "--for", "soon", *out], 2, "soon"),
        ([BARGAINS, "--plan", plan, *out], 2, "the plan is for app other"),
        ([BARGAINS, "--out", full], 2, f"{full} is not empty"),
        (["--resume", place / "nowhere"], 2, "is not the directory of a run"),
        ([BARGAINS, "--resume", place], 2, "not both"),
        ([], 2, "give an app"),
    ]
    for arguments, code, words in refusals:
        found, _, err = command(*arguments)
        sentence = err.removeprefix("starting Spark and the processing elements …\n").strip()
        assert words in sentence, (arguments, err)
        assert sentence.startswith("riprap: "), (arguments, err)
        assert "\n" not in sentence, (arguments, err)
        assert found == code, (arguments, found, err)
    assert not (place / "run").exists()


def the_command_tells_what_became_of_the_run(place):
    """Also an operator's exception: shown, with an exit code."""
    arguments = [BARGAINS, "--tuples", 200_000, "--rate", 50_000, "--kill", "Aggregator@1s", "--out", place / "run"]
    code, out, err = command(*arguments, "--json")
    assert code == 0, err
    summary = json.loads(out)
    assert summary == json.loads((place / "run" / "summary.json").read_text())
    assert summary["pes"]["TradeFilter"]["restarts"] == 1
    assert {"sent", "received", "lost", "repeated", "recovery"} == set(summary["streams"]["TradeQuote→TradeFilter"])
    lines = [json.loads(line) for line in (place / "run" / "metrics.jsonl").read_text().splitlines()]
    assert {line["pe"] for line in lines} == set(summary["pes"])
    assert {line["restarts"] for line in lines if line["pe"] == "TradeFilter"} == {0, 1}
    code, out, err = command("tapped:failing", "--input", numbers(place, 10_000), "--out", place / "failing")
    assert code == 1
    assert "the run has failed: In: ValueError: three thousand is too much" in err


def a_checkpoint_in_the_plan_saves_the_state(place):
    # 5 s of input: a kill that comes late on a busy machine still comes in the middle of it
    path = numbers(place, 100_000)
    plan = place / "plan.toml"
    plan.write_text('app = "counting"\n[operators.Count]\ncheckpoint = "100ms"\n')
    arguments = ["tapped:counting", "--input", path, "--rate", 20_000, "--fuse", "none", "--kill", "Count@1s", "--json"]
    for name, protection in (("without", []), ("with", ["--plan", plan])):
        code, out, err = command(*arguments, *protection, "--out", place / name)
        assert code == 0, err
        summary = json.loads(out)
        assert summary["pes"]["Count"]["restarts"] == 1
        told = RunResult(place / name, summary).sink("Out")["n"].to_pylist()
        [restart] = [at for at in range(1, len(told)) if told[at] != told[at - 1] + 1]
        if protection:
            assert told[restart] > told[restart - 1] / 2  # it had most of what it had counted before
            assert summary["checkpoints"]["Count"]["taken"] >= 3
            assert summary["checkpoints"]["Count"]["bytes"] > 0
        else:
            assert told[restart] == 1
            assert summary["checkpoints"] == {}


def the_resumed_run_is_exact(place, directory, source):
    """`directory`: of a run from `source` with replay streams only."""
    since = time.monotonic()
    code, out, err = command("--resume", directory, "--json")
    elapsed = time.monotonic() - since
    assert code == 0, err
    summary = json.loads(out)
    assert 0 <= summary["seconds"] <= elapsed
    assert summary["throughput"] * summary["seconds"] == pytest.approx(summary["tuples"] - summary["resumed_at"])
    assert (summary["latency"]["p99"] or 0) <= 1.1 * 1000 * elapsed  # nothing from before is in it
    for name, stream in summary["streams"].items():
        assert stream["recovery"] == "replay", name
        assert stream["sent"] == stream["received"], name
        assert stream["lost"] == stream["repeated"] == 0, name
    same(RunResult(Path(directory), summary).sink("Sink"), bounded(load_app(BARGAINS), {"Source": source}))


# On a cluster ---------------------------------------------------------------------------------------------------------


def elements_of_a_killed_executor_move(place):
    def moved(rate):
        """Whether somebody had to: a busy machine may be through with the input before all elements run."""
        out_dir = place / f"run-{rate}"
        arguments = [BARGAINS, "--tuples", 100_000, "--rate", rate, "--kill", "executor@0.5s", "--json"]
        code, out, err = command(*arguments, "--out", out_dir)
        assert code == 0, err
        summary = json.loads(out)
        restarts = {name: pe["restarts"] for name, pe in summary["pes"].items()}
        assert set(restarts.values()) <= {0, 1}
        assert restarts["Source"] or not any(
            restarts.values()
        )  # the executor of the first element is the one that dies
        counts_add_up(summary)
        assert summary["tuples"] == 100_000
        assert RunResult(out_dir, summary).sink("Sink").num_rows == summary["sinks"]["Sink"]["tuples"], summary
        return restarts["Source"] == 1

    assert any(moved(rate) for rate in (20_000, 5_000, 1_500))


def a_replaced_element_that_goes_on_ends_by_itself(place):
    """Its executor dies while it and its daemon are stopped, so that nobody can end it; then it goes on.

    The daemon becomes a child of this process, which it descends from: as one of nobody's the kernel would end it.
    """
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    stopped, daemons, ended = {}, set(), []

    def go_on():
        assert all(alive(pid) for pid in stopped.values())
        for pid in stopped.values():
            os.kill(pid, signal.SIGCONT)
        ended.append(time.monotonic())

    def meddle(watcher):
        doomed = watcher.table[0].executor_pid
        if not stopped and watcher.state is SystemState.RUNNING:
            stopped.update({status.pe: status.pid for status in watcher.table if status.executor_pid == doomed})
            daemons.update(parent(pid) for pid in stopped.values())
            for pid in [*daemons, *stopped.values()]:
                os.kill(pid, signal.SIGSTOP)
            os.kill(doomed, signal.SIGKILL)
        elif stopped and not ended and all(status.pid not in stopped.values() for status in watcher.table):
            go_on()

    watcher = Watcher(meddle)
    try:
        result = run(BARGAINS, market(200_000), out=place / "run", rate=25_000, watch=watcher)
        assert stopped
        if not ended:  # on a busy machine the others may have come to the end first
            go_on()
        deadline = time.monotonic() + PATIENCE
        while any(alive(pid) for pid in stopped.values()):
            assert time.monotonic() < deadline, f"{stopped} are left"
            time.sleep(0.1)
    finally:
        for pid in daemons:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    assert {name for name, pe in result.summary["pes"].items() if pe["restarts"]} == set(stopped)
    counts_add_up(result.summary)
    bargains = result.sink("Sink")
    # Perhaps none: what a source sends while those behind it come back is lost.
    assert bargains.num_rows == result.summary["sinks"]["Sink"]["tuples"], result.summary
    assert bargains.num_rows == len(set(bargains["_seq"].to_pylist()))


def parent(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


SCENES = {name: scene for name, scene in globals().items() if callable(scene)}

if __name__ == "__main__":
    spark = hosting_session(SLOTS, master=sys.argv[2] if len(sys.argv) > 2 else None)
    main(SCENES)
    spark.stop()
