"""Backups that share an element, and streams between them that others read: no crash schedule changes those."""

from dataclasses import replace
from random import Random

from tests.simulation.schedules import any_app, as_tuples, case, played, protected

from riprap.engine.engine import Engine
from riprap.operators.contract import Punctuation
from riprap.runtime.layout import sink_channel


def tapped(graph, random):
    """Readers want half of the streams."""
    operators = [
        replace(spec, annotations=replace(spec.annotations, persist=frozenset(range(spec.outputs))))
        if spec.outputs and random.random() < 0.5
        else spec
        for spec in graph.operators
    ]
    return replace(graph, operators=tuple(operators))


def given_on(graph, stream, inputs):
    """What leaves on a stream when all that is behind it runs elsewhere."""
    behind = {name for name in graph.order if name == stream.target or name in graph.reachable(stream.target)}
    engine = Engine(graph, [name for name in graph.order if name not in behind], cut_everywhere=True)
    given = {name: [batch] for name, batch in inputs.items() if name not in behind}
    left = [event for name, event in engine.run(given) if name == stream.id and not isinstance(event, Punctuation)]
    return [row for batch in left for row in as_tuples(batch)]


def check(seed: int) -> int:
    random = Random(seed)
    graph = tapped(protected(any_app(random), random, kept=1.0, saved=random.choice([0.0, 0.5, 1.0])), random)
    run = case(seed, graph, random)
    simulation = played(run, graph, f"check({seed}) of {__name__}")
    found = {id_: pe.fragment.shards for pe in run.layout.pes for id_ in run.layout.taps(pe)}
    for id_, shards in found.items():
        [stream] = [stream for stream in graph.streams if stream.id == id_]
        logged = [b for shard in range(shards) for b in simulation.log(sink_channel(id_, shard)).rows()]
        got, wanted = [row for batch in logged for row in as_tuples(batch)], given_on(graph, stream, run.inputs)
        assert (got == wanted) if shards == 1 else (sorted(map(repr, got)) == sorted(map(repr, wanted))), (
            id_,
            str(run),
        )
    return len(found)


def test_no_crash_schedule_changes_what_readers_of_inner_streams_find():
    assert sum(check(seed) for seed in range(40)) > 5  # of such streams
