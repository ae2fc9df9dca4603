"""Real processes and `kill -9`: an element whose state is records in its own output comes back exactly."""

import json
import os
import signal
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.runtime.test_real_lives import PATIENCE, Hosts, _until

from riprap.base.clock import SYSTEM_CLOCK
from riprap.engine.engine import Engine
from riprap.engine.inputs import keyed, read_file
from riprap.graph.annotations import backup, continuous
from riprap.graph.builder import App
from riprap.graph.windows import count
from riprap.runtime.coordination.coordinator import Coordinator
from riprap.runtime.coordination.states import WorkerState
from riprap.runtime.layout import arrange
from riprap.runtime.process import log_path
from riprap.runtime.run import Run
from riprap.streams import Stream

ROWS = 40_000


def graph():
    app = App("means")
    source = app.source("S", "k long, x double", protect=(backup(),))
    source.aggregate(
        "avg(x) AS x", "count(*) AS n", window=count(10), by="k", name="Mean",
        protect=(continuous(every="20ms", slow_after="20ms", shot=32),),
    ).sink("Sink")  # fmt: skip
    return app.build()


def ended(coordinator) -> bool:
    return any(status.pe == "Mean" and status.state is WorkerState.ENDED for status in coordinator.table())


def rows_in(path) -> int:
    return Stream.open(path).stable().position if (path / "stream.json").exists() else 0


@pytest.mark.parametrize("kills", [2])
def test_a_killed_element_comes_back_from_its_own_output(tmp_path, kills):
    layout = arrange(graph())
    hosts = Hosts(len(layout.pes) + kills)
    path = tmp_path / "numbers.parquet"
    times = pa.array(range(0, ROWS * 100, 100), pa.timestamp("us", "UTC"))
    columns = {"k": pa.array([at * at % 211 for at in range(ROWS)], pa.int64()), "x": pa.array(map(float, range(ROWS)))}
    pq.write_table(pa.table({**columns, "_ts": times}), path)
    coordinator = Coordinator(tmp_path, layout, "secret", None, "127.0.0.1", SYSTEM_CLOCK, silence=30.0)
    (link,) = [link for link in layout.links if link.stream.source == "Mean"]
    (channel,) = link.channels()
    try:
        coordinator.start()
        run = Run(tmp_path, layout, {"S": str(path)}, coordinator.location, "secret", "127.0.0.1", rate=10_000.0)
        log = log_path(run, channel)
        before = 0
        for pe in layout.pes:
            hosts.start(run, pe.id)
        killed = 0
        while killed < kills:
            _until(lambda: rows_in(log) > before + 20 or ended(coordinator), coordinator)  # noqa: B023
            if ended(coordinator):
                break
            os.kill(hosts.running["Mean"].pid, signal.SIGKILL)
            hosts.running["Mean"].join()
            killed, before = killed + 1, rows_in(log)
            hosts.start(run, "Mean")
        assert coordinator.wait(PATIENCE), coordinator.table()
        assert coordinator.error is None, coordinator.error
    finally:
        coordinator.close()
        hosts.close()
    found = pa.Table.from_batches([item.batch for item in Stream.open(tmp_path / "sinks" / "Sink").read()])
    expected = pa.Table.from_batches(
        [batch for _, batch in Engine(layout.graph).run({"S": keyed(read_file(path), layout.graph["S"])})]
    )
    for name in ("k", "x", "n"):
        assert found[name].to_pylist() == expected[name].to_pylist()
    listed = command("records", str(log), "-n", "0", "--json")
    assert killed
    assert len({line["epoch"] for line in listed}) > 1  # a life went on where another had been
    assert sum(line["checked"] for line in listed) > 0
    assert command("verify", str(log), "--json")["records"] == len(listed)
    assert command("show", str(log), "--json")["record"] == listed[-1]


def command(*arguments):
    ran = subprocess.run(
        [sys.executable, "-m", "riprap.cli.main", "stream", *arguments], capture_output=True, text=True, check=True
    )
    return json.loads(ran.stdout)
