"""Damage at sinks, against a run of the whole app without the rows that the failure loses."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from riprap.base.quantities import LONGEST, Duration
from riprap.engine.engine import Engine
from riprap.engine.inputs import keyed
from riprap.faults.harm_ranks import SECTIONS
from riprap.faults.sink_damage import CURRENT, LOST, DamageSettings, sink_damage
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.windows import count, time

ROWS, STEP = 4_000, 5_000  # microseconds between rows: 20 s in all
OUTAGE, WINDOW = Duration(500_000), Duration(2_000_000)


def app() -> Graph:
    made = App("damage")
    clean = made.source("In", "k long not null, x long not null").filter("x >= 0", name="Clean")
    clean.aggregate("sum(x) AS s", window=time("1s"), every=count(1), by="k", name="Sums").sink("Out")
    return made.build()


def rows() -> pa.Table:
    draws = np.random.Generator(np.random.Philox(3))
    return pa.table({
        "_ts": pa.array(np.arange(ROWS) * STEP, pa.int64()),
        "k": draws.integers(0, 5, ROWS),
        "x": draws.integers(0, 100, ROWS),
    })  # fmt: skip


def output(table: pa.Table) -> dict[tuple[int, int], int]:
    """By `_ts` and key."""
    graph, found = app(), {}
    feed = keyed(table.to_batches(), graph.sources[0])
    for each in Engine(graph).run({"In": feed}):
        if isinstance(each.event, pa.RecordBatch):
            batch = each.event
            times = batch.column("_ts").cast(pa.int64()).to_pylist()
            found |= dict(zip(zip(times, batch["k"].to_pylist(), strict=True), batch["s"].to_pylist(), strict=True))
    return found


@pytest.fixture(scope="module")
def assessed(tmp_path_factory):
    place: Path = tmp_path_factory.mktemp("damage")
    pq.write_table(rows(), place / "in.parquet")
    settings = DamageSettings([OUTAGE], [Duration(1_000_000)], {"Out": WINDOW}, offsets=1)
    table, unknown, standing = sink_damage(app(), {"In": place / "in.parquet"}, settings, place / "recorded")
    assert not unknown
    return table, standing


@pytest.fixture(scope="module")
def damaged(assessed):
    return assessed[0]


def test_lost_input_does_what_a_run_without_these_rows_shows(damaged):
    since = round(0.25 * (ROWS - 1) * STEP)
    since = -(-since // STEP) * STEP  # the first row from there on
    table = rows()
    times = table["_ts"].to_numpy()
    golden, faulty = output(table), output(table.filter(pa.array((times < since) | (times >= since + OUTAGE))))
    within = [key for key in golden if since <= key[0] <= since + WINDOW]
    differing = [key for key in golden if faulty.get(key) != golden[key]]
    assert set(golden) >= set(faulty)
    wrong, lasts, _ = damaged["Sums"][CURRENT][0][1]["Out"][1]
    assert wrong == pytest.approx(1_000_000 * sum(key in set(within) for key in differing) / len(within), rel=0.02)
    assert lasts == pytest.approx(max(key[0] for key in differing) - since, abs=STEP)
    assert damaged["Clean"][CURRENT] == damaged["Sums"][CURRENT]  # nothing is between them


def test_the_metrics_of_a_trial_are_those_of_a_run_without_its_rows(assessed):
    since = round(0.25 * (ROWS - 1) * STEP)
    since = -(-since // STEP) * STEP
    table = rows()
    times = table["_ts"].to_numpy()
    golden, faulty = output(table), output(table.filter(pa.array((times < since) | (times >= since + OUTAGE))))
    width = WINDOW // SECTIONS
    sums = np.zeros((2, SECTIONS))
    for number, rows_ in enumerate((faulty, golden)):
        for (at, _), value in rows_.items():
            if since <= at <= since + WINDOW:
                sums[number, min((at - since) // width, SECTIONS - 1)] += value
    error = np.abs(sums[0] - sums[1]) / sums[1]
    wrong = np.flatnonzero(error > 0.03)
    until = wrong[int(np.ceil(0.9 * len(wrong))) - 1]
    clean = next(one for one in assessed[1].metrics if one.operator == "Clean")
    assert (clean.sink, clean.R) == ("Out", (until + 1) * width)
    assert pytest.approx((error[wrong[wrong <= until]] ** 2).sum(), rel=1e-6) == clean.I
    assert set(assessed[1].ranks) == set(app().order)


def test_the_more_state_is_lost_the_more_is_wrong(damaged):
    harm = {age: levels[0][1]["Out"][1] for age, levels in damaged["Sums"].items()}
    assert harm[CURRENT][0] <= harm[Duration(1_000_000)][0] <= harm[LOST][0]
    assert harm[LOST][2] < harm[CURRENT][2]  # the score
    assert harm[LOST][1] < LONGEST  # a window of a second heals


def test_a_sink_misses_its_own_rows_and_nothing_else(damaged):
    wrong, lasts, score = damaged["Out"][CURRENT][0][1]["Out"][1]
    assert wrong == pytest.approx(1_000_000 * OUTAGE / WINDOW, rel=0.02)
    assert 0 < lasts <= OUTAGE
    assert score < 1_000_000
