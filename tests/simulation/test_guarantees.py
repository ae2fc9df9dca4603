"""The table of docs/internals/protocols.md: each protocol with each log and sink, checked by seeded schedules.

With volatile logs a chain of operators that give one row for each row loses no more than what the numbers of its
streams say is missing, and gives nothing twice; with persistent ones, or where rows are held, it loses nothing. Dice,
which never give out the same twice, show whether what can be seen is all of one past.
"""

import json
from itertools import count
from random import Random
from typing import ClassVar

import pyarrow as pa
import pytest
from tests.simulation.schedules import bounded, crashes, other_faults, rows, simulated
from tests.simulation.shares import soak

from riprap.base.errors import UsageError
from riprap.graph.annotations import backup
from riprap.graph.builder import App
from riprap.operators.user import Rows, UserOperator
from riprap.protocols.commitment import SINKS
from riprap.protocols.registry import REGISTRY, configured
from riprap.runtime.coordination.counts import stream_counts
from riprap.runtime.layout import arrange
from riprap.testing.simulation import Simulation

EXACT = [name for name in REGISTRY if name not in ("partial", "recompute")]
LOGGING = ("uncoordinated", "induced")  # dice are in another element than the sink, and its log has what is committed
TABLE = {  # protocol, log, sinks: whether the output is exact, and whether it is where operators are not deterministic
    **{(name, None, sinks): (True, sinks == "committed" or name in LOGGING) for name in EXACT for sinks in SINKS},
    ("uncoordinated", "volatile", "eager"): (False, False),
    ("induced", "volatile", "eager"): (False, False),
}
REFUSED = [(name, "volatile", "committed") for name in LOGGING]
_drawn = count(1)


def chain(random):
    app = App("chain")
    stream = app.source("S0", "k string, x long, id long")
    for j in range(random.randint(1, 3)):
        stream = stream.select("k", f"x + {j} AS x", "id", name=f"M{j}")
    stream.sink("Sink")
    return app.build()


class Dice(UserOperator):
    """Gives every row a number that nobody else has, and the one before: so what it shows tells of its state."""

    deterministic = False
    one_per_trigger = True

    def __init__(self):
        self.last = 0

    def output_schemas(self, inputs):
        return [pa.schema([("id", pa.int64()), ("before", pa.int64()), ("now", pa.int64())])]

    def process(self, port, batch):
        drawn = [self.last, *(next(_drawn) for _ in range(batch.num_rows))]
        self.last = drawn[-1]
        yield Rows(pa.record_batch([batch.column("id"), drawn[:-1], drawn[1:]], names=["id", "before", "now"]))

    def save(self):
        return str(self.last).encode()

    def load(self, saved):
        self.last = int(saved)


def diced(random, kept=()):
    app = App("diced")
    stream = app.source("S0", "k string, x long, id long")
    if random.random() < 0.5:
        stream = stream.select("x", "id", name="Before", protect=backup() if "Before" in kept else ())
    [stream] = stream.apply(Dice, name="Dice")
    if random.random() < 0.5 or kept:
        stream = stream.select("id", "before", "now", name="After", protect=backup() if "After" in kept else ())
    stream.sink("Sink")
    return app.build()


class Remembering(UserOperator):
    """Passes on what it is given, and has all of it in its state: so two of them tell what was lost between them."""

    one_per_trigger = True
    lives: ClassVar[dict[str, list]] = {}  # by name, the ids of each life; the last one is the one that goes on

    def __init__(self, known):
        self.ids = []
        Remembering.lives.setdefault(known, []).append(self.ids)

    def output_schemas(self, inputs):
        return [inputs[0]]

    def process(self, port, batch):
        self.ids += batch.column("id").to_pylist()
        yield Rows(batch.select(["k", "x", "id"]))

    def save(self):
        return json.dumps(self.ids).encode()

    def load(self, saved):
        self.ids[:] = json.loads(saved)


def remembered(random):
    app = App("remembered")
    stream = app.source("S0", "k string, x long, id long")
    for j in range(random.randint(2, 3)):
        [stream] = stream.apply(Remembering, known=f"R{j}", name=f"R{j}")
    stream.sink("Sink")
    return app.build()


def played(graph, protocol, log, sinks, seed, random):
    spec, settings = configured(protocol, interval="20ms", log=log, sinks=sinks)
    layout = arrange(graph, "none", None, spec, {**settings, "timeout": 200_000})
    inputs = rows(graph, random, 100)
    faults = (*crashes([pe.id for pe in layout.pes], random, 150_000), *other_faults(layout, random, 150_000))
    simulation = Simulation(
        layout, inputs, seed=seed, crashes=faults, rate=1_000.0, batch_rows=random.choice([1, 4, 16])
    )
    simulation.run(seconds=60.0)
    return simulation, f"{protocol}, {log}, {sinks}, seed {seed}: {faults}"


