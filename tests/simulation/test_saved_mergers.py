"""What waits in a merge is saved only where a life that goes back takes it from the checkpoint."""

from random import Random

import pytest
from tests.simulation.schedules import rows

from riprap.checkpoints.manifest import decode
from riprap.graph.annotations import backup, checkpoint
from riprap.graph.builder import App
from riprap.graph.windows import count, zero
from riprap.protocols.registry import configured
from riprap.runtime.layout import arrange
from riprap.testing.simulation import Simulation


def saved(protocol: str, protect) -> list:
    """The mergers in every checkpoint of a join of a short way with a long one."""
    app = App("joined")
    source = app.source("S0", "k string, x long, id long", protect=protect)
    late = source.filter("x >= 0", name="Long", protect=protect)
    late = late.select("k", "id AS other", name="Longer", protect=protect)
    windows = {"left_window": count(3), "right_window": zero()}
    select = ["k", "x", "other"]
    source.join(late, on="k", **windows, select=select, name="Join", protect=[checkpoint("20ms"), *protect]).sink("Out")
    graph = app.build()
    spec, settings = configured(protocol, **({} if protocol == "partial" else {"interval": "20ms"}))
    layout = arrange(graph, "none", None, spec, {**settings, "timeout": 200_000})
    inputs, found = rows(graph, Random(1), 400), []
    simulation = Simulation(layout, inputs, seed=1, rate=1_000.0, batch_rows=16)
    write = simulation.storage["Join"].write

    def watch(name, data):
        write(name, data)
        if name.endswith(".manifest"):
            found.append(decode(bytes(data)).mergers)

    simulation.storage["Join"].write = watch
    simulation.run()
    assert len(found) > 3
    return found


def waiting(mergers) -> int:
    return sum(batch.num_rows for state in mergers.values() for _, batch in state.batches())


@pytest.mark.parametrize("protect", [(), (backup(), checkpoint("20ms"))], ids=["on its own", "exact"])
def test_what_comes_again_or_is_lost_is_not_saved(protect):
    assert sum(map(waiting, saved("partial", protect))) == 0


def test_what_was_taken_is_saved():
    assert sum(map(waiting, saved("uncoordinated", ()))) > 0
