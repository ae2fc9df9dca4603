"""Protocols that lose and repeat nothing: under seeded crash schedules the sinks have the rows of the bounded run."""

from dataclasses import replace
from random import Random

import pytest
from tests.simulation.schedules import any_app, bounded, case, cyclic_app, simulated

from riprap.base.errors import UsageError
from riprap.protocols.registry import REGISTRY, configured, protocol
from riprap.runtime.coordination.counts import stream_counts

EXACT = tuple(name for name in REGISTRY if name not in ("partial", "recompute"))  # test_recompute.py has that one


def run(name, seed):
    random = Random(f"exactly once {seed}")
    graph = cyclic_app(random) if seed % 6 == 5 else any_app(random)
    made = case(seed, graph, random, most=100)
    settings = {"interval": random.choice([15_000, 30_000, 60_000]), "timeout": 200_000, "scope": "all"}
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
    links = tuple(replace(link, retention=protocol(name).retention[0]) for link in layout.links)
    return replace(layout, links=links, protocol=protocol(name), settings=settings)


@pytest.mark.parametrize("name", EXACT)
def test_nothing_is_lost_and_nothing_comes_twice(name):
    committed = lines = 0
    for seed in range(8):
        for entry in run(name, seed).director_log:
            committed += "committed" in entry.get("record", {})
            lines += any(target is not None for target in entry.get("targets", {}).values())
    assert lines > 1 or name == "repeat"  # somebody went back to a checkpoint, not to the beginning
    assert committed > 1 or name in ("uncoordinated", "induced", "repeat")


@pytest.mark.parametrize(("name", "seed"), [("coordinated", 499), ("uncoordinated", 407)])
def test_what_failed_once_does_not_again(name, seed):
    run(name, seed)


@pytest.mark.soak
@pytest.mark.parametrize("name", EXACT)
def test_nothing_is_lost_in_thousands_of_schedules(name):
    for seed in range(100, 5_100):
        run(name, seed)


def test_what_does_not_go_together_is_told():
    for wrong, told in [
        ({"name": "coördinated"}, "no protocol is called"),
        ({"name": "coordinated", "interval": "0s"}, "need a time between them"),
        ({"name": "coordinated", "interval": "10"}, "cannot read '10' as a duration"),
        ({"name": "coordinated", "log": "volatile"}, "--log is for uncoordinated and induced"),
        ({"name": "uncoordinated", "log": "none"}, "expected persistent or volatile"),
        ({"name": "uncoordinated", "scope": "all"}, "--induced-scope is for induced"),
        ({"name": "induced", "scope": "some"}, "expected cycles or all"),
        ({"name": "partial", "interval": "1s"}, "partial has its plan"),
    ]:
        with pytest.raises(UsageError, match=told):
            configured(**wrong)
    spec, settings = configured("induced", interval="2s", log="volatile", scope="all")
    assert spec.retention == ("hold", "hold")
    assert settings == {"interval": 2_000_000, "log": "volatile", "scope": "all"}
