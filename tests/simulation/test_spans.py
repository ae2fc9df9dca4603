"""How far back a recovery goes: every checkpoint that is recomputed from, against what the planner counts with."""

from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from tests.simulation.schedules import bounded, simulated

from riprap.base.quantities import Duration
from riprap.graph.annotations import Annotations
from riprap.graph.builder import App
from riprap.planner.executed import as_executed
from riprap.planner.from_graph import topology_of
from riprap.protocols import recompute
from riprap.runtime.layout import arrange
from riprap.runtime.simulated import START, SimulatedPast
from riprap.runtime.simulation import Crash, Simulation

LENGTH, RATE = 6.0, 40  # seconds, rows/s
SLACK = 60_000  # µs: what comes between a deadline and the look at the clock that finds it


def built(random: Random, intervals: list[int]):
    """Five filters; each takes one or two of those before it."""
    app = App("spans")
    streams = [app.source("S", "id long")]
    for number in range(5):
        inputs = random.sample(streams[-3:], min(len(streams), random.choice([1, 1, 2])))
        union = inputs[0].union(*inputs[1:], name=f"U{number}") if len(inputs) > 1 else inputs[0]
        streams.append(union.filter("id >= 0", name=f"F{number}"))
    streams[-1].sink("Out")
    graph = app.build()
    for spec in graph:
        notes = Annotations(checkpoint_every=Duration(random.choice(intervals)), backup=random.random() < 0.15)
        graph = graph.with_operator(replace(spec, annotations=notes))
    return graph


def spans(graph) -> dict[str, dict[str, float]]:
    """By task, and task of its cone: the longest input that is worked out again, as the planner has it."""
    topology = topology_of(graph, {}, otherwise=Duration(1))
    every = [int(graph[name].annotations.checkpoint_every) for name in topology.tasks]
    backups = np.array([graph[name].annotations.backup for name in topology.tasks])
    paces = np.eye(topology.size)
    found = [as_executed(topology, every, pace.tolist(), backups) for pace in paces]
    return {target: {u: found[i][at] for i, u in enumerate(topology.tasks)} for at, target in enumerate(topology.tasks)}


def run(seed: int, intervals: list[int], monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float]]:
    """(gone back, at most) of each element that was recomputed from, in µs."""
    random = Random(f"spans {seed}")
    graph = built(random, intervals)
    layout = arrange(graph, "none")
    links = tuple(link if link.retention == "log" else replace(link, retention="recompute") for link in layout.links)
    layout = replace(layout, links=links, protocol=recompute.SPEC)
    victim, at = random.choice([pe.id for pe in layout.pes][-3:]), random.randrange(4_500_000, 5_800_000)
    used: dict[str, int] = {}
    original = SimulatedPast.checkpoint

    def noted(past, pe, fits):
        loaded = original(past, pe, fits)
        assert loaded is not None, "it goes back to the beginning"
        used[pe] = loaded.taken_at
        return loaded

    count = int(LENGTH * RATE)
    ids = pa.array(range(count), pa.int64())
    times = pa.array([round(n * 1e6 / RATE) for n in range(count)], pa.timestamp("us", "UTC"))
    inputs = {"S": pa.RecordBatch.from_arrays([ids, times, ids], names=["id", "_ts", "_seq"])}
    with monkeypatch.context() as patched:
        patched.setattr(SimulatedPast, "checkpoint", noted)
        simulation = Simulation(layout, inputs, seed=seed, crashes=[Crash(at, victim, 20_000)], rate=float(RATE))
        simulation.run()
    assert simulated(simulation) == bounded(graph, inputs)
    most = spans(graph)[victim]
    return [(START + at - taken, most[pe] + SLACK) for pe, taken in used.items()]


def test_nothing_goes_back_further_than_planned_for(monkeypatch):
    """Where all are saved at one interval, and at intervals that are apart."""
    found = []
    for intervals in ([1_000_000], [500_000, 1_000_000, 2_000_000], [600_000, 1_000_000, 1_500_000]):
        found += [each for seed in range(4) for each in run(seed, intervals, monkeypatch)]
    assert len(found) >= 20
    assert [pair for pair in found if pair[0] > pair[1]] == []
    # And no more is planned for than it can come to: killed at random moments, some go back nearly as far.
    assert max(back / most for back, most in found) > 0.7
