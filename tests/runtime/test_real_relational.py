"""Real processes, without Spark: a table, duplicates and a join at expiry go on through `kill -9` exactly."""

import os
import signal

import pyarrow as pa
from tests.protocols.every_n import EVERY_N
from tests.runtime.test_real_lives import PATIENCE, Hosts, _restarts, _until
from tests.spark.supply import Supply

from riprap.base.clock import SYSTEM_CLOCK
from riprap.engine.engine import Engine
from riprap.engine.inputs import keyed
from riprap.graph.annotations import backup
from riprap.graph.builder import App
from riprap.graph.windows import time
from riprap.runtime.coordination.coordinator import Coordinator
from riprap.runtime.layout import arrange
from riprap.runtime.run_context import Run
from riprap.streams import PersistentStream

ROWS = 30_000


def graph():
    app = App("relational")
    labels = app.table(pa.table({"k": range(50), "label": [f"l{k}" for k in range(50)]}), name="labels")
    given = app.source("S", "x long", protect=(backup(),)).select("x % 100 AS k", "x", name="K", protect=(backup(),))
    first = given.join_table(labels, on="k", how="left", name="T", protect=(backup(),)).drop_duplicates(
        "k", within="50ms", name="D", protect=(backup(),)
    )
    other = given.select("k", "x AS y", where="x % 7 = 0", name="R", protect=(backup(),))
    first.join(
        other, on="k", left_window=time("2ms"), right_window=time("1ms"), how="left", unmatched="expiry", name="J",
        protect=(backup(),),
    ).sink("Sink")  # fmt: skip
    return app.build()


def test_killed_elements_restore_their_state(tmp_path):
    layout = arrange(graph(), "none", None, EVERY_N, {"n": 1_000, "back": 5})
    hosts = Hosts(len(layout.pes) + 2)
    numbers = pa.array(range(ROWS), pa.int64())
    times = pa.array(range(0, ROWS * 100, 100), pa.timestamp("us", "UTC"))
    supply = Supply(tmp_path / "in", pa.table({"x": numbers, "_ts": times, "_seq": numbers}), at_once=200)
    coordinator = Coordinator(tmp_path, layout, "secret", None, "127.0.0.1", SYSTEM_CLOCK, silence=PATIENCE)
    try:
        coordinator.start()
        inputs = {"S": str(supply.path)}
        run = Run(tmp_path, layout, inputs, coordinator.location, "secret", "127.0.0.1", follow=True)
        for pe in layout.pes:
            hosts.start(run, pe.id)
        for at, victim in enumerate(("D", "J")):
            _until(lambda: sum(s.went_back for s in coordinator.table()) > at, coordinator, supply)  # noqa: B023
            os.kill(hosts.running[victim].pid, signal.SIGKILL)
            hosts.running[victim].join()
            hosts.start(run, victim)
        _until(lambda: all(_restarts(coordinator)[pe] == 1 for pe in ("D", "J")), coordinator, supply)
        supply.end()
        assert coordinator.wait(PATIENCE), coordinator.table()
        assert coordinator.error is None, coordinator.error
    finally:
        coordinator.close()
        hosts.close()
    found = pa.Table.from_batches([item.batch for item in PersistentStream.open(tmp_path / "sinks" / "Sink").read()])
    batches = {"S": keyed(supply.table().to_batches(), layout.graph["S"])}
    expected = pa.Table.from_batches([batch for _, batch in Engine(layout.graph).run(batches)])
    assert found.to_pylist() == expected.to_pylist()
    labels, ys = found["label"].to_pylist(), found["y"].to_pylist()
    assert {None, "l7"} <= set(labels)
    assert None in ys
    assert len(set(ys)) > 5
