"""Without faults a run gives the output of the bounded run, however it is fused, divided and timed."""

from random import Random

import pytest
from tests.simulation.schedules import any_app, batches, bounded, laid_out, rows, simulated

from riprap.graph.builder import App
from riprap.graph.windows import punctuated
from riprap.runtime.coordination.counts import stream_counts
from riprap.runtime.layout import arrange
from riprap.testing.simulation import Simulation


def check(seed: int) -> None:
    random = Random(seed)
    graph = any_app(random)
    layout, inputs = laid_out(graph, random), rows(graph, random, 80)
    simulation = Simulation(layout, inputs, seed=seed, batch_rows=random.choice([5, 64]))
    simulation.run(seconds=5.0)
    assert simulated(simulation) == bounded(graph, inputs), f"check({seed}) of {__name__} repeats it"
    for stream, counts in stream_counts(layout, simulation.ledgers()).items():
        assert counts.sent == counts.received, f"check({seed}): {stream} {counts}"
        assert counts.lost == counts.repeated == 0


@pytest.mark.parametrize("seeds", batches(100), ids=str)
def test_the_output_is_that_of_the_bounded_run(seeds):
    for seed in seeds:
        check(seed)


@pytest.mark.parametrize("parallelism", [{"F": 2}, {"F": 3, "A": 2}, {"P": 2, "F": 3}, {"P": 3}], ids=str)
def test_a_punctuation_passes_shards_once(parallelism):
    app = App("punctuations")
    stream = app.source("S", "k string, x long, id long").punctuate("x = 1", name="P").filter("id % 3 > 0", name="F")
    stream.aggregate("sum(x) AS x", "count(*) AS n", window=punctuated(), by="k", name="A").sink("ByKey")
    sorted_ = stream.sort("x", window=punctuated(), name="Sort")
    sorted_.aggregate("count(*) AS n", window=punctuated(), name="Counts").sink("Sorted")
    graph = app.build()
    inputs = rows(graph, Random(1), 80)
    simulation = Simulation(arrange(graph, "none", parallelism), inputs, seed=1, batch_rows=7)
    simulation.run(seconds=5.0)
    assert simulated(simulation) == bounded(graph, inputs)
