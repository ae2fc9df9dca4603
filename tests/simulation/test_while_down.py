"""Streams that are kept while their consumer is down: counts are true whatever crashes, and only what is said is lost.

The oracle is that of `test_counts`: taps write down what they were given. Beside it:
  - when only elements without consumers die, nothing is lost, and nothing is on a shelf that was acknowledged;
  - what a crash takes of the state is counted as forgotten, and not twice;
  - with a share, what was discarded and what the consumer missed are the same items.
"""

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from tests.simulation.schedules import Case, any_app, batches, case, protected
from tests.simulation.shares import soak
from tests.simulation.taps import Tap, tap_app, watch_progress
from tests.simulation.test_counts import _verify
from tests.simulation.test_gaps import ascending

from riprap.graph.annotations import retain
from riprap.graph.graph import Graph
from riprap.graph.specs import Sink
from riprap.runtime.coordination.counts import stream_counts
from riprap.runtime.layout import Layout, Pe
from riprap.testing.simulation import Break, Crash


@pytest.fixture(autouse=True)
def progress_is_watched(monkeypatch):
    watch_progress(monkeypatch)


def retained(graph: Graph, random: Random, kept: float, share: float = 1.0, *, sinks: bool = True) -> Graph:
    """With this retention behind a share `kept` of the operators; not in front of sinks, where it is so wished."""
    for spec in graph.operators:
        targets = [graph[stream.target] for stream in graph.outputs(spec.name)]
        fit = all(target.tolerates_loss and (sinks or not isinstance(target, Sink)) for target in targets)
        if targets and fit and random.random() < kept:
            annotations = spec.annotations | retain("while-down", sample=share)
            graph = graph.with_operator(replace(spec, annotations=annotations))
    return graph


def _retains_nothing(layout: Layout, pe: Pe) -> bool:
    return not any(layout.retention(channel) == "while-down" for channel in layout.outputs(pe))


def without_breaks(run: Case) -> Case:
    # A producer whose connection breaks is not waited for, like one that dies: what it brings late is lost.
    return replace(run, crashes=tuple(fault for fault in run.crashes if not isinstance(fault, Break)))


def check_counts(seed: int) -> None:
    random = Random(seed)
    graph = protected(tap_app(random, strict=random.choice([0.0, 0.3])), random, kept=random.choice([0.0, 0.3]),
                      saved=random.choice([0.0, 0.7]))  # fmt: skip
    _verify(case(seed, retained(graph, random, 0.6, random.choice([1.0, 1.0, 0.5, 0.1])), random))


def check_consumers(seed: int) -> None:
    """Only elements crash that retain nothing: nothing is lost on the way to them, and what is forgotten is what their
    state lost.
    """
    random = Random(seed)
    graph = retained(protected(tap_app(random), random, kept=0.0, saved=0.5), random, 1.0, sinks=False)
    run = without_breaks(case(seed, graph, random, mortal=_retains_nothing))
    simulation = _verify(run)
    try:
        counted = stream_counts(run.layout, simulation.ledgers())
        for stream, counts in counted.items():
            assert counts.recovery != "while-down" or counts.lost == counts.repeated == 0, f"{stream} {counts}"
        in_calls = {crash.pe for crash in run.crashes if isinstance(crash, Crash) and crash.effect}
        for link in run.layout.links:
            target, taps = link.stream.target, [name for name in link.target.members if name.startswith("T")]
            alone = taps == [target] and len(graph.inputs(target)) == link.target.shards == 1
            if link.retention == "while-down" and alone and target not in in_calls:
                assert counted[link.stream.id].forgotten == _forgotten(target), f"{link.stream.id}"
    except AssertionError as error:
        raise AssertionError(f"check_consumers({seed}) repeats it: {run}") from error


def _forgotten(tap: str) -> int:
    """What the lives of a tap had seen, and those after them had not in their state."""
    *before, last = Tap.lives[tap]
    # Restoring makes another object, and leaves one that was given nothing; the last one counts whatever it has.
    lives, lost = [*(life for life in before if life.given or life.loaded), last], 0
    for life, then in pairwise(lives):
        lost += min(life.loaded + len(life.given) - then.loaded, len(life.given))
    return lost


def check_shares(seed: int) -> None:
    """A share of what comes while consumers are down: what they miss was discarded, and nothing else is missing."""
    random = Random(seed)
    graph = retained(tap_app(random), random, 1.0, random.choice([0.8, 0.3]))
    run = without_breaks(case(seed, graph, random, mortal=_retains_nothing))
    simulation = _verify(run)
    ledgers = simulation.ledgers()
    for stream, counts in stream_counts(run.layout, ledgers).items():
        link = run.layout.link(stream)
        discarded = sum(ledgers[run.layout.producer(channel)].outputs[channel].discarded for channel in link.channels())
        assert counts.lost == discarded, f"check_shares({seed}) repeats it: {stream} {counts} of {run}"


def check_any(seed: int) -> None:
    """All operators: the run ends, and the order of keys is never broken."""
    random = Random(seed)
    graph = protected(any_app(random), random, kept=random.choice([0.0, 0.3]), saved=random.choice([0.0, 0.5]))
    ascending(case(seed, retained(graph, random, 0.7, random.choice([1.0, 0.5])), random))


# 10939: an exact element behind it goes back, and has what was late again.
@pytest.mark.parametrize("seeds", [*batches(20), (10939,)], ids=str)
def test_counts_are_true(seeds):
    for seed in seeds:
        check_counts(seed)


@pytest.mark.parametrize("seeds", batches(20), ids=str)
def test_nothing_is_lost_when_consumers_crash(seeds):
    for seed in seeds:
        check_consumers(seed)


def test_a_life_that_begins_when_all_is_over_has_forgotten_what_was_taken():
    check_consumers(11001)


@pytest.mark.parametrize("seeds", batches(20), ids=str)
def test_of_a_share_the_rest_is_discarded(seeds):
    for seed in seeds:
        check_shares(seed)


@pytest.mark.parametrize("seeds", batches(20), ids=str)
def test_any_app_ends_and_keys_ascend(seeds):
    for seed in seeds:
        check_any(seed)


@pytest.mark.soak
@pytest.mark.parametrize("check", [check_counts, check_consumers, check_shares, check_any])
def test_thousands(check):
    soak(10_000, 11_500, check)
