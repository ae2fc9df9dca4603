"""Real processes and `kill -9`: what is exactly once is saved without being asked to, and its inputs are held."""

import os
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
from tests.runtime.test_real_lives import PATIENCE, Hosts, _until
from tests.spark.supply import Supply

from riprap.base.clock import SYSTEM_CLOCK
from riprap.checkpoints.load import load
from riprap.checkpoints.storage import LocalStorage
from riprap.graph.annotations import persist
from riprap.graph.builder import App
from riprap.operators.user import Rows, UserOperator
from riprap.protocols.cut import Cut
from riprap.protocols.partial import RETAINED
from riprap.protocols.protocol import WHOLE
from riprap.runtime.coordination.coordinator import Coordinator
from riprap.runtime.input_hold import release_inputs
from riprap.runtime.layout import arrange
from riprap.runtime.run_context import Run, stream_path
from riprap.streams import PersistentStream

SETTINGS = {"interval": 50_000}  # µs: what the shortest interval between checkpoints is, instead of a second


class Tap(UserOperator):
    """Passes rows on, counts them in its state, and writes their numbers to a file of its process."""

    one_per_trigger = True

    def __init__(self, books: str) -> None:
        self.books, self.count = books, 0

    def output_schemas(self, inputs):
        return inputs

    def process(self, port, batch):
        with (Path(self.books) / str(os.getpid())).open("ab") as file:
            file.write(batch.column("x").to_numpy().astype(np.int64).tobytes())
        self.count += batch.num_rows
        yield Rows(batch.select(["x"]))

    def save(self):
        return str(self.count).encode()

    def load(self, saved):
        self.count = int(saved)


def graph(books):
    app = App("tapped")
    source = app.source("S", "x long", protect=persist())
    source.apply(Tap, name="T", books=str(books))[0].sink("Sink")
    return app.build()


def saved(directory, pe):
    """The cut of the newest checkpoint of an element."""
    loaded = load(LocalStorage(directory / "checkpoints"), pe, WHOLE, 0)
    return None if loaded is None else Cut.from_json(loaded.positions)


def test_a_killed_element_reads_again_what_came_since_its_checkpoint_and_its_inputs_are_held(tmp_path):
    books, directory = tmp_path / "books", tmp_path / "run"
    books.mkdir()
    directory.mkdir()
    layout = arrange(graph(books), "none", settings=SETTINGS)
    (channel,) = [c for link in layout.links if link.stream.source == "S" for c in link.channels()]
    hosts = Hosts(len(layout.pes) + 1)
    numbers = pa.array(range(5_000), pa.int64())
    times = pa.array(range(0, 500_000, 100), pa.timestamp("us", "UTC"))
    supply = Supply(tmp_path / "in", pa.table({"x": numbers, "_ts": times, "_seq": numbers}), at_once=20)
    coordinator = Coordinator(directory, layout, "secret", None, "127.0.0.1", SYSTEM_CLOCK, silence=PATIENCE)
    stream = PersistentStream.open(supply.path)
    try:
        coordinator.start()
        inputs = {"S": str(supply.path)}
        run = Run(directory, layout, inputs, coordinator.location, "secret", "127.0.0.1", follow=True)
        for pe in layout.pes:
            hosts.start(run, pe.id)

        def moved_on():
            """The log and the input are held no further back than a checkpoint, which is later than the beginning."""
            return (
                saved(directory, "T") is not None
                and min(PersistentStream.open(stream_path(directory, channel)).readers().values(), default=0) > 0
                and min(stream.readers().values(), default=0) > 0
            )

        _until(moved_on, coordinator, supply)
        assert set(stream.held_by().values()) == {str(directory)}
        first = books / str(hosts.running["T"].pid)
        os.kill(hosts.running["T"].pid, signal.SIGKILL)
        hosts.running["T"].join()
        cut = saved(directory, "T")
        had = len(first.read_bytes()) // 8
        hosts.start(run, "T")
        second = books / str(hosts.running["T"].pid)
        _until(lambda: second.exists() and len(second.read_bytes()) >= 8, coordinator, supply)
        begin = int(np.frombuffer(second.read_bytes()[:8], np.int64)[0])
        # It may have been killed before it reported its newest checkpoint; then it goes back to the one before.
        assert 0 < begin <= cut.inlets[channel].passed <= had, "it read again what came since, and not the history"

        held = min(stream.readers().values())
        stream.trim(before_position=10**12)
        assert stream.first_position() <= held
        supply.end()
        assert coordinator.wait(PATIENCE), coordinator.table()
        assert coordinator.error is None, coordinator.error
    finally:
        coordinator.close()
        hosts.close()
    found = pa.Table.from_batches([item.batch for item in PersistentStream.open(directory / "sinks" / "Sink").read()])
    assert found["x"].to_pylist() == [row % 5_000 for row in range(supply.rows)]
    assert len(list((directory / "checkpoints" / "T" / WHOLE).glob("*.manifest"))) <= RETAINED + 1
    assert stream.readers(), "a run that was killed as a whole could be resumed"
    release_inputs(directory, inputs)
    assert stream.readers() == {}
