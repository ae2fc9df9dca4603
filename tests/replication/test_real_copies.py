"""Copies and HA groups in real processes, without Spark, under seeded schedules: `kill -9` of several at once, of
sources too, and processes that are stopped for seconds.

Every run ends. While one copy of every operator, or one replica, is neither killed nor declared dead, the output is
that of the bounded run. The oracle reads inputs and outputs alone; no count is negative, and what a stream into the
sink counts as received is what came out.

    RIPRAP_SHARE=3/40 make soak ARGS=tests/replication/test_real_copies.py
"""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.replication.real_apps import APPS, grouped, table
from tests.runtime.test_real_lives import Hosts
from tests.simulation.shares import soak

from riprap.base.clock import SYSTEM_CLOCK
from riprap.engine.engine import Engine
from riprap.engine.inputs import keyed
from riprap.graph.graph import Graph
from riprap.graph.ha_groups import copied
from riprap.runtime.coordination.coordinator import Coordinator
from riprap.runtime.coordination.counts import stream_counts
from riprap.runtime.coordination.run_summary import read_ledgers
from riprap.runtime.layout import Layout, arrange
from riprap.runtime.run_context import Run
from riprap.streams import PersistentStream

PATIENCE = 900.0  # seconds; only how long a test that fails takes
ROWS = 10_000
RATE = 4_000.0
SILENCE = 3.0


class InjectedFault(NamedTuple):
    at: float  # seconds after all elements ran
    pe: str
    stopped: float  # seconds; 0: it is killed


def schedule(random: Random, pes: Sequence[str]) -> list[InjectedFault]:
    """Up to three volleys, in and behind the time in which rows come."""
    found = []
    for _ in range(random.randint(1, 3)):
        at = random.uniform(0.2, ROWS / RATE + 1.5)
        for pe in random.sample(pes, min(random.choice([1, 2, 4]), len(pes))):
            stopped = random.choice([0.0, 0.0, 1.0, 2.0, 5.0, 10.0])
            found.append(InjectedFault(at + random.uniform(0, 0.2), pe, stopped))
    return sorted(found)


def mortal(layout: Layout, random: Random, copies: bool) -> list[str]:
    """All but one copy of each operator, or one replica."""
    one = random.randrange(2)
    spared = {pe.fragment.name: random.randrange(2) if copies else one for pe in layout.pes}
    return [pe.id for pe in layout.pes if pe.fragment.replicas > 1 and pe.replica != spared[pe.fragment.name]]


