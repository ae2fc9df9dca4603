"""A barrier pairs rightly after crashes of its process: the pairs themselves are compared, not their number."""

from random import Random

import pytest
from tests.simulation.schedules import as_tuples, batches, crashes, rows

from riprap.graph.annotations import checkpoint
from riprap.graph.builder import App
from riprap.runtime.layout import arrange
from riprap.testing.simulation import Simulation


def check(seed: int) -> tuple[int, int]:
    """Gives how many pairs there were, and how many crashes."""
    random = Random(seed)
    app = App("pairs")
    left, right = (app.source(name, "k string, x long, id long") for name in ("L", "R"))
    kept = random.choice(["x >= 0", "x > 0", "x < 4"])  # one side brings fewer, so that the other waits
    protect = random.choice([(), (checkpoint("20ms"),), (checkpoint(f"{random.randint(5, 60)}ms"),)])
    one = left.filter(kept, name="F").select("id AS one", name="A")
    other = right.filter("x >= 0", name="G").select("id AS other", name="B")
    one.barrier(other, name="Pair", protect=protect).sink("Sink")
    graph = app.build()
    layout = arrange(graph, "none", {"F": random.choice([1, 1, 3]), "A": 1})
    inputs = rows(graph, random, 120)
    pes = ["Pair"]  # its producers live, and hold what it may need
    rate = random.choice([500.0, 2_000.0])
    faults = crashes(pes, random, int(120 / rate * 1e6) + 50_000, most=4)
    simulation = Simulation(
        layout, inputs, seed=seed, rate=rate, batch_rows=random.choice([4, 16]), crashes=faults,
        held_bytes=random.choice([1, 1 << 20]),
    )  # fmt: skip
    simulation.run(seconds=10.0)
    wanted = _pairs(inputs, kept)
    found = [row for batch in simulation.sink("Sink") for row in as_tuples(batch)]
    names = sorted(n for n in simulation.sink("Sink")[0].schema.names if not n.startswith("_")) if found else []
    pairs = [(row[names.index("one")], row[names.index("other")]) for row in found]
    assert set(pairs) <= set(wanted), f"check({seed}): wrong pairs {sorted(set(pairs) - set(wanted))[:5]}, {faults}"
    assert len(pairs) == len(set(pairs)), f"check({seed}): pairs twice"
    return len(pairs), simulation.restarts["Pair"]


def _pairs(inputs, kept: str) -> list[tuple[int, int]]:
    keep = {"x >= 0": lambda x: x >= 0, "x > 0": lambda x: x > 0, "x < 4": lambda x: x < 4}[kept]
    sides = [
        [i for i, x in zip(inputs[name]["id"].to_pylist(), inputs[name]["x"].to_pylist(), strict=True) if fits(x)]
        for name, fits in (("L", keep), ("R", lambda x: x >= 0))
    ]
    return list(zip(*sides, strict=False))


@pytest.mark.parametrize("seeds", batches(100), ids=str)
def test_pairs_are_right_after_crashes(seeds):
    found = [check(seed) for seed in seeds]
    assert all(pairs > 10 for pairs, _ in found)
    assert sum(restarts for _, restarts in found) > len(found)
