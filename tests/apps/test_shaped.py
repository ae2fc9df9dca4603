"""Apps in published shapes: every tuple takes every way, and each task waits for what its pace says."""

import pyarrow as pa
import pytest

from riprap.engine.engine import Engine
from riprap_papers.experiments import shaped
from riprap_papers.published import topologies


@pytest.mark.parametrize(
    ("build", "topology"),
    [
        (shaped.twitter_sentiment, topologies.twitter_sentiment(2, 2, 2)),
        (shaped.signal_guru, topologies.signal_guru_of_one()),
        (shaped.bargain_discovery, shaped.bargain_topology()),
    ],
)
def test_every_task_is_an_operator_and_every_way_is_taken(build, topology):
    graph = build()
    names = {operator.name for operator in graph}
    assert set(topology.tasks) <= names
    rates = shaped.tuple_rates(topology, 1.0)
    (source,), (sink,) = graph.sources, graph.sinks
    rows = pa.RecordBatch.from_arrays(
        [pa.array([1, 2], pa.int64()), pa.array([0, 1], pa.timestamp("us", "UTC")), pa.array([0, 1], pa.int64())],
        names=["id", "_ts", "_seq"],
    )
    found = [event for name, event in Engine(graph).run({source.name: [rows]}) if name == sink.name]
    assert sum(batch.num_rows for batch in found) == 2 * rates["Sink"]


def test_a_second_of_input_waits_as_long_as_the_pace_says():
    waiting = shaped.Waiting(micros=1.0)
    batch = pa.record_batch({"id": [1, 2, 3], "_ts": [1, 2, 3], "_seq": [0, 1, 2]})
    (rows,) = waiting.process(0, batch)
    assert rows.batch.schema.names == ["id"]
    fresh = shaped.Waiting(micros=1.0)
    fresh.load(waiting.save())
    assert fresh.count == 3


def test_what_is_waited_too_long_is_made_good(monkeypatch):
    """A machine that wakes it up 5 ms late each time: in all it waits what it owes, and never more than that ahead."""

    class Late:
        def __init__(self):
            self.time = self.asked = 0.0

        def monotonic(self):
            return self.time

        def sleep(self, seconds):
            self.asked += seconds
            self.time += seconds + 0.005

    clock = Late()
    monkeypatch.setattr(shaped, "SYSTEM_CLOCK", clock)
    waiting = shaped.Waiting(micros=1_000.0)
    batch = pa.record_batch({"id": [1, 2, 3], "_ts": [1, 2, 3], "_seq": [0, 1, 2]})
    for _ in range(1_000):
        waiting.process(0, batch)
    assert clock.time == pytest.approx(3.0, abs=2 * shaped.AT_ONCE)
    assert clock.asked < clock.time


def test_who_wants_to_know_only_what_comes_out_does_not_wait(monkeypatch):
    monkeypatch.setattr(shaped.Waiting, "waits", False)
    monkeypatch.setattr(shaped, "SYSTEM_CLOCK", None)
    waiting = shaped.Waiting(micros=1e9)
    (rows,) = waiting.process(0, pa.record_batch({"id": [1, 2, 3], "_ts": [1, 2, 3], "_seq": [0, 1, 2]}))
    assert rows.batch.num_rows == waiting.count == 3
