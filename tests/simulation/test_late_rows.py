"""Late is not lost: what a producer brings that was down while others went on.

The oracle reads inputs, what came out, and the counts of the summary: every row of the inputs came out, once, or is
counted as lost; and where rows came out behind others that belong after them, at least so many are counted as late.
Elements behind a persistent stream are exact whatever is late in it: what they gave out is what an engine gives that
reads that stream from the beginning, in one go.
"""

from random import Random

import pytest
from tests.simulation.schedules import Case, as_tuples, batches, dropping_late, rows, simulated

from riprap.engine.engine import Engine
from riprap.graph.annotations import backup, checkpoint
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.windows import count, time, zero
from riprap.operators.contract import Late, Punctuation
from riprap.runtime.coordination.counts import stream_counts
from riprap.runtime.layout import arrange
from riprap.testing.simulation import Crash

LATE = {"deliver": 0, "drop": 0}  # rows that were late, and that were lost, where only producers died


def united(random: Random) -> Graph:
    """Rows of two or three sources, some of them by an element of their own, in one union, and through another."""
    app = App("united")
    streams = [app.source(f"S{j}", "k string, x long, id long") for j in range(random.randint(2, 3))]
    streams = [
        stream.select("k", "x", "id", name=f"M{j}") if random.random() < 0.4 else stream
        for j, stream in enumerate(streams)
    ]
    both = streams[0].union(*streams[1:], name="Both")
    if random.random() < 0.5:
        both = both.select("k", "x + 1 AS x", "id", name="More")
    both.sink("All")
    return app.build()


def play(seed: int, late: str) -> None:
    random = Random(seed)
    graph = united(random) if late == "deliver" else dropping_late(united(random))
    parallelism = {name: 2 for name in ("M0", "M1", "More") if name in graph and random.random() < 0.3}
    layout = arrange(graph, "none", parallelism)
    mortal = [pe.id for pe in layout.pes if not {"Both", "All"} & set(pe.fragment.members)]
    if random.random() < 0.4:
        mortal.append("Both")
    rate = random.choice([2_000.0, 10_000.0])
    crashes = [
        Crash(random.randint(0, 60_000), random.choice(mortal), random.choice([5_000, 30_000]))
        for _ in range(random.randint(1, 5))
    ]
    run = Case(
        seed, layout, rows(graph, random, 120), tuple(sorted(crashes)), random.choice([4, 16, 64]),
        random.choice([1, 1 << 20]), rate,
    )  # fmt: skip
    simulation = run.simulation()
    try:
        simulation.run(seconds=5.0)
        verify(run, simulation, late, mergers_died="Both" in {crash.pe for crash in crashes})
    except Exception as error:
        raise AssertionError(f"play({seed}, {late!r}) repeats it: {run}") from error


def verify(run: Case, simulation, late: str, *, mergers_died: bool) -> None:
    counted = stream_counts(run.layout, simulation.ledgers())
    given = {id_ for batch in run.inputs.values() for id_ in batch.column("id").to_pylist()}
    out = [row[0] for row in simulated(simulation)["All"]]
    assert len(out) == len(set(out)), "a row came out twice"
    assert set(out) <= given
    lost = sum(counts.lost for counts in counted.values())
    assert len(out) + lost == len(given), f"{len(out)} came out, {lost} are counted as lost, of {len(given)}"
    keys = [row[-3:] for row in simulated(simulation)["All"]]  # _seq, _src, _ts
    keys = [(ts, src, seq) for seq, src, ts in keys]
    behind = sum(key < greatest for key, greatest in zip(keys, _greatest(keys), strict=True))
    into = sum(counts.late for counts in counted.values())
    if late == "drop":
        assert behind == into == 0
    else:
        assert behind <= into, f"{behind} rows came out behind others, {into} are counted as late"
    if not mergers_died:
        LATE[late] += into if late == "deliver" else lost


def _greatest(keys: list) -> list:
    found, greatest = [], keys[0] if keys else None
    for key in keys:
        greatest = max(greatest, key)
        found.append(greatest)
    return found


@pytest.mark.parametrize("late", ["deliver", "drop"])
def test_every_row_comes_out_or_is_counted_as_lost(late):
    LATE[late] = 0
    for seed in range(40):
        play(seed, late)
    assert LATE[late] > 50  # else nothing of this was tried


# Behind a persistent stream -------------------------------------------------------------------------------------------


def kept(random: Random) -> Graph:
    """What is late in a persistent stream, and elements behind it that can go back."""
    app = App("kept")
    one, two, three = (app.source(f"S{j}", "k string, x long, id long") for j in range(3))
    both = one.union(two, name="Both", protect=backup())
    protect = (backup(), checkpoint(f"{random.randint(5, 40)}ms"))
    other = three.filter("x >= 0", name="Third", protect=backup())
    window = random.choice([count(1), count(3), time("5ms"), time("20ms")])
    kind = random.choice(["union", "join", "aggregate", "sort"])
    if kind == "union":
        behind = both.union(other, name="D", protect=protect)
    elif kind == "join":
        right = other.select("k", "id AS other", name="Right", protect=backup())
        behind = both.join(right, on="k", left_window=window, right_window=random.choice([zero(), count(2)]),
                           select=["k", "id", "other"], name="D", protect=protect)  # fmt: skip
    elif kind == "aggregate":
        every = random.choice([None, count(1), time("5ms")])
        behind = both.aggregate("sum(x) AS x", window=window, every=every, by="k", name="D", protect=protect)
    else:
        behind = both.sort("x", window=window, name="D", protect=protect)
    behind.union(behind.filter("k = 'a'", name="A", protect=backup()), name="Again", protect=protect).sink("Out")
    return app.build()


def check_kept(seed: int) -> int:
    random = Random(seed)
    layout = arrange(kept(random), "none")
    pes = [pe.id for pe in layout.pes]
    crashes = [
        Crash(random.randint(0, 80_000), random.choice(pes), random.choice([5_000, 30_000]), random.randint(0, 6))
        for _ in range(random.randint(2, 6))
    ]
    run = Case(
        seed,
        layout,
        rows(layout.graph, random, 80),
        tuple(sorted(crashes)),
        random.choice([4, 16, 64]),
        1 << 20,
        2_000.0,
    )
    simulation = run.simulation()
    try:
        simulation.run(seconds=5.0)
        graph = layout.graph
        members = [name for name in graph.order if name not in ("S0", "S1", "S2", "Both", "Third")]
        engine, out = Engine(graph, members, cut_everywhere=True), []
        late = 0
        for link in layout.links:
            if link.stream.source not in ("Both", "Third"):
                continue
            for channel in link.channels():
                for message in simulation.log(channel).stable:
                    event = message.batch.batch() if message.batch is not None else None
                    event = Punctuation(message.punctuation) if message.punctuation is not None else event
                    if message.at is not None:
                        late += message.items
                        event = Late(event, message.at)
                    found = engine.push(channel.stream, event) if event is not None else []
                    if message.watermark is not None:
                        found += engine.advance(channel.stream, message.watermark)
                    out += [one for _, one in found]
        wanted = [
            row
            for one in out
            if not isinstance(event := one.event if isinstance(one, Late) else one, Punctuation)
            for row in as_tuples(event)
        ]
        assert simulated(simulation)["Out"] == wanted
        return late
    except Exception as error:
        raise AssertionError(f"check_kept({seed}) repeats it: {run}") from error


@pytest.mark.parametrize("seeds", batches(24, 12), ids=str)
def test_elements_behind_a_persistent_stream_are_exact_whatever_is_late_in_it(seeds):
    assert sum(check_kept(seed) for seed in seeds) > 0
