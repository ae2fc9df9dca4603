"""Elements whose state is nothing but records in their own output: no crash schedule changes what comes out."""

from dataclasses import replace
from random import Random

import pytest
from tests.simulation.schedules import any_app, batches, case, played, protected

from riprap.base.quantities import Duration
from riprap.engine.compiling import Compiler, Policy
from riprap.graph.annotations import Annotations, Continuous
from riprap.graph.graph import Graph
from riprap.graph.specs import Aggregate, Join
from riprap.graph.windows import Punctuated, Session
from riprap.runtime.element.records import Records


def recorded(graph: Graph, random: Random) -> Graph:
    """With continuous checkpoints for most operators that can have them."""
    for spec in graph.operators:
        fits = isinstance(spec, Aggregate | Join) and not any(isinstance(w, Punctuated | Session) for w in spec.windows)
        if fits and random.random() < 0.8:
            every, slow_after = (Duration(random.choice([0, 1_000, 10_000, 100_000])) for _ in range(2))
            pace = Continuous(None, Duration(max(every, 1)), slow_after, random.choice([1, 2, 100]))
            graph = graph.with_operator(replace(spec, annotations=Annotations(continuous=pace)))
    return graph


def check(seed: int) -> bool:
    """Whether some element came back from records. Every other one runs its operators as one loop, interpreted."""
    random = Random(f"continuous {seed}")
    graph = recorded(protected(any_app(random), random, kept=1.0, saved=random.choice([0.0, 0.5])), random)
    while not any(spec.annotations.continuous for spec in graph.operators):
        graph = recorded(protected(any_app(random), random, kept=1.0, saved=random.choice([0.0, 0.5])), random)
    run = case(seed, graph, random)
    rarely = random.choice([0.0, 0.5, 0.9])  # records that are left out: then the log goes on behind the newest one
    wanted = Records.wanted
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Records, "wanted", lambda self, gave: wanted(self, gave) and random.random() >= rarely)
        patch.setattr("riprap.engine.piece.COMPILER", Compiler(Policy.NEVER))
        simulation = played(run, graph, f"check({seed}) of {__name__}", compiled=seed % 2 == 0)
    plans = {pe.id: run.layout.plan(pe) for pe in run.layout.pes}
    return any(simulation.restarts[id_] for id_, plan in plans.items() if plan.continuous)


@pytest.mark.parametrize("seeds", batches(100), ids=str)
def test_no_crash_schedule_changes_the_output(seeds):
    assert sum(map(check, seeds)) > 3  # or nothing was tried


@pytest.mark.parametrize(
    "seed",
    [
        3501,  # a shard had ended before the checkpoint: the others, whose merge is full, need not wait for it
        4891,  # rows follow a punctuation of their own trigger: a merge of shards holds both back, and promises neither
    ],
)
def test_schedules_that_once_failed(seed):
    assert check(seed)
