"""Recorded stories, fed to the simulated host: the element ends where the recorded one stood, and fails as it did."""

from random import Random

import pytest
from tests.simulation.schedules import any_app, case, protected

from riprap.base.errors import DataError
from riprap.graph.annotations import backup
from riprap.graph.builder import App
from riprap.protocols.registry import configured
from riprap.runtime.element.cursor import MergedCursor
from riprap.runtime.layout import arrange
from riprap.runtime.story import RecordedStory, decode_story
from riprap.testing.simulation import Simulation
from riprap.testing.story_replay import replay_story


def stories(simulation: Simulation) -> dict[str, RecordedStory]:
    return {pe: decode_story(inc.element.story.cells) for pe, inc in simulation.incarnations.items()}


def exact_run(seed: int):
    """An app under a protocol without gaps, so that numbers mean the same items in every run."""
    random = Random(seed)
    graph = protected(any_app(random), random, kept=0.5, saved=0.0)
    run = case(seed, graph, random)
    layout = arrange(run.layout.graph, "none", None, *configured("coordinated", interval="20ms"))
    return layout, run.inputs, run.batch_rows


@pytest.mark.parametrize("seed", range(6))
def test_a_replay_ends_where_the_recorded_element_stood(seed):
    layout, inputs, batch_rows = exact_run(seed)
    simulation = Simulation(layout, inputs, seed=seed, rate=2000.0, batch_rows=batch_rows)
    simulation.run()
    for pe, story in stories(simulation).items():
        replayed = replay_story(story, layout, inputs, batch_rows=batch_rows)
        assert replayed.steps > 0
        assert replayed.element.positions() == simulation.incarnations[pe].element.positions(), pe
        assert sorted(replayed.commands) == sorted(replayed.recorded)


def test_a_replay_starts_at_the_oldest_positions_of_a_ring_that_has_turned():
    layout, inputs, batch_rows = exact_run(1)
    simulation = Simulation(layout, inputs, seed=1, rate=2000.0, batch_rows=batch_rows)
    simulation.run()
    for pe, story in stories(simulation).items():
        element = simulation.incarnations[pe].element
        element.story.positions(simulation.clock.time, element.positions())
        last = decode_story(element.story.cells).entries[-1:]
        replayed = replay_story(RecordedStory(story.name, story.epoch, last), layout, inputs, batch_rows=batch_rows)
        assert replayed.element.positions()["sources"] == element.positions()["sources"], pe
        assert replayed.element.positions()["inputs"] == element.positions()["inputs"], pe


def test_a_broken_invariant_breaks_again_in_the_replay(monkeypatch):
    app = App("two")
    left, right = (app.source(name, "x long", protect=(backup(),)) for name in ("L", "R"))
    left.union(right, name="U").sink("Sink")
    layout = arrange(app.build(), "none")
    _, inputs, _ = exact_run(0)
    table = next(iter(inputs.values()))
    inputs = {"L": table, "R": table}
    passing = MergedCursor.pass_up_to

    def wrong(self, reached):
        passed = passing(self, reached)
        self.rows += len(self._waiting) > 1  # a miscount that nothing else shows
        return passed

    monkeypatch.setattr(MergedCursor, "pass_up_to", wrong)
    simulation = Simulation(layout, inputs, seed=3, rate=2000.0, batch_rows=4)
    with pytest.raises(AssertionError, match="rows that wait are miscounted"):
        simulation.run()
    story = stories(simulation)["U"]
    monkeypatch.setattr(MergedCursor, "pass_up_to", passing)
    assert replay_story(story, layout, inputs, batch_rows=4).steps > 0
    monkeypatch.setattr(MergedCursor, "pass_up_to", wrong)
    with pytest.raises(AssertionError, match="rows that wait are miscounted"):
        replay_story(story, layout, inputs, batch_rows=4)


def test_other_inputs_are_refused():
    layout, inputs, batch_rows = exact_run(0)
    simulation = Simulation(layout, inputs, seed=0, rate=2000.0, batch_rows=batch_rows)
    simulation.run()
    sink = next(pe for pe in stories(simulation) if pe.startswith("Sink"))
    fewer = {name: batch.slice(0, 2) for name, batch in inputs.items()}
    with pytest.raises(DataError, match="a run over these inputs has none"):
        replay_story(stories(simulation)[sink], layout, fewer, batch_rows=batch_rows)
