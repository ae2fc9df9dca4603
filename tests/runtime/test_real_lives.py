"""Real processes, without Spark: a protocol of a test, elements that go back without dying, and `kill -9`.

Processes come from a fork server, which has never spoken gRPC, whatever tests ran here before. They wait for their
turn; those left over are ended at the end.
"""

import multiprocessing
import os
import pickle
import signal
import time

import pyarrow as pa
import pyarrow.parquet as pq
from tests.protocols.every_n import EVERY_N

from riprap.base.clock import SYSTEM_CLOCK
from riprap.engine.engine import Engine
from riprap.engine.inputs import keyed, read_file
from riprap.graph.annotations import backup
from riprap.graph.builder import App
from riprap.graph.windows import count
from riprap.runtime.coordination.coordinator import Coordinator
from riprap.runtime.layout import arrange
from riprap.runtime.process import run_element
from riprap.runtime.run import Run
from riprap.streams import Stream

PATIENCE = 120.0  # seconds; only how long a test that fails takes
ROWS = 50_000


def graph():
    app = App("lives")
    source = app.source("S", "x long", protect=(backup(),))
    evens = source.filter("x % 2 = 0", name="F", protect=(backup(),))
    odds = source.filter("x % 3 = 0", name="G", protect=(backup(),))
    total = evens.union(odds, name="U", protect=(backup(),))
    total.aggregate("sum(x) AS total", window=count(50), every=count(7), name="A", protect=(backup(),)).sink("Sink")
    return app.build()


def element(pipe) -> None:
    """A process that becomes an element when it is told which."""
    run_element(*pickle.loads(pipe.recv_bytes()))


class Hosts:
    def __init__(self, number: int) -> None:
        fork = multiprocessing.get_context("forkserver")
        fork.set_forkserver_preload(["riprap.runtime.process", "riprap.protocols.registry"])
        self.spare = []
        for _ in range(number):
            here, there = fork.Pipe()
            process = fork.Process(target=element, args=(there,), daemon=True)
            process.start()
            self.spare.append((process, here))
        self.attempts: dict[str, int] = {}
        self.running: dict[str, multiprocessing.Process] = {}

    def start(self, run: Run, pe: str) -> None:
        attempt = self.attempts[pe] = self.attempts.get(pe, -1) + 1
        self.running[pe], pipe = self.spare.pop()
        pipe.send_bytes(pickle.dumps((run, pe, attempt, os.getpid())))

    def close(self) -> None:
        for process in [*self.running.values(), *(process for process, _ in self.spare)]:
            process.kill()
            process.join()


def test_elements_go_back_alive_and_are_killed_and_the_output_is_exact(tmp_path):
    layout = arrange(graph(), "none", None, EVERY_N, {"n": 1_000, "back": 5})
    hosts = Hosts(len(layout.pes) + 3)
    path = tmp_path / "numbers.parquet"
    times = pa.array(range(0, ROWS * 100, 100), pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"x": pa.array(range(ROWS), pa.int64()), "_ts": times}), path)
    coordinator = Coordinator(tmp_path, layout, "secret", None, "127.0.0.1", SYSTEM_CLOCK, silence=30.0)
    try:
        coordinator.start()
        run = Run(tmp_path, layout, {"S": str(path)}, coordinator.location, "secret", "127.0.0.1", rate=10_000.0)
        for pe in layout.pes:
            hosts.start(run, pe.id)
        for at, victim in enumerate(("U", "A")):
            _until(lambda: sum(s.went_back for s in coordinator.table()) > at, coordinator)  # noqa: B023
            os.kill(hosts.running[victim].pid, signal.SIGKILL)
            hosts.running[victim].join()
            hosts.start(run, victim)
        assert coordinator.wait(PATIENCE), coordinator.table()
        assert coordinator.error is None, coordinator.error
        table = {status.pe: status for status in coordinator.table()}
        assert sum(status.went_back for status in table.values()) >= 2
        assert {pe: status.restarts for pe, status in table.items() if status.restarts} == {"U": 1, "A": 1}
    finally:
        coordinator.close()
        hosts.close()
    found = pa.Table.from_batches([item.batch for item in Stream.open(tmp_path / "sinks" / "Sink").read()])
    batches = {"S": keyed(read_file(path), layout.graph["S"])}
    expected = pa.Table.from_batches([batch for _, batch in Engine(layout.graph).run(batches)])
    assert found["total"].to_pylist() == expected["total"].to_pylist()


def _until(condition, coordinator) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert coordinator.error is None, coordinator.error
        assert time.monotonic() < deadline, [(s.pe, s.state, s.went_back) for s in coordinator.table()]
        time.sleep(0.02)
