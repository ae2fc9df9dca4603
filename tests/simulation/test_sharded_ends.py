"""Sources and sinks in several shards: the rows of one, whatever crashes where everything is kept."""

from dataclasses import replace
from random import Random

import pytest
from tests.simulation.schedules import Case, any_app, as_tuples, batches, bounded, case, protected

from riprap.base.errors import GraphError, UsageError
from riprap.graph.specs import Sink, Source
from riprap.runtime.layout import arrange


def check(seed: int, *, faults: bool) -> None:
    random = Random(seed)
    graph = protected(any_app(random), random, kept=1.0 if faults else 0.0, saved=0.7)
    run = case(seed, graph, random)
    ends = {s.name: random.randint(2, 3) for s in graph.operators if isinstance(s, Source | Sink)}
    try:
        layout = arrange(graph, random.choice(["none", "auto"]), ends)
    except (UsageError, GraphError):
        layout = arrange(graph, "none", ends)
    pes = {pe.id for pe in layout.pes}
    crashes = [fault for fault in run.crashes if getattr(fault, "pe", None) in pes]
    crashes += [replace_pe(fault, random.choice(sorted(pes))) for fault in run.crashes if hasattr(fault, "pe")]
    run = replace(run, layout=layout, crashes=tuple(sorted(crashes)) if faults else ())
    try:
        simulation = run.simulation()
        simulation.run(seconds=5.0)
        expected = {name: sorted(rows) for name, rows in bounded(graph, run.inputs).items()}
        assert rows_of(run, simulation) == expected
    except Exception as error:
        raise AssertionError(f"check({seed}, faults={faults}) repeats it: {run}") from error


def replace_pe(fault, pe):
    return fault._replace(pe=pe)


def rows_of(run: Case, simulation) -> dict[str, list]:
    sinks = run.layout.graph.sinks
    return {sink.name: sorted(row for b in simulation.sink(sink.name) for row in as_tuples(b)) for sink in sinks}


@pytest.mark.parametrize("seeds", batches(40), ids=str)
def test_without_faults_the_rows_are_those_of_one(seeds):
    for seed in seeds:
        check(seed, faults=False)


@pytest.mark.parametrize("seeds", batches(40), ids=str)
def test_where_everything_is_kept_nothing_is_lost(seeds):
    for seed in seeds:
        check(seed, faults=True)
