"""Protocols that lose and repeat nothing: under seeded crash schedules the sinks have the rows of the bounded run."""

from dataclasses import replace
from random import Random

import pytest
from tests.simulation.schedules import any_app, bounded, case, crashes, cyclic_app, other_faults, rows, simulated
from tests.simulation.shares import soak

from riprap.base.errors import UsageError
from riprap.graph.cycles import cyclic_parts
from riprap.protocols.commitment import SINKS
from riprap.protocols.registry import REGISTRY, configured, protocol
from riprap.runtime.coordination.counts import stream_counts
from riprap.runtime.layout import arrange
from riprap.testing.simulation import Simulation

EXACT = tuple(name for name in REGISTRY if name not in ("partial", "recompute"))  # test_recompute.py has that one


def run(name, seed, **more):
    random = Random(f"exactly once {seed}")
    cyclic = seed % 6 == 5 and not more.get("virtual")  # a cycle over several elements goes back together
    graph = cyclic_app(random) if cyclic else any_app(random)
    made = case(seed, graph, random, most=100)
    settings = {"interval": random.choice([15_000, 30_000, 60_000]), "timeout": 200_000, "scope": "all", **more}
    settings["rule"] = "bcs" if seed % 3 == 2 else "hmnr"
    made = replace(made, layout=relaid(made.layout, name, settings), rate=random.choice([300.0, 1_000.0]))
    simulation = made.simulation()
    try:
        simulation.run(seconds=60.0)
        assert simulated(simulation) == bounded(graph, made.inputs)
        for stream, counts in stream_counts(made.layout, simulation.ledgers()).items():
            assert (counts.sent, counts.lost) == (counts.received, 0), f"{stream}: {counts}"
    except AssertionError as error:
        raise AssertionError(f"{name}: {made}\n{error}"[:3000]) from error
    return simulation


def relaid(layout, name, settings):
    """The same elements under a protocol."""
    spec, cycles = protocol(name), [{*part} for part in cyclic_parts(layout.graph)]
    links = tuple(
        replace(
            link,
            retention=spec.borders
            if spec.borders and any((link.stream.source in c) != (link.stream.target in c) for c in cycles)
            else spec.retention[0],
        )
        for link in layout.links
    )
    return replace(layout, links=links, protocol=spec, settings=settings)


@pytest.mark.parametrize("name", EXACT)
def test_nothing_is_lost_and_nothing_comes_twice(name):
    committed = lines = 0
    for seed in range(8):
        for entry in run(name, seed).director_log:
            record = entry.get("record", {})
            committed += "committed" in record.get("record", record)
            lines += any(target is not None for target in entry.get("targets", {}).values())
    assert lines > 1 or name == "repeat"  # somebody went back to a checkpoint, not to the beginning
    assert committed > 1 or name in ("uncoordinated", "induced", "repeat")


@pytest.mark.parametrize("name", ["uncoordinated", "induced"])
def test_with_virtual_checkpoints_some_stay_as_they_are(name):
    stayed = 0
    for seed in range(6):
        simulation = run(name, seed, virtual=True)
        elements = len(simulation.incarnations)
        stayed += sum(elements - len(entry["targets"]) for entry in simulation.director_log if "targets" in entry)
    assert stayed > 2


def cyclic(name, seed):
    """A run of an app with a cycle; gives how often a part of its elements went back while the others went on."""
    random = Random(f"cyclic {seed}")
    graph = cyclic_app(random)
    settings = {"interval": random.choice([15_000, 30_000]), "timeout": 200_000, "sinks": random.choice(SINKS)}
    layout = arrange(graph, random.choice(["none", "auto"]), None, protocol(name), settings)
    pes, span = [pe.id for pe in layout.pes], 250_000
    faults = (*crashes(pes, random, span), *other_faults(layout, random, span))
    inputs = rows(graph, random, 100)
    simulation = Simulation(layout, inputs, seed=seed, crashes=faults, rate=500.0, batch_rows=random.choice([4, 16]))
    simulation.run(seconds=60.0)
    assert simulated(simulation) == bounded(graph, inputs), f"{name}, seed {seed}: {faults}"
    return sum(0 < len(entry.get("targets", ())) < len(pes) for entry in simulation.director_log)


def test_with_a_cycle_a_failure_goes_no_further_than_its_borders():
    assert sum(cyclic("hybrid", seed) for seed in range(5)) > 2


@pytest.mark.parametrize(("name", "seed"), [("coordinated", 499), ("uncoordinated", 407)])
def test_what_failed_once_does_not_again(name, seed):
    run(name, seed)


@pytest.mark.soak
@pytest.mark.parametrize("name", EXACT)
def test_nothing_is_lost_in_thousands_of_schedules(name):
    soak(100, 5_100, lambda seed: run(name, seed, virtual=seed % 2 == 1))
    if name == "hybrid":
        soak(100, 5_100, lambda seed: cyclic(name, seed))


def test_what_does_not_go_together_is_told():
    for wrong, told in [
        ({"name": "coördinated"}, "unknown protocol"),
        ({"name": "coordinated", "interval": "0s"}, "need a time between them"),
        ({"name": "coordinated", "interval": "10"}, "cannot read '10' as a duration"),
        ({"name": "coordinated", "log": "volatile"}, "`log` is for uncoordinated and induced"),
        ({"name": "uncoordinated", "log": "none"}, "expected persistent or volatile"),
        ({"name": "uncoordinated", "scope": "all"}, "`scope` is for induced"),
        ({"name": "induced", "scope": "some"}, "expected cycles or all"),
        ({"name": "repeat", "rule": "bcs"}, "`rule` is for induced"),
        ({"name": "induced", "rule": "fdas"}, "expected hmnr or bcs"),
        ({"name": "partial", "rule": "bcs"}, "partial uses its plan"),
        ({"name": "partial", "interval": "1s"}, "partial uses its plan"),
    ]:
        with pytest.raises(UsageError, match=told):
            configured(**wrong)
    spec, settings = configured("induced", interval="2s", log="volatile", scope="all", rule="bcs")
    assert spec.retention == ("hold", "hold")
    assert settings == {"interval": 2_000_000, "log": "volatile", "scope": "all", "rule": "bcs"}
