"""Real processes and `kill -9`: an element whose state is records in its own output comes back exactly."""

import json
import os
import signal
import subprocess
import sys

import pyarrow as pa
import pytest
from tests.runtime.test_real_lives import PATIENCE, Hosts, _until
from tests.spark.supply import Supply

from riprap.base.clock import SYSTEM_CLOCK
from riprap.engine.engine import Engine
from riprap.engine.inputs import keyed
from riprap.graph.annotations import backup, continuous
from riprap.graph.builder import App
from riprap.graph.windows import count
from riprap.records.listing import newest, records
from riprap.runtime.coordination.coordinator import Coordinator
from riprap.runtime.layout import arrange
from riprap.runtime.process import log_path
from riprap.runtime.run_context import Run
from riprap.streams import PersistentStream

ROWS = 40_000


def graph():
    app = App("means")
    source = app.source("S", "k long, x double", protect=(backup(),))
    source.aggregate(
        "avg(x) AS x", "count(*) AS n", window=count(10), by="k", name="Mean",
        protect=(continuous(every="20ms", slow_after="20ms", shot=32),),
    ).sink("Sink")  # fmt: skip
    return app.build()


def recording(log) -> int:
    """The life that wrote the newest record; they count from 1."""
    line = newest(PersistentStream.open(log))
    return 0 if line is None else line.epoch


def rows_in(path) -> int:
    return PersistentStream.open(path).stable().position if (path / "stream.json").exists() else 0


@pytest.mark.parametrize("kills", [2])
def test_a_killed_element_comes_back_from_its_own_output(tmp_path, kills):
    layout = arrange(graph())
    hosts = Hosts(len(layout.pes) + kills)
    times = pa.array(range(0, ROWS * 100, 100), pa.timestamp("us", "UTC"))
    columns = {"k": pa.array([at * at % 211 for at in range(ROWS)], pa.int64()), "x": pa.array(map(float, range(ROWS)))}
    numbers = pa.array(range(ROWS), pa.int64())
    supply = Supply(tmp_path / "in", pa.table({**columns, "_ts": times, "_seq": numbers}), at_once=200)
    coordinator = Coordinator(tmp_path, layout, "secret", None, "127.0.0.1", SYSTEM_CLOCK, silence=PATIENCE)
    (link,) = [link for link in layout.links if link.stream.source == "Mean"]
    (channel,) = link.channels()
    try:
        coordinator.start()
        inputs = {"S": str(supply.path)}
        run = Run(tmp_path, layout, inputs, coordinator.location, "secret", "127.0.0.1", follow=True)
        log = log_path(run, channel)
        for pe in layout.pes:
            hosts.start(run, pe.id)
        for killed in range(kills + 1):
            before = rows_in(log)
            _until(lambda: rows_in(log) > before + 20 and recording(log) > killed, coordinator, supply)  # noqa: B023
            if killed < kills:
                os.kill(hosts.running["Mean"].pid, signal.SIGKILL)
                hosts.running["Mean"].join()
                hosts.start(run, "Mean")
        _until(lambda: any(line.checked for line in records(PersistentStream.open(log))), coordinator, supply)
        supply.end()
        assert coordinator.wait(PATIENCE), coordinator.table()
        assert coordinator.error is None, coordinator.error
    finally:
        coordinator.close()
        hosts.close()
    found = pa.Table.from_batches([item.batch for item in PersistentStream.open(tmp_path / "sinks" / "Sink").read()])
    expected = pa.Table.from_batches(
        [batch for _, batch in Engine(layout.graph).run({"S": keyed(supply.table().to_batches(), layout.graph["S"])})]
    )
    for name in ("k", "x", "n"):
        assert found[name].to_pylist() == expected[name].to_pylist()
    listed = command("records", str(log), "-n", "0", "--json")
    assert len({line["epoch"] for line in listed}) > 1  # a life went on where another had been
    assert sum(line["checked"] for line in listed) > 0
    assert command("verify", str(log), "--json")["records"] == len(listed)
    assert command("show", str(log), "--json")["record"] == listed[-1]


def command(*arguments):
    ran = subprocess.run(
        [sys.executable, "-m", "riprap.cli.main", "stream", *arguments], capture_output=True, text=True, check=True
    )
    return json.loads(ran.stdout)
