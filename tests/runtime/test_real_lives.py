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
from tests.protocols.every_n import EVERY_N
from tests.spark.supply import Supply

from riprap.base.clock import SYSTEM_CLOCK
from riprap.engine.engine import Engine
from riprap.engine.inputs import keyed
from riprap.graph.annotations import backup
from riprap.graph.builder import App
from riprap.graph.windows import count
from riprap.runtime.coordination.coordinator import Coordinator
from riprap.runtime.layout import arrange
from riprap.runtime.process import run_element
from riprap.runtime.run_context import Run
from riprap.streams import PersistentStream

PATIENCE = 300.0  # seconds; only how long a test that fails takes
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
        self._fork = multiprocessing.get_context("forkserver")
        self._fork.set_forkserver_preload(["riprap.runtime.process", "riprap.protocols.registry"])
        self.spare = []
        for _ in range(number):
            self._add()
        self.attempts: dict[str, int] = {}
        self.running: dict[str, multiprocessing.Process] = {}

    def _add(self) -> None:
        here, there = self._fork.Pipe()
        process = self._fork.Process(target=element, args=(there,), daemon=True)
        process.start()
        self.spare.append((process, here))

    def start(self, run: Run, pe: str) -> None:
        if not self.spare:
            self._add()
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
        for at, victim in enumerate(("U", "A")):
            _until(lambda: sum(s.went_back for s in coordinator.table()) > at, coordinator, supply)  # noqa: B023
            os.kill(hosts.running[victim].pid, signal.SIGKILL)
            hosts.running[victim].join()
            hosts.start(run, victim)
        _until(lambda: all(_restarts(coordinator)[pe] == 1 for pe in ("U", "A")), coordinator, supply)
        supply.end()
        assert coordinator.wait(PATIENCE), coordinator.table()
        assert coordinator.error is None, coordinator.error
        table = {status.pe: status for status in coordinator.table()}
        assert sum(status.went_back for status in table.values()) >= 2
        assert {pe: times for pe, times in _restarts(coordinator).items() if times} == {"U": 1, "A": 1}
    finally:
        coordinator.close()
        hosts.close()
    found = pa.Table.from_batches([item.batch for item in PersistentStream.open(tmp_path / "sinks" / "Sink").read()])
    batches = {"S": keyed(supply.table().to_batches(), layout.graph["S"])}
    expected = pa.Table.from_batches([batch for _, batch in Engine(layout.graph).run(batches)])
    assert found["total"].to_pylist() == expected["total"].to_pylist()


def _restarts(coordinator) -> dict[str, int]:
    return {status.pe: status.restarts for status in coordinator.table()}


def _until(condition, coordinator, supply) -> None:
    """There is more input for as long as it takes."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        supply.more()
        assert coordinator.error is None, coordinator.error
        assert time.monotonic() < deadline, [(s.pe, s.state, s.went_back) for s in coordinator.table()]
        time.sleep(0.02)
