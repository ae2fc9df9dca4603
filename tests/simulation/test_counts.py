"""Whatever crashes: the run ends, the counts are true, keys do not fall, and nothing is given twice that need not be.

What is true of the counts of a stream when the run has ended, with "had" for what the taps say:
  - received is the number of different items that the consumer's operator had;
  - repeated is how often it had one again, unless its element is exact, and then what it did before was undone; on a
    stream that is held only an operator that goes back to a checkpoint has one again, as its state did;
  - sent is the number of items that the producer's operator gave out, but for: those of the call that it died in, as
    what that call had not yet numbered was not sent; what a log that was not flushed lost with its process; and, behind
    an element that goes back and is not exact, what has a key that it had promised to have passed;
  - lost is the rest, sent and not received;
  - late are those that came behind others that belong after them, and none where streams lose such. (Some of them may
    be in order by chance: what had passed without them was progress, not tuples.)
A process that is really killed can die between two instructions in the operators too; then a tuple that is being
processed at that instant may count as received or as lost.
"""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from tests.simulation.schedules import Case, batches, case, dropping_late, protected
from tests.simulation.taps import Tap, faults, gave, got, order, tap_app, watch_progress

from riprap.graph.specs import Source
from riprap.runtime.coordination.counts import stream_counts
from riprap.testing.simulation import Break, Crash, Simulation


@pytest.fixture(autouse=True)
def progress_is_watched(monkeypatch):
    watch_progress(monkeypatch)


def check(seed: int) -> None:
    """A mixture of gap, buffer and replay."""
    random = Random(seed)
    graph = tap_app(random, strict=random.choice([0.0, 0.4]))
    graph = protected(graph, random, kept=random.choice([0.0, 0.0, 0.4]), saved=random.choice([0.0, 0.7]))
    _verify(case(seed, dropping_late(graph) if random.random() < 0.4 else graph, random))


def check_buffers(seed: int) -> None:
    """All inputs buffered, and only elements crash that have no consumer: nothing is lost."""
    random = Random(seed)
    run = case(seed, tap_app(random, strict=1.0), random, mortal=lambda layout, pe: not layout.outputs(pe))
    # A producer whose connection breaks is not waited for, like one that dies: what it brings late is lost.
    run = replace(run, crashes=tuple(fault for fault in run.crashes if not isinstance(fault, Break)))
    simulation = _verify(run)
    for stream, counts in stream_counts(run.layout, simulation.ledgers()).items():
        if counts.recovery == "buffer":
            assert counts.lost == counts.repeated == 0, f"check_buffers({seed}): {stream} {counts} of {run}"


def _verify(run: Case) -> Simulation:
    Tap.lives.clear()
    simulation = run.simulation()
    try:
        simulation.run(seconds=5.0)
        _compare(run, simulation)
    except Exception as error:
        raise AssertionError(f"seed {run.seed} repeats it: {run}") from error
    return simulation


def _compare(run: Case, simulation: Simulation) -> None:
    layout, graph = run.layout, run.layout.graph
    counted = stream_counts(layout, simulation.ledgers())
    saved = lambda name: any(  # noqa: E731 — goes back to a checkpoint, and is given again what was held for it
        name in unit.operators for pe in layout.hosting(name) for unit in layout.plan(pe).units.values()
    )
    in_calls = {crash.pe for crash in run.crashes if isinstance(crash, Crash) and crash.effect}
    late = sum(counts.late for counts in counted.values())
    assert not late or any(stream.late == "deliver" for stream in graph.streams)
    for link in layout.links:
        stream, counts = link.stream, counted[link.stream.id]
        assert counts.lost >= 0
        producers = [pe for pe in layout.pes if pe.fragment == link.source]
        # What a producer that is not exact had numbered, and its log not yet written, when it died.
        assert link.recovery != "replay" or counts.lost == 0 or not layout.plan(producers[0]).exact
        (consumer, *_) = [layout.plan(pe) for pe in layout.pes if pe.fragment == link.target]
        if isinstance(graph[stream.source], Source):
            given = set(run.inputs[stream.source].column("id").to_pylist())
        else:
            given = gave(stream.source)
        assert counts.sent <= len(given)
        producer = layout.plan(producers[0])
        within_calls = in_calls & {pe.id for pe in producers}
        if producer.exact or not (producer.whole or link.recovery == "replay" or within_calls):
            assert counts.sent == len(given), f"{stream.id}: {counts}, given {len(given)}"
        if stream.target.startswith("T"):
            had: Counter[int] = got(stream.target, stream.target_port)
            assert counts.received == len(had), f"{stream.id}: {counts}, had {len(had)}"
            assert set(had) <= given
            if not consumer.exact:
                assert counts.repeated == had.total() - len(had), f"{stream.id}: {counts}, had {had.total()}"
        if consumer.exact or link.retention == "discard" or (link.retention == "hold" and not saved(stream.target)):
            assert counts.repeated == 0
    for spec in graph.operators:
        if spec.name in Tap.lives:
            assert len(faults(spec.name)) <= late, faults(spec.name)[:3]
            back = any(layout.plan(pe).whole for pe in layout.hosting(spec.name)) or (
                not spec.tolerates_loss and saved(spec.name)
            )
            if not back and spec.parallelism == 1 and not late:
                keys = order(spec.name)
                assert keys == sorted(keys), f"keys of {spec.name} fall"


# 99: what waits in a merge needs what was spilled. 3318: all producers but one that is down have ended. 5220: what was
# late for a life is in time for the next. 4803: what had come before a connection broke waits for room in its merge.
@pytest.mark.parametrize("seeds", [*batches(440), (3318, 5220, 4803)], ids=str)
def test_counts_are_true(seeds):
    for seed in seeds:
        check(seed)


@pytest.mark.parametrize("seeds", batches(140), ids=str)
def test_buffers_lose_nothing_when_consumers_crash(seeds):
    for seed in seeds:
        check_buffers(seed)
