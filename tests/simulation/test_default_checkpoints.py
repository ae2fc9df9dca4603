"""What is exactly once is saved without being asked to: logs and recoveries do not grow with the history."""

from random import Random

import pytest
from tests.simulation.schedules import MILLISECOND, bounded, rows, simulated

from riprap.graph.annotations import backup, checkpoint
from riprap.graph.builder import App
from riprap.graph.windows import count
from riprap.protocols.channels import ChannelId
from riprap.protocols.partial import RETAINED
from riprap.runtime.layout import arrange
from riprap.testing.simulation import Crash, Simulation

EVERY = 20 * MILLISECOND
RATE = 2_000.0  # rows/s
LOG = ChannelId("S→A")


def graph(*protect):
    app = App("long")
    source = app.source("S", "k string, x long, id long", protect=backup())
    sums = source.aggregate("sum(x) AS x", window=count(7), by="k", name="A", protect=(backup(), *protect))
    sums.sink("Sink")
    return app.build()


class Watched(Simulation):
    """Notes how many rows that A had had each of its lives reads again."""

    def _start_incarnation(self, pe, *more):
        super()._start_incarnation(pe, *more)
        if pe.id == "A":
            life = self.incarnations["A"]
            self.again.append(life.ledger.inputs[LOG].received - life.element.replay_from(LOG)[1])


def simulation(made, number, crashes=()):
    layout = arrange(made, "none", settings={"interval": EVERY})
    Watched.again = []
    return Watched(layout, rows(made, Random(number), number), seed=1, crashes=crashes, rate=RATE, batch_rows=16)


def kept(run):
    """Rows of the log between source and aggregate that may still be asked for."""
    messages = run.log(LOG).stable[run.released.get(LOG, 0) :]
    return sum(message.items for message in messages)


def most():
    """Rows between the oldest checkpoint that is kept and now, with an interval for what waits and one to spare."""
    return int((RETAINED + 3) * EVERY / 1e6 * RATE)


@pytest.mark.parametrize("number", [1_000, 4_000])
def test_the_log_of_a_long_run_stays_bounded(number):
    run = simulation(graph(), number)
    run.run(until=int(number / RATE * 1e6 * 0.9))
    assert run.log(LOG).next > number * 0.4
    assert kept(run) <= most()


def test_a_recovery_reads_what_came_since_the_last_checkpoint_and_not_the_history():
    number, made = 4_000, graph()
    late = int(number / RATE * 1e6 * 0.45)
    run = simulation(made, number, (Crash(late, "A", 5 * MILLISECOND),))
    run.run()
    assert 0 < run.again[-1] <= most()
    assert simulated(run) == bounded(made, run.inputs)


def test_what_is_switched_off_reads_all_of_it_again_and_keeps_its_log():
    number, made = 2_000, graph(checkpoint("off"))
    late = int(number / RATE * 1e6 * 0.45)
    run = simulation(made, number, (Crash(late, "A", 5 * MILLISECOND),))
    run.run()
    assert run.again[-1] > number * 0.4
    assert LOG not in run.released
    assert simulated(run) == bounded(made, run.inputs)