class Playing:
    """A run whose processes are started again when they die, as Spark does with tasks."""

    def __init__(self, directory: Path, layout: Layout, inputs: dict[str, str], spare: int) -> None:
        self._hosts = Hosts(len(layout.pes) + spare)
        self.directory, self.layout = directory, layout
        self.coordinator = Coordinator(
            directory, layout, "secret", None, "127.0.0.1", SYSTEM_CLOCK, silence=SILENCE, on_hang=self._killed
        )
        self.coordinator.start()
        location, now = self.coordinator.location, SYSTEM_CLOCK.now()
        self._run = Run(directory, layout, inputs, location, "secret", "127.0.0.1", rate=RATE, begun_at=now)
        self._stopped: list[tuple[float, int]] = []  # until when, which process
        for pe in layout.pes:
            self._hosts.start(self._run, pe.id)

    def _killed(self, pe: str, epoch: int, pid: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        self.coordinator.close()
        for _, pid in self._stopped:
            self._send(pid, signal.SIGCONT)
        self._hosts.close()

    def until(self, seconds: float) -> bool:
        """Go on until the run has ended, True, or until then."""
        while time.monotonic() < seconds:
            if self.coordinator.wait(0.02):
                return True
            for until, pid in [one for one in self._stopped if one[0] <= time.monotonic()]:
                self._stopped.remove((until, pid))
                self._send(pid, signal.SIGCONT)
            for pe, process in list(self._hosts.running.items()):
                if not process.is_alive():
                    self._hosts.start(self._run, pe)
        return False

    def strike(self, struck: InjectedFault) -> None:
        pid = self._hosts.running[struck.pe].pid
        assert pid is not None
        self._send(pid, signal.SIGSTOP if struck.stopped else signal.SIGKILL)
        if struck.stopped:
            self._stopped.append((time.monotonic() + struck.stopped, pid))

    @staticmethod
    def _send(pid: int, sign: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, sign)

    @property
    def runs(self) -> bool:
        return all(status.state in ("running", "ended") for status in self.coordinator.table())


@contextmanager
def playing(directory: Path, layout: Layout, inputs: dict[str, str], spare: int) -> Iterator[Playing]:
    made = Playing(directory, layout, inputs, spare)
    try:
        yield made
    finally:
        made.close()


def came_out(directory: Path, graph: Graph) -> dict[str, list[dict]]:
    sinks = {sink.name: PersistentStream.open(directory / "sinks" / sink.name).read() for sink in graph.sinks}
    return {name: [_columns(row) for item in items for row in item.batch.to_pylist()] for name, items in sinks.items()}


def due(graph: Graph, tables: dict[str, pa.Table]) -> dict[str, list[dict]]:
    found: dict[str, list[dict]] = {sink.name: [] for sink in graph.sinks}
    batches = {name: keyed(one.to_batches(), graph[name]) for name, one in tables.items()}
    for name, event in Engine(graph).run(batches):
        if isinstance(event, pa.RecordBatch):
            found[name] += map(_columns, event.to_pylist())
    return found


def _columns(row: dict) -> dict:
    return {name: value for name, value in row.items() if not name.startswith("_")}


def check(seed: int, directory: Path) -> str:
    """Says what it was; a failure says it too."""
    random = Random(seed)
    name, copies, exact = random.choice(list(APPS)), random.random() < 0.6, random.random() < 0.5
    graph = copied(APPS[name](), 2) if copies else grouped(APPS[name]())
    layout = arrange(graph, random.choice(["none", "auto"]))
    pes = mortal(layout, random, copies) if exact else [pe.id for pe in layout.pes]
    struck = schedule(random, pes)
    said = f"seed {seed}: {name}, {'copies' if copies else 'HA group'}, {'exact' if exact else 'anything'}, {struck}"
    tables = {source.name: table(source, ROWS, random) for source in graph.sources}
    inputs = {source: str(directory / f"{source}.parquet") for source in tables}
    for source, path in inputs.items():
        pq.write_table(tables[source], path)
    run = directory / "run"
    run.mkdir()
    with playing(run, layout, inputs, len(struck)) as played:
        began = time.monotonic()
        while not played.runs and time.monotonic() < began + PATIENCE:
            if played.until(time.monotonic() + 0.05):
                break
        begun = time.monotonic()
        over = False
        for one in struck:
            over = over or played.until(begun + one.at)
            if not over:
                played.strike(one)
        over = over or played.until(begun + PATIENCE)
        states = [(status.pe, str(status.state), status.restarts) for status in played.coordinator.table()]
        assert over, f"{said}: it does not end: {states}"
        assert played.coordinator.error is None, f"{said}: {played.coordinator.error}"
        report = played.coordinator.report()
    found, expected = came_out(run, graph), due(graph, tables)
    counts = stream_counts(layout, read_ledgers(run, layout))
    for stream, count in counts.items():
        assert 0 <= count.received <= count.sent, f"{said}: {stream}: {count}"
    for sink in graph.sinks:
        received = sum(counts[stream.id].received for stream in graph.inputs(sink.name))
        assert received == len(found[sink.name]), (
            f"{said}: {sink.name} counts {received}, {len(found[sink.name])} came out"
        )
    tainted = sum(one["tainted"] for one in report.get("copies", {}).values())
    tainted += any(one["tainted"] for one in report.get("groups", {}).values())
    if exact and not tainted:
        assert found == expected, f"{said}: {[(s, len(found[s]), len(expected[s])) for s in found]}"
        guarded = [count for count in counts.values() if count.recovery in ("copies", "failover")]
        assert all(count.lost == 0 for count in guarded), f"{said}: {counts}"
    elif found != expected:
        assert tainted or any(count.lost or count.forgotten for count in counts.values()), f"{said}: no count says so"
    return said


@pytest.mark.parametrize("seed", [3, 8])
def test_a_run_with_kills_and_stopped_processes_ends_and_counts_what_it_lost(seed, tmp_path):
    check(seed, tmp_path)


@pytest.mark.soak
def test_hundreds_of_schedules(tmp_path):
    def one(seed: int) -> None:
        directory = tmp_path / str(seed)
        directory.mkdir()
        check(seed, directory)

    soak(1000, 1200, one)