def check(protocol, log, sinks, seed):
    """Gives how many rows were lost."""
    random = Random(f"guarantees {seed}")
    graph = chain(random)
    simulation, about = played(graph, protocol, log, sinks, seed, random)
    found, wanted = simulated(simulation)["Sink"], bounded(graph, simulation.inputs)["Sink"]
    lost = sum(counts.lost for counts in stream_counts(simulation.layout, simulation.ledgers()).values())
    if TABLE[protocol, log, sinks][0]:
        assert (found, lost) == (wanted, 0), about
    else:
        rest = iter(wanted)
        assert all(row in rest for row in found), f"{about}: something comes twice, or out of order"
        # What an eager sink had given out before the loss stays there: so it may miss fewer rows than the streams.
        assert len(wanted) - len(found) <= lost, f"{about}: {len(wanted)} - {len(found)}, {lost} counted"
    return lost


def consistent(protocol, log, sinks, seed):
    """Whether a sink behind dice has every row once, and all of them from one past."""
    random = Random(f"dice {seed}")
    simulation, about = played(diced(random), protocol, log, sinks, seed, random)
    found = [row for batch in simulation.sink("Sink") for row in batch.to_pylist()]  # none, where all was lost
    whole = [row["id"] for row in found] == simulation.inputs["S0"].column("id").to_pylist()
    assert whole or not TABLE[protocol, log, sinks][0], about
    same = whole and [row["before"] for row in found] == [0, *(row["now"] for row in found[:-1])]
    assert same or not TABLE[protocol, log, sinks][1], about
    return same


@pytest.mark.parametrize(("protocol", "log", "sinks"), TABLE)
def test_the_table_holds(protocol, log, sinks):
    exact, _ = TABLE[protocol, log, sinks]
    lost = (check(protocol, log, sinks, seed) for seed in range(4 if exact else 40))  # as many as it takes
    assert any(lost) != exact
    if protocol != "repeat":
        assert all(consistent(protocol, log, sinks, seed) for seed in range(5)) == TABLE[protocol, log, sinks][1]


def test_a_sink_that_lost_everything_is_of_no_past():
    assert not consistent("uncoordinated", "volatile", "eager", 901)


def missing(protocol, seed):
    """What volatile logs lose between two elements, held to what the two of them remember; and how much it was."""
    random = Random(f"remembered {seed}")
    graph = remembered(random)
    Remembering.lives.clear()
    simulation, about = played(graph, protocol, "volatile", "eager", seed, random)
    had = {"S0": simulation.inputs["S0"].column("id").to_pylist()}
    had |= {name: lives[-1] for name, lives in Remembering.lives.items()}
    counts, lost = stream_counts(simulation.layout, simulation.ledgers()), 0
    for stream in graph.streams:
        if stream.target in had:
            rest = iter(had[stream.source])
            assert all(id_ in rest for id_ in had[stream.target]), f"{about}: {stream.id} brings something twice"
            between = len(had[stream.source]) - len(had[stream.target])
            assert counts[stream.id].lost == between, f"{about}: {between} lost on {stream.id}, {counts[stream.id]}"
            lost += between
    return lost


@pytest.mark.parametrize("protocol", LOGGING)
def test_losses_are_counted_exactly(protocol):
    assert sum(missing(protocol, seed) for seed in range(20))


def test_a_stream_that_would_keep_what_was_abandoned_is_refused():
    for name in ("coordinated", "unaligned"):
        with pytest.raises(UsageError, match="Dice does not emit again; use `protocol=hybrid`"):
            arrange(diced(Random(1), kept=["After"]), "none", None, *configured(name))
        arrange(diced(Random(1), kept=["Before"]), "none", None, *configured(name))  # it repeats itself
    arrange(diced(Random(1), kept=["After"]), "none", None, *configured("hybrid"))


@pytest.mark.parametrize(("protocol", "log", "sinks"), REFUSED)
def test_what_cannot_be_promised_is_refused(protocol, log, sinks):
    with pytest.raises(UsageError, match="loses rows: use `log=persistent`"):
        configured(protocol, log=log, sinks=sinks)
    for name in ("partial", "recompute"):
        with pytest.raises(UsageError, match="does not commit checkpoints"):
            configured(name, sinks="committed")
    with pytest.raises(UsageError, match="not deterministic"):
        arrange(diced(Random(1)), "none", None, *configured("repeat"))


@pytest.mark.soak
@pytest.mark.parametrize(("protocol", "log", "sinks"), TABLE)
def test_the_table_holds_in_thousands_of_schedules(protocol, log, sinks):
    soak(100, 2_100, lambda seed: check(protocol, log, sinks, seed))
    if log == "volatile":
        soak(100, 2_100, lambda seed: missing(protocol, seed))
    if protocol != "repeat":
        soak(100, 2_100, lambda seed: consistent(protocol, log, sinks, seed))
