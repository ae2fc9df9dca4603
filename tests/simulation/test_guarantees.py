"""The table of docs/protocols.md: what each protocol guarantees with each log and sink, held to by seeded schedules.

With volatile logs a chain of operators that give one row for each row loses no more than what the numbers of its
streams say is missing, and gives nothing twice; with persistent ones, or where rows are held, it loses nothing. Dice,
which never give out the same twice, show whether what can be seen is all of one past.
"""

from itertools import count
from random import Random

import pyarrow as pa
import pytest
from tests.simulation.schedules import bounded, crashes, other_faults, rows, simulated

from riprap.base.errors import UsageError
from riprap.graph.builder import App
from riprap.operators.user import Rows, UserOperator
from riprap.protocols.registry import REGISTRY, configured
from riprap.protocols.showing import SINKS
from riprap.runtime.coordination.counts import stream_counts
from riprap.runtime.layout import arrange
from riprap.runtime.simulation import Simulation

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


def diced(random):
    app = App("diced")
    stream = app.source("S0", "k string, x long, id long")
    if random.random() < 0.5:
        stream = stream.select("x", "id", name="Before")
    [stream] = stream.apply(Dice, name="Dice")
    if random.random() < 0.5:
        stream = stream.select("id", "before", "now", name="After")
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
    table = pa.Table.from_batches(simulation.sink("Sink")).to_pydict()
    whole = table["id"] == simulation.inputs["S0"].column("id").to_pylist()
    assert whole or not TABLE[protocol, log, sinks][0], about
    same = whole and table["before"] == [0, *table["now"][:-1]]
    assert same or not TABLE[protocol, log, sinks][1], about
    return same


@pytest.mark.parametrize(("protocol", "log", "sinks"), TABLE)
def test_the_table_holds(protocol, log, sinks):
    exact, _ = TABLE[protocol, log, sinks]
    lost = (check(protocol, log, sinks, seed) for seed in range(4 if exact else 40))  # as many as it takes
    assert any(lost) != exact
    if protocol != "repeat":
        assert all(consistent(protocol, log, sinks, seed) for seed in range(5)) == TABLE[protocol, log, sinks][1]


@pytest.mark.parametrize(("protocol", "log", "sinks"), REFUSED)
def test_what_cannot_be_promised_is_refused(protocol, log, sinks):
    with pytest.raises(UsageError, match="rows are lost: use --log persistent"):
        configured(protocol, log=log, sinks=sinks)
    for name in ("partial", "recompute"):
        with pytest.raises(UsageError, match="has no such line"):
            configured(name, sinks="committed")
    with pytest.raises(UsageError, match="not deterministic"):
        arrange(diced(Random(1)), "none", None, *configured("repeat"))


@pytest.mark.soak
@pytest.mark.parametrize(("protocol", "log", "sinks"), TABLE)
def test_the_table_holds_in_thousands_of_schedules(protocol, log, sinks):
    for seed in range(100, 2_100):
        check(protocol, log, sinks, seed)
        if protocol != "repeat":
            consistent(protocol, log, sinks, seed)
