"""Apps in the shape of published topologies, whose operators wait instead of computing.

The recovery model assumes a core for each task; here two cores run dozens of processes. So an operator simulates work
by waiting a number of microseconds per tuple, during which the core is free. Measured recovery times then depend on the
structure of the app, and not on the number of cores.

    riprap prove riprap_papers.experiments.shaped:twitter_sentiment --input Source=ids.parquet --plan plan.toml

Every task of the topology is one operator, with the same name; each of the last ones also feeds a sink.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar

import pyarrow as pa

from riprap.apps import bargain_discovery as bargain
from riprap.base.clock import SYSTEM_CLOCK
from riprap.base.quantities import Duration
from riprap.graph.builder import App, Stream
from riprap.graph.graph import Graph
from riprap.graph.order_keys import KEY_COLUMNS
from riprap.operators.user import Rows, UserOperator
from riprap.planner.from_graph import topology_of
from riprap.planner.topology import Topology
from riprap_papers.published import topologies

SCHEMA = "id long not null"
# Tuples/s of each source that `pace` is for. No divisor of a second: checkpoints are due at its multiples, and should
# fall on tuples at every stage in turn, since that is what makes a recovery long.
RATE = 1.93
PACE = 0.15  # seconds of waiting per second of input
AT_ONCE = 0.02  # seconds of waiting at a time
CREDIT = 0.5  # most seconds of oversleeping, on a busy machine, that are made up for


class Waiting(UserOperator):
    """Forwards its input after some microseconds per tuple; counts tuples, so that it has state to lose.

    It waits when it owes some milliseconds; oversleeping on a busy machine is made up for, as if it had its own core.
    """

    waits: ClassVar[bool] = True  # False in a process that only computes the output

    def __init__(self, micros: float) -> None:
        self.micros, self.count = micros, 0
        self.owed = 0.0  # seconds

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> list[pa.Schema]:
        return [inputs[0]]

    def process(self, port: int, batch: pa.RecordBatch) -> Iterable[Rows]:
        self.owed += self.micros * batch.num_rows / 1e6
        if self.waits and self.owed >= AT_ONCE:
            began = SYSTEM_CLOCK.monotonic()
            SYSTEM_CLOCK.sleep(self.owed)
            self.owed = max(self.owed - (SYSTEM_CLOCK.monotonic() - began), -CREDIT)
        self.count += batch.num_rows
        names = [name for name in batch.schema.names if name not in KEY_COLUMNS]
        return [Rows(batch.select(names))]

    def save(self) -> bytes:
        return self.count.to_bytes(8, "little")

    def load(self, saved: bytes) -> None:
        self.count = int.from_bytes(saved, "little")


def tuple_rates(topology: Topology, rate: float) -> dict[str, float]:
    """The input rate of each task in tuples/s, if each forwards its input to all its consumers."""
    found = dict.fromkeys(topology.tasks, 0.0)
    for task in topology.levels.argsort(kind="stable").tolist():
        sources = topology.forward[topology.forward[:, 1] == task, 0].tolist()
        found[topology.tasks[task]] = sum(found[topology.tasks[source]] for source in sources) if sources else rate
    return found


def shaped(topology: Topology, name: str, *, rate: float = RATE, pace: Mapping[str, float] | float = PACE) -> Graph:
    """`pace`: seconds that a task waits per second of its input, at this rate of the sources."""
    app, streams = App(name), dict[str, Stream]()
    rates = tuple_rates(topology, rate)
    edges = topology.forward.tolist()
    for task in topology.levels.argsort(kind="stable").tolist():
        own = topology.tasks[task]
        inputs = [streams[topology.tasks[source]] for source, target in edges if target == task]
        if not inputs:
            streams[own] = app.source(own, SCHEMA)
            continue
        busy = pace if isinstance(pace, float) else pace[own]
        (streams[own],) = inputs[0].apply(Waiting, *inputs[1:], name=own, micros=busy * 1e6 / rates[own])
    for task in sorted(set(range(topology.size)) - {source for source, _ in edges}):
        streams[topology.tasks[task]].sink(f"{topology.tasks[task]}Out")
    return app.build()


def twitter_sentiment() -> Graph:
    """The published shape with two tasks in each step: nine elements and the sink's."""
    return shaped(topologies.twitter_sentiment(2, 2, 2), "twitter-sentiment")


def signal_guru() -> Graph:
    """One phone of the published nine steps: twelve elements and the sink's."""
    return shaped(topologies.signal_guru_of_one(), "signal-guru")


def bargain_discovery() -> Graph:
    """Bargain Discovery with operators that wait: eight elements and the sink's."""
    return shaped(bargain_topology(), "bargain-waiting")


def bargain_topology() -> Topology:
    return topology_of(bargain.build(), {}, otherwise=Duration(topologies.SECOND))
