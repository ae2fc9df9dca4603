"""Scenes of runs under each protocol, and of live inputs. Not a test: `test_run.py` plays them."""

import contextlib
import json
import socket
import threading
import time

import pyarrow.parquet as pq
import tapped
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from scene_inputs import bounded, numbers_table, same
from stories import PATIENCE, SILENCE, Watcher, follow
from supply import Supply
from tests.papers.workloads import references

from riprap import App, count, full_replication
from riprap.api.run import run
from riprap.runtime.coordination.element_states import SystemState
from riprap.spark.queries import Restarted
from riprap.streams import Busy, PersistentStream
from riprap_papers.workloads.workload_catalogue import load_workload


def kills_under_a_protocol(place, protocol):
    """Whoever goes back, the rows are those of a run that nobody disturbed. Judged by inputs and sink alone."""
    workload = load_workload("nexmark-3")
    inputs = workload.inputs(300_000, 1, rate=20_000)
    # Both are supplied as far as the same time: one that waited for the other would fill the memory of neither.
    supplies = {
        name: Supply(place / name, table, at_once=max(table.num_rows // 750, 1)) for name, table in inputs.items()
    }

    def story(scene):
        yield lambda: scene.running() and scene.delivered("Sink") > 0
        scene.kill("Found")
        yield scene.back
        had = scene.delivered("Sink")
        yield lambda: scene.delivered("Sink") > had
        scene.kill("Auction", "Sink")
        yield scene.back

    result, scene = follow(
        workload.graph("small"),
        supplies,
        story,
        out=place / "run",
        fuse="none",
        protocol=protocol,
        interval="300ms",
        sinks="committed" if protocol in ("unaligned", "uncoordinated", "repeat") else None,
    )
    pes = result.summary["pes"]
    assert {name: pe["restarts"] for name, pe in pes.items()} == {name: scene.kills[name] for name in pes}
    alone = protocol in ("repeat", "recompute")  # who fails goes back alone
    for pe in pes.values():
        assert not (alone and pe["went_back"]), pes
        assert alone or pe["restarts"] + pe["went_back"] >= 1, pes
    found = result.sink("Sink")
    assert found.num_rows == result.summary["sinks"]["Sink"]["tuples"]
    columns = [found[name].to_pylist() for name in ("name", "city", "state", "auction")]
    expected = references.local_items({name: supply.table() for name, supply in supplies.items()}, 15_000_000)
    assert list(zip(*columns, strict=True)) == expected


def kills_in_a_cycle(place, protocol):
    """Its elements go back while tuples go round between them: three times each, whatever dies."""
    app = App("round")
    back = app.feedback("back", "x long, left long", delay="1ms")
    both = app.source("In", "x long, left long").union(back, name="Both")
    both.select("x", "left - 1 AS left", where="left > 0", name="Lower").feed("back")
    both.sink("Out")
    graph, supply = app.build(), Supply(place / "in", numbers_table(200_000, left=3), at_once=100)

    def story(scene):
        yield lambda: scene.running() and scene.delivered("Out") > 0
        scene.kill("Both")
        yield scene.back
        had = scene.delivered("Out")
        yield lambda: scene.delivered("Out") > had
        scene.kill("Lower/0")
        yield scene.back

    result, scene = follow(
        graph, {"In": supply}, story, out=place / "run", fuse="none", parallelism={"Lower": 2}, protocol=protocol,
        interval="300ms",
    )  # fmt: skip
    pes = result.summary["pes"]
    assert {name: pe["restarts"] for name, pe in pes.items()} == {name: scene.kills[name] for name in pes}
    assert {"Both", "Lower/0", "Lower/1"} <= set(pes)
    found = result.sink("Out")
    assert found.num_rows == 4 * supply.rows
    same(found, bounded(graph, {"In": supply.table()}))
    for name, stream in result.summary["streams"].items():
        assert (stream["sent"], stream["lost"]) == (stream["received"], 0), name


def speaking(directory, kills):
    """Whether every element in copies speaks, in the life behind its last kill, by what the run last told of itself."""
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    told = {line["pe"]: line for line in lines if line["role"] is not None}
    return bool(told) and all(t["role"] == "speaking" and t["restarts"] >= kills[pe] for pe, t in told.items())


def copies_die_in_turn(place):
    """Each comes back with the state of the other; the windows hold all that came, so an empty one would show."""
    app = App("turns", protect=full_replication(2))
    kept = app.source("In", "x long").filter("x % 10 < 7", name="Kept")
    kept.aggregate("sum(x) AS x", "count(*) AS n", window=count(1_000_000), every=count(100), name="All").sink("Out")
    graph, supply = app.build(), Supply(place / "in", numbers_table())

    def story(scene):
        yield lambda: scene.running() and scene.delivered("Out") > 10
        for pe in ("Kept#1", "Kept#2"):
            scene.kill(pe)
            yield scene.back
            had = scene.received("Kept#1") + scene.received("Kept#2"), scene.delivered("Out")
            yield lambda had=had: scene.received("Kept#1") + scene.received("Kept#2") > had[0] + 20_000
            yield lambda had=had: scene.delivered("Out") > had[1] and speaking(place / "run", scene.kills)

    result, _ = follow(graph, {"In": supply}, story, out=place / "run")
    same(result.sink("Out"), bounded(graph, {"In": supply.table()}))
    assert result.summary["copies"]["Kept"]["restored"] == 2, result.summary["copies"]
    assert result.summary["copies"]["Kept"]["tainted"] == 0, result.summary["copies"]
    for name, stream in result.summary["streams"].items():
        assert stream["lost"] == stream["repeated"] == 0, name


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
    deadline = time.monotonic() + PATIENCE
    while not all((path / "stream.json").exists() for path in paths.values()):
        assert all(query.exception() is None for query in queries)
        assert time.monotonic() < deadline
        time.sleep(0.1)

    ends = {}  # by input: rows before its end

    def end(watcher):
        """Once the union has died and come back, and both inputs have brought some more."""
        [union] = [status for status in watcher.table if status.pe == "Both"]
        assert time.monotonic() < deadline, watcher.table
        if not enough.is_set():
            if not union.restarts or watcher.state is not SystemState.RUNNING:
                return
            if any(PersistentStream.open(path).stable().position <= 100 for path in paths.values()):
                return
            enough.set()
            for query in queries:
                query.stop()
        for name, path in paths.items():
            if name not in ends:
                with contextlib.suppress(Busy), PersistentStream.open(path).writer(producer="the end") as writer:
                    writer.mark(None, kind="end")
                    ends[name] = writer.position

    given = {name: f"stream:{path}" for name, path in paths.items()}
    result = run(
        tapped.live(),
        given,
        out=place / "run",
        follow=True,
        fuse="none",
        kill="Both@0.5s",
        silence=SILENCE,
        watch=Watcher(end),
    )
    assert result.summary["pes"]["Both"]["restarts"] >= 1
    assert all(stream["lost"] == 0 for stream in result.summary["streams"].values()), result.summary["streams"]
    behind = spark.readStream.format("riprap").load(result.summary["sinks"]["All"]["path"])
    written = behind.writeStream.format("parquet").option("path", str(place / "out"))
    written = written.option("checkpointLocation", str(place / "out-query")).trigger(availableNow=True)
    Restarted(written.start).until(StreamingQuery.awaitTermination)
    out = pq.read_table(place / "out")
    found = sorted(zip(out["_src"].to_pylist(), out["value"].to_pylist(), strict=True))
    held = {
        name: [v for i in PersistentStream.open(paths[name]).read() for v in i.batch["value"].to_pylist()]
        for name in paths
    }
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
