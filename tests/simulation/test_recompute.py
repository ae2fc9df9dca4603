"""Recompute: under seeded crash schedules, with few streams kept, the sinks have the rows of the bounded run."""

from dataclasses import replace
from random import Random

import pytest
from tests.simulation.schedules import any_app, batches, bounded, case, protected, rows, simulated
from tests.simulation.shares import soak

from riprap.checkpoints.load import load
from riprap.checkpoints.names import MANIFEST, files_in, folder_of
from riprap.graph.builder import App
from riprap.protocols import recompute
from riprap.runtime.layout import arrange
from riprap.runtime.recomputation import Recomputation, _Cone
from riprap.testing.simulation import Crash, Simulation


def run(seed: int) -> None:
    random = Random(f"recompute {seed}")
    graph = protected(any_app(random), random, kept=random.choice([0.0, 0.2, 0.5]), saved=1.0)
    made = case(seed, graph, random, most=100)
    links = tuple(
        link if link.retention == "log" else replace(link, retention="recompute") for link in made.layout.links
    )
    made = replace(made, layout=replace(made.layout, links=links, protocol=recompute.SPEC))
    simulation = made.simulation()
    try:
        simulation.run()
        assert simulated(simulation) == bounded(graph, made.inputs)
    except AssertionError as error:
        raise AssertionError(f"run({seed}): {made}\n{error}"[:3000]) from error


@pytest.mark.parametrize("seeds", batches(40), ids=str)
def test_nothing_is_lost_and_nothing_comes_twice(seeds, monkeypatch):
    brought = []
    bring = Recomputation.bring

    def counting(self, missing):
        found = bring(self, missing)
        brought.extend(found)
        return found

    monkeypatch.setattr(Recomputation, "bring", counting)
    for seed in seeds:
        run(seed)
    assert len(brought) > 20


def test_the_newest_checkpoint_may_be_damaged(monkeypatch):
    """One file of each element's newest checkpoint, once: an older one serves, or else the beginning."""
    damaged: dict[str, list[str]] = {}  # by element: the checkpoints that it had

    def damaging(storage, pe, unit, now, **options):
        folder = folder_of(pe, unit)
        files = files_in(storage, folder, MANIFEST)
        parts = [name for name in sorted(storage.files) if name.startswith(folder) and name.endswith(".part")]
        if files and pe not in damaged:
            newest = f"{folder}/{files[-1].name}"
            damaged[pe] = [file.name for file in files]
            storage.files[(parts or [newest])[-1]] = b""
        return load(storage, pe, unit, now, **options)

    monkeypatch.setattr("riprap.testing.simulation.load", damaging)
    counts = set()
    for seed in range(40):
        damaged.clear()
        run(seed)
        counts |= {len(found) for found in damaged.values()}
    assert {1, 3} <= counts


@pytest.mark.soak
def test_nothing_is_lost_in_thousands_of_schedules():
    soak(100, 3_100, run)


def test_a_hole_on_another_channel_does_not_begin_it_anew(monkeypatch):
    """Producers come back one after the other, and what was worked out for the first serves the second."""
    made: list[tuple[object, ...]] = []

    class Counted(_Cone):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(tuple(self._next))

    monkeypatch.setattr("riprap.runtime.recomputation._Cone", Counted)
    app = App("diamond")
    source = app.source("S0", "k string, x long, id long")
    parts = [source.filter(f"id % 3 = {one}", name=f"Part{one}") for one in range(3)]
    parts[0].union(*parts[1:], name="Both").sink("Out")
    graph = protected(app.build(), Random(1), kept=0.0, saved=1.0)
    for seed in range(8):
        layout = arrange(graph, "none")
        links = tuple(replace(link, retention="recompute") for link in layout.links)
        layout = replace(layout, links=links, protocol=recompute.SPEC)
        inputs = rows(graph, Random(seed), 200)
        simulation = Simulation(layout, inputs, seed=seed, crashes=[Crash(70_000, "Both", 5_000)], rate=1_000.0)
        simulation.run()
        assert simulated(simulation) == bounded(graph, inputs)
    assert len(made) == 8
    assert any(len(channels) == 3 for channels in made)


def test_a_log_and_what_is_recomputed_go_on_side_by_side():
    """A kept stream with many rows meets one with few: the source does not run ahead while the log is read."""
    app = App("beside")
    source = app.source("S0", "k string, x long, id long")
    many = source.filter("id >= 0", name="One").union(source.filter("x >= 0", name="Other"), name="Many")
    few = source.filter("id % 5 = 0", name="Few")
    many.union(few, name="Both").sink("Out")
    graph = protected(app.build(), Random(1), kept=0.0, saved=1.0)
    graph = graph.with_operator(replace(graph["Many"], annotations=replace(graph["Many"].annotations, backup=True)))
    reached: list[tuple[int, int]] = []
    turn = _Cone._turn

    def watched(self, missing):
        found = turn(self, missing)
        for channel, (_, last) in missing.holes.items():
            if channel.stream == "Both→Out":  # of each row of the source it has eleven fifths
                reached.append((self._shadows["S0"].element.taken("S0"), int(last / 2.2)))
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_Cone, "_turn", watched)
        for seed in range(4):
            layout = arrange(graph, "none")
            links = tuple(
                link if link.retention == "log" else replace(link, retention="recompute") for link in layout.links
            )
            assert {link.retention for link in links} == {"log", "recompute"}
            layout = replace(layout, links=links, protocol=recompute.SPEC)
            inputs = rows(graph, Random(seed), 400)
            crashes = [Crash(150_000, "Both", 5_000), Crash(250_000, "Out", 5_000)]
            simulation = Simulation(layout, inputs, seed=seed, crashes=crashes, rate=1_000.0, batch_rows=4)
            simulation.run()
            assert simulated(simulation) == bounded(graph, inputs)
    assert reached
    assert all(taken <= needed + 16 for taken, needed in reached), reached
