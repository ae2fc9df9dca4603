"""Apps of all operators with any protection: whatever crashes, the run ends, and the order of keys is not broken but by
what is counted as late.
"""

from itertools import pairwise
from random import Random

import pytest
from tests.simulation.schedules import Case, any_app, batches, bounded, case, dropping_late, protected, simulated

from riprap.graph.order_keys import KEY_COLUMNS
from riprap.operators.columns import keys_of
from riprap.runtime.coordination.counts import stream_counts
from riprap.testing.simulation import Crash, Simulation


def check(seed: int) -> None:
    random = Random(seed)
    graph = protected(any_app(random), random, kept=random.choice([0.0, 0.3]), saved=random.choice([0.0, 0.5, 1.0]))
    ascending(case(seed, dropping_late(graph) if random.random() < 0.5 else graph, random))


def ascending(run: Case) -> None:
    simulation, graph = run.simulation(), run.layout.graph
    drops = all(stream.late == "drop" for stream in graph.streams)
    try:
        simulation.run(seconds=5.0)
        counted = stream_counts(run.layout, simulation.ledgers())
        late = sum(counts.late for counts in counted.values())
        assert not (late and drops)
        for sink in graph.sinks:
            keys = _keys(simulation, sink.name)
            assert late or all(one < other for one, other in pairwise(keys)), f"keys fall at {sink.name}"
        for stream, counts in counted.items():
            assert 0 <= counts.late <= counts.received <= counts.sent, f"{stream}: {counts}"
            # What a producer that is not exact had numbered, and its log not yet written, when it died.
            producer = next(pe for pe in run.layout.pes if pe.fragment == run.layout.link(stream).source)
            lossless = counts.recovery == "replay" and run.layout.plan(producer).exact
            assert not lossless or counts.lost == 0, f"{stream}: {counts}"
    except Exception as error:
        raise AssertionError(f"seed {run.seed} repeats it: {run}") from error


def check_everything_at_once(seed: int) -> None:
    """The driver dies and with it every element; `--resume` starts them again, from what is on disk."""
    random = Random(seed)
    graph = protected(any_app(random), random, kept=1.0, saved=0.7)
    run = case(seed, graph, random)
    at = random.randint(0, 200_000)
    simulation = Simulation(
        run.layout, run.inputs, seed=seed, rate=run.rate, batch_rows=run.batch_rows,
        crashes=[Crash(at, pe.id, random.randint(50_000, 60_000)) for pe in run.layout.pes],
    )  # fmt: skip
    simulation.run(seconds=5.0)
    assert simulated(simulation) == bounded(graph, run.inputs), f"check_everything_at_once({seed}) repeats it: {run}"


def _keys(simulation: Simulation, sink: str) -> list[tuple]:
    shape = simulation.layout.graph.input_shapes(sink)[0]
    found = []
    for batch in simulation.sink(sink):
        assert set(KEY_COLUMNS) & set(batch.schema.names)
        keys = keys_of(batch, shape)
        found += [keys.at(row) for row in range(batch.num_rows)]
    return found


# 5196: progress of one source in front of a merge by the numbers of another. 3647: a gap empties a window that has not
# spoken of its newest tuple.
@pytest.mark.parametrize("seeds", [*batches(260), (5196, 3647)], ids=str)
def test_the_run_ends_and_keys_ascend(seeds):
    for seed in seeds:
        check(seed)


# 1434: a time boundary between the last tuple of a batch and the punctuation behind it.
@pytest.mark.parametrize("seeds", [*batches(80), (1434,)], ids=str)
def test_everything_may_die_at_once(seeds):
    for seed in seeds:
        check_everything_at_once(seed)
