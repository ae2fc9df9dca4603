"""Apps with a cycle under crash schedules: where nothing is to be lost they give what the bounded run gives, with any
buffers, whether the cycle is one element or several, in shards or not.
"""

from dataclasses import replace
from random import Random

import pytest
from tests.simulation.schedules import (
    batches,
    bounded,
    case,
    crashes,
    cyclic_app,
    other_faults,
    played,
    protected,
    rows,
    simulated,
)
from tests.simulation.test_guarantees import Dice

from riprap.base.errors import UsageError
from riprap.graph.builder import App
from riprap.graph.cycles import cyclic_parts
from riprap.protocols.commitment import SINKS
from riprap.protocols.registry import REGISTRY, configured, protocol
from riprap.runtime.coordination.counts import stream_counts
from riprap.runtime.layout import arrange
from riprap.testing.simulation import Simulation

EXACT = tuple(name for name in REGISTRY if name not in ("partial", "recompute"))


def check(seed: int) -> None:
    random = Random(f"cycles {seed}")
    graph = protected(cyclic_app(random), random, kept=1.0, saved=random.choice([0.0, 0.5, 1.0]))
    run = case(seed, graph, random)
    if random.random() < 0.5:  # the smallest buffers: whoever could wait for himself would
        run = replace(run, held_bytes=1, batch_rows=random.choice([1, 4]))
    played(run, graph, f"check({seed}) of {__name__}")


@pytest.mark.parametrize("seeds", batches(12, 6), ids=str)
def test_no_crash_schedule_changes_what_comes_out_of_a_cycle(seeds):
    for seed in seeds:
        check(seed)


def spread(name: str, seed: int, *, faults: bool = True, most: int = 40) -> Simulation:
    """A run of an app whose cycle is several elements, some of them in shards, with small buffers or large ones."""
    random = Random(f"spread {name} {seed}")
    graph = cyclic_app(random)
    settings: dict[str, object] = {}
    if name == "partial":
        graph = protected(graph, random, kept=float(faults), saved=random.choice([0.0, 0.5, 1.0]))
    else:
        if name == "hybrid":  # logs within the cycle divide it
            graph = protected(graph, random, kept=random.choice([0.0, 0.0, 0.3]), saved=0.0)
        settings = {"interval": random.choice([15_000, 30_000]), "timeout": 200_000, "sinks": random.choice(SINKS)}
    (cycle,) = cyclic_parts(graph)
    shards = {operator: random.choice([1, 1, 2, 3]) for operator in cycle}
    layout = arrange(graph, "none", shards, protocol(name), settings)
    assert all(len([pe for pe in layout.pes if operator in pe.fragment.members]) == n for operator, n in shards.items())
    span = int(most / 500.0 * 1e6) + 100_000
    struck = (*crashes([pe.id for pe in layout.pes], random, span), *other_faults(layout, random, span))
    inputs = rows(graph, random, most)
    simulation = Simulation(
        layout, inputs, seed=seed, crashes=struck if faults else (), rate=500.0,
        batch_rows=random.choice([1, 4, 16]), held_bytes=random.choice([1, 2_000, 1 << 20]),
    )  # fmt: skip
    try:
        simulation.run(seconds=60.0)
        assert simulated(simulation) == bounded(graph, inputs)
        for stream, counts in stream_counts(layout, simulation.ledgers()).items() if name != "partial" else ():
            assert (counts.sent, counts.lost) == (counts.received, 0), f"{stream}: {counts}"
    except AssertionError as error:
        told = f"spread({name!r}, {seed}, faults={faults}, most={most}) of {__name__} repeats it: {struck}"
        raise AssertionError(told) from error
    return simulation


def check_spread(seed: int) -> None:
    spread((*EXACT, "partial")[seed % 7], seed)


@pytest.mark.parametrize("name", [*EXACT, "partial"])
def test_a_cycle_over_several_elements_gives_what_the_bounded_run_gives(name):
    for seed in range(4):
        spread(name, seed)


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("repeat", 1027),
        ("partial", 2020),
        ("uncoordinated", 1123),
        ("uncoordinated", 1179),
        ("unaligned", 1237),
        ("hybrid", 3068),
    ],
)
def test_what_failed_once_does_not_again(name, seed):
    spread(name, seed)


def test_without_faults_nothing_has_to_be_kept_for_it():
    for seed in range(2):
        simulation = spread("partial", seed, faults=False)
        assert {link.retention for link in simulation.layout.links} == {"discard"}


@pytest.mark.parametrize("seed", [50, 57])
def test_what_crashes_lose_on_its_way_round_is_counted(seed):
    """Nothing is kept: the run ends all the same, and every stream knows what it lost."""
    random = Random(f"gaps {seed}")
    graph = cyclic_app(random)
    layout = arrange(graph, "none", {cyclic_parts(graph)[0][0]: random.choice([1, 2])})
    struck = crashes([pe.id for pe in layout.pes], random, 200_000)
    simulation = Simulation(layout, rows(graph, random, 40), seed=seed, crashes=struck, rate=500.0, batch_rows=4)
    simulation.run(seconds=60.0)
    counted = stream_counts(layout, simulation.ledgers())
    assert {stream: c.sent - c.lost for stream, c in counted.items()} == {s: c.received for s, c in counted.items()}
    assert sum(counts.lost for counts in counted.values())


def test_what_a_cycle_over_several_elements_cannot_be_is_told():
    graph = cyclic_app(Random(1))
    cycle = cyclic_parts(graph)[0]
    with pytest.raises(UsageError, match="may be recomputed: leave its parallelism at 1"):
        arrange(graph, "auto", {cycle[0]: 2}, *configured("recompute"))
    with pytest.raises(UsageError, match="is on a cycle over several elements, all of which have to roll"):
        arrange(graph, "none", None, *configured("induced", virtual=True))
    app = App("diced")
    back = app.feedback("back", "id long", delay="1ms")
    both = app.source("S0", "id long").union(back, name="Both")
    [drawn] = both.apply(Dice, name="Dice")
    drawn.select("id", where="id < now", name="Less").feed("back")
    both.sink("Out")
    with pytest.raises(UsageError, match="Dice is not deterministic and is on a cycle over several elements"):
        arrange(app.build(), "none", None, *configured("uncoordinated"))
    assert len(arrange(app.build(), "auto", None, *configured("uncoordinated")).pes) == 3
