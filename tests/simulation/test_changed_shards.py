"""Runs that are killed and go on with other numbers of shards: whatever dies when, the output is that of one run."""

from collections import Counter
from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest
from tests.simulation.schedules import as_tuples, batches, bounded, crashes, rows

from riprap.base.errors import GraphError, UsageError
from riprap.base.quantities import Duration
from riprap.graph.annotations import Annotations, Continuous
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.specs import Sink
from riprap.graph.windows import count, time, zero
from riprap.runtime.coordination.counts import stream_counts
from riprap.runtime.layout import Layout, arrange
from riprap.testing.simulation import Simulation


def divided_app(random: Random) -> Graph:
    """One operator whose shards change, what feeds it, and what it feeds: sinks, or operators with own state."""
    app = App("divided")
    stream = app.source("S0", "k string, x long, id long")
    if random.random() < 0.3:
        stream = stream.filter("id % 5 > 0", name="Some")
    if random.random() < 0.35:
        other = app.source("S1", "k string, x long, id long").rename({"x": "y", "id": "other"}, name="Renamed")
        windows = [random.choice([count(1), count(3), time("5ms")]) for _ in range(2)]
        zeroed = random.choice([None, 0, 1])
        if zeroed is not None:
            windows[zeroed] = zero()
        out = stream.join(
            other, on="k", left_window=windows[0], right_window=windows[1], select=["k", "x", "other AS id"],
            per_group=True, name="Op",
        )  # fmt: skip
    else:
        window = random.choice([count(1), count(3), count(7), time("5ms"), time("20ms")])
        every = random.choice([None, None, count(1), count(2), time("5ms")])
        out = stream.aggregate("sum(x) AS x", "count(*) AS id", window=window, every=every, by="k", name="Op")
    behind = random.choice(["", "", "filter", "sum", "both", "recorded"])
    if behind in ("filter", "both"):
        out.filter("x > 2", name="Large").sink("Sink1")
    if behind in ("sum", "both", "recorded"):
        by = random.choice(["k", ()]) if behind != "recorded" else "k"
        calls = ["sum(x) AS x"] if by else ["last(k) AS k", "sum(x) AS x"]
        out.aggregate(*calls, window=random.choice([count(2), count(5), time("7ms")]), by=by, name="Sum").sink("Sink2")
    if behind != "filter":
        out.sink("Sink0")
    return recorded(app.build(), random, {"Op", "Sum"} if behind == "recorded" else {"Op"})


def recorded(graph: Graph, random: Random, names: set[str]) -> Graph:
    for spec in graph.operators:
        annotations = Annotations(backup=not isinstance(spec, Sink))
        if spec.name in names:
            every, slow_after = (Duration(random.choice([1, 1_000, 10_000, 100_000])) for _ in range(2))
            annotations = Annotations(continuous=Continuous(None, every, slow_after, random.choice([1, 2, 100])))
        elif any(spec.stateful) or random.random() < 0.3:
            annotations = replace(annotations, checkpoint_every=Duration(random.randint(10, 60) * 1000))
        graph = graph.with_operator(replace(spec, annotations=annotations))
    return graph


def layouts(graph: Graph, random: Random) -> list[Layout]:
    """Of the parts of a run, with two or three numbers of shards of the operator; and some of what feeds it, and of
    what it feeds."""
    others = {name: random.randint(2, 3) for name in ("Some", "Renamed", "Sum") if random.random() < 0.3}
    changing = random.choice(["Op", "Op", "Op", "Sum"])
    former, found = [], []
    if changing not in {spec.name for spec in graph.operators} or graph[changing].annotations.continuous is None:
        changing = "Op"
    for number in random.sample([1, 2, 3, 4], random.choice([2, 2, 3])):
        parallelism = {"Op": 2, **{n: s for n, s in others.items() if n in {o.name for o in graph.operators}}}
        parallelism[changing] = number
        try:
            layout = arrange(graph, "auto", parallelism, former=former)
        except (UsageError, GraphError):
            if not others:
                raise
            return layouts(graph, random)
        former.append({name: f.shards for f in layout.fragments for name in f.members})
        found.append(layout)
    return found


def with_more_keys(batch: pa.RecordBatch, random: Random) -> pa.RecordBatch:
    words = pa.array([random.choice("abcdefgh") for _ in range(batch.num_rows)])
    return batch.set_column(batch.schema.get_field_index("k"), "k", words)


def check(seed: int) -> bool:
    """Whether a new shard had something to take over."""
    random = Random(f"changed shards {seed}")
    graph = divided_app(random)
    inputs = {name: with_more_keys(batch, random) for name, batch in rows(graph, random, 80).items()}
    rate = random.choice([500.0, 2_000.0])
    span = int(80 / rate * 1e6)
    simulation, until, took = None, 0, False
    parts = layouts(graph, random)
    try:
        for at, layout in enumerate(parts):
            simulation = Simulation(
                layout, inputs, seed=seed, rate=rate, crashes=crashes([p.id for p in layout.pes], random, span, most=3),
                batch_rows=random.choice([4, 16, 64]), after=simulation,
            )  # fmt: skip
            until += random.choice([random.randint(0, 5_000), *(random.randint(span // 4, span) for _ in range(3))])
            last = at == len(parts) - 1
            simulation.run(seconds=10.0, until=None if last else until)
            if (
                not last
                and at
                and any(
                    not simulation.log(min(layout.all_outputs(pe))).records
                    for pe in layout.pes
                    if layout.change(pe.fragment)
                )
            ):
                simulation.run(seconds=10.0)  # shards that have not taken over cannot be changed again
                break
            took = took or any(log.records for log in simulation._logs.values())
        found = {
            sink.name: [row for batch in simulation.sink(sink.name) for row in as_tuples(batch)]
            for sink in simulation.layout.graph.sinks
        }
        expected = bounded(graph, inputs)
        assert {name: Counter(each) for name, each in found.items()} == {
            name: Counter(each) for name, each in expected.items()
        }
        assert found == expected
        assert not [
            name for name, counts in stream_counts(simulation.layout, simulation.ledgers()).items() if counts.lost
        ]
    except Exception as error:
        numbers = [{f.name: f.shards for f in layout.fragments} for layout in parts]
        raise AssertionError(f"check({seed}) of {__name__} repeats it: {numbers}") from error
    return took


@pytest.mark.parametrize("seeds", batches(60), ids=str)
def test_no_kill_and_no_number_of_shards_changes_the_output(seeds):
    assert sum(map(check, seeds)) > 10  # or nothing was tried
