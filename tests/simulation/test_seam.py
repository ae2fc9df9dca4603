"""A protocol of a test, one file, on the simulated host: checkpoints with what waits in merges, and going back alive.

Every stream is logged and every element repeatable, so whatever crashes, breaks or goes back, and when, the output is
that of the bounded run.
"""

from dataclasses import replace
from random import Random

import pytest
from tests.protocols.every_n import EVERY_N
from tests.simulation.schedules import any_app, batches, bounded, case, protected, simulated

from riprap.runtime.layout import arrange


def check(seed: int) -> int:
    """Gives how often a live element went back."""
    random = Random(seed)
    graph = protected(any_app(random), random, kept=1.0, saved=0.0)
    run = case(seed, graph, random)
    parallelism = {spec.name: spec.parallelism for spec in run.layout.graph}
    settings = {"n": random.randint(1, 40), "back": random.choice([0, 1, 2, 5])}
    fuse = "none" if len(run.layout.fragments) > 1 else "all"
    try:
        layout = arrange(run.layout.graph, fuse, parallelism, EVERY_N, settings)
    except Exception:
        layout = replace(run.layout, protocol=EVERY_N, settings=settings)
    pes = {pe.id for pe in layout.pes}
    faults = tuple(fault for fault in run.crashes if getattr(fault, "pe", None) in pes or not hasattr(fault, "pe"))
    run = replace(run, layout=layout, crashes=faults)
    simulation = run.simulation()
    try:
        simulation.run(seconds=20.0)
        assert simulated(simulation) == bounded(graph, run.inputs)
    except Exception as error:
        raise AssertionError(f"check({seed}) of {__name__} repeats it: {run} {settings}") from error
    return sum(simulation.rollbacks.values())


@pytest.mark.parametrize("seeds", batches(120), ids=str)
def test_a_protocol_in_one_file_keeps_the_output(seeds):
    assert sum(check(seed) for seed in seeds) > 0, "nobody went back"


@pytest.mark.parametrize("step", [1_000, 4_000])
def test_the_step_of_sources_does_not_decide_whether_a_run_ends(step, monkeypatch):
    monkeypatch.setattr("riprap.runtime.host._STEP", step)
    assert check(75) > 0


# A capture while a checkpoint's own messages were being taken in, with what waits on disk; a union in shards that
# numbers what its ports have in common.
@pytest.mark.parametrize("seed", [131, 136, 172, 221])
def test_what_failed_once_does_not_again(seed):
    check(seed)
