"""Sources that die at any instruction: what came out and what was counted as lost is what the input holds.

The oracle reads inputs, sinks and the counts of the summary, and knows nothing of how they come about. Only elements
with sources die, between two numbers that they count too: so of every stream behind a source all rows were sent.
"""

from random import Random

import pytest
from tests.simulation.schedules import Case, batches, rows, simulated

from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.windows import count, zero
from riprap.runtime.coordination.counts import stream_counts
from riprap.runtime.layout import arrange
from riprap.testing.simulation import Crash


def two_sources(random: Random) -> Graph:
    """A union and a join of two sources; fused, what merges in their element."""
    app = App("two-sources")
    one, two = (app.source(name, "k string, x long, id long") for name in ("One", "Two"))
    if random.random() < 0.5:
        one = one.select("k", "x + 1 AS x", "id", name="More")
    one.union(two, name="Both").sink("All")
    if random.random() < 0.7:
        other = two.rename({"id": "other", "x": "y"}, name="Other")
        one.join(other, on="k", left_window=count(2), right_window=zero(), select=["k", "id", "other"],
                 name="Join").sink("Pairs")  # fmt: skip
    return app.build()


def check(seed: int) -> None:
    random = Random(seed)
    layout = arrange(two_sources(random), random.choice(["none", "auto", "all"]))
    mortal = [pe.id for pe in layout.pes if {"One", "Two"} & set(pe.fragment.members)]
    rate = random.choice([2_000.0, 10_000.0])
    crashes = [
        Crash(random.randint(0, 60_000), random.choice(mortal), random.choice([5_000, 30_000]), **how(random))
        for _ in range(random.randint(1, 6))
    ]
    run = Case(
        seed, layout, rows(layout.graph, random, 120), tuple(sorted(crashes)), random.choice([4, 16, 64]), 1 << 20, rate
    )
    simulation = run.simulation()
    try:
        simulation.run(seconds=5.0)
        verify(run, simulation)
    except Exception as error:
        raise AssertionError(f"check({seed}) repeats it: {run}") from error


def how(random: Random) -> dict[str, int]:
    """Between two calls, at an effect, or while a call is being counted."""
    return random.choice(
        [{}, {"effect": random.randint(1, 8)}, *[{"store": random.randint(1, random.choice([8, 80]))}] * 3]
    )


def verify(run: Case, simulation) -> None:
    layout, ledgers = run.layout, simulation.ledgers()
    held = {name: batch.num_rows for name, batch in run.inputs.items()}
    counted = stream_counts(layout, ledgers)
    sources = {name: s for ledger in ledgers.values() for name, s in ledger.sources.items()}
    assert {name: source.position for name, source in sources.items()} == held
    for name, counts in counted.items():
        operator = name.partition("→")[0]
        source = {"More": "One", "Other": "Two"}.get(operator, operator)
        fused = source in held and f"{source}→{operator}" not in counted
        if fused:  # every row of an input becomes one item
            assert counts.sent + sources[source].lost == held[source], (name, counts)
    gone = sum(counts.lost for name, counts in counted.items() if "Both" in name or name == "One→More")
    unkept = sum(o.discarded for ledger in ledgers.values() for c, o in ledger.outputs.items() if c.stream == "All")
    out = [row[0] for row in simulated(simulation)["All"]]  # id
    assert len(out) == len(set(out)), "a row came out twice"
    lost = sum(source.lost for source in sources.values()) + gone + unkept
    assert len(out) + lost == sum(held.values()), f"{len(out)} came out, {lost} are counted as lost, of {held}"


@pytest.mark.parametrize("seeds", batches(120, 30), ids=str)
def test_what_came_out_and_what_was_lost_is_what_the_input_holds(seeds):
    for seed in seeds:
        check(seed)
