"""Crashes of the yield model: repeatable, true to a crash made by hand, and worse without a checkpoint."""

import numpy as np
import pytest

from riprap.apps import fab
from riprap.apps.yield_prediction import MODEL, SINK
from riprap.base.errors import UsageError
from riprap.engine.engine import Engine
from riprap.graph.order_keys import OrderKey
from riprap_papers.experiments import yield_crashes
from riprap_papers.experiments.yield_crashes import (
    CHECKPOINT_US,
    OUTAGE_US,
    SCENARIOS,
    ModelCrash,
    YieldQuality,
    crashes,
    recorded,
    study,
)

LOTS, SEED = 30, 2
END_US = fab.START_US + LOTS * fab.WAFERS_PER_LOT * fab.WAFER_US


@pytest.fixture(scope="module")
def record():
    return recorded(SEED, LOTS)


@pytest.fixture(scope="module")
def found(record):
    return study(record, crashes(SEED, 6, LOTS))


def by_hand(record, crash, scenario):
    """The crash as a host would make it: save every second, kill, leave out the outage, restore and go on."""
    graph = record.graph
    engine, model_streams = Engine(graph, graph.reachable(MODEL)), {s.id for s in graph.inputs(MODEL)}
    fresh = engine.operators[MODEL].snapshot()
    sink = []

    def feed(start, stop, skipping=frozenset()):
        for name, batch in record.streams.items():
            if name not in skipping:
                sink.extend(engine.push(name, yield_crashes._between(batch, start, stop)))
        for name in record.streams:
            sink.extend(engine.advance(name, OrderKey(stop, -1, 0)))

    at = fab.START_US
    saved = fresh
    while at + CHECKPOINT_US <= crash.at:
        feed(at, at + CHECKPOINT_US)
        at += CHECKPOINT_US
        saved = engine.operators[MODEL].snapshot()
    feed(at, crash.at)
    feed(crash.at, crash.over, skipping=model_streams)
    engine.operators[MODEL].restore([saved if scenario == "S2" else fresh])
    feed(crash.over, 2**62)
    batches = [event for name, event in sink if name == SINK]
    wafers, qm = (np.concatenate([b.column(c).to_numpy() for b in batches]) for c in ("wafer", "qm"))
    order = np.argsort(wafers)
    return YieldQuality(wafers[order], qm[order])


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize(("seconds", "outage"), [(300.4, 4.2), (61.0, 2.0), (0.0, 3.0)])
def test_a_run_is_what_a_host_would_do(record, scenario, seconds, outage):
    crash = ModelCrash(fab.START_US + round(seconds * 1e6), round(outage * 1e6))
    mine, other = record.run(crash, scenario), by_hand(record, crash, scenario)
    kept = np.isin(other.wafers, mine.wafers)  # a run on the engine leaves out what came long before the crash
    assert (mine.wafers == other.wafers[kept]).all()
    assert (mine.qm == other.qm[kept]).all()
    due = record.golden.wafers[record.predicted_at >= crash.at]
    assert np.isin(other.wafers[~kept], due).sum() == 0
    before = record.predicted_at < crash.at
    assert (other.qm[: before.sum()] == record.golden.qm[before]).all()  # what was predicted before is as it was


def test_crashes_follow_from_the_seed():
    assert crashes(1, 40) == crashes(1, 40)
    assert crashes(1, 40) != crashes(2, 40)
    for crash in crashes(5, 200, LOTS):
        assert fab.START_US <= crash.at < END_US
        assert OUTAGE_US[0] <= crash.outage < OUTAGE_US[1]
    with pytest.raises(UsageError, match="0 crashes"):
        crashes(1, 0)


def test_a_study_is_repeatable(record, found):
    again = study(recorded(SEED, LOTS), found.crashes[:2])
    for scenario in SCENARIOS:
        for mine, other in zip(again.outcomes[scenario], found.outcomes[scenario], strict=False):
            assert (mine.errors == other.errors).all()
            assert mine.missing == other.missing


def test_without_a_fault_nothing_differs(record):
    same = study(record, crashes(SEED, 3, LOTS), run=lambda crash, scenario: record.golden)
    for scenario in SCENARIOS:
        assert same.rmse(scenario) == 0.0
        assert all(outcome.missing == 0 for outcome in same.outcomes[scenario])


def test_the_checkpoint_is_worth_it(found):
    assert 0.0 < found.rmse("S2") < found.rmse("S3") / 2
    assert found.errors("S2")[-1] < found.errors("S3")[-1]
    for with_it, without in zip(found.outcomes["S2"], found.outcomes["S3"], strict=True):
        assert with_it.rmse <= without.rmse
        assert with_it.missing == without.missing


def test_only_wafers_of_the_outage_are_missing(record, found):
    for crash, lost, outcome in zip(found.crashes, found.lost, found.outcomes["S2"], strict=True):
        during = (record.predicted_at >= crash.at) & (record.predicted_at < crash.over)
        assert outcome.missing == during.sum() <= lost
        assert outcome.missing + len(outcome.errors) == (record.predicted_at >= crash.at).sum()


def test_the_cdf_rises_from_0_to_1(found):
    at = np.geomspace(1e-6, 100.0, 50)
    for scenario in SCENARIOS:
        shares = found.cdf(scenario, at)
        assert (np.diff(shares) >= 0).all()
        assert shares[0] >= 0.0
        assert shares[-1] == 1.0
        middle = float(np.median(found.errors(scenario)))
        assert found.cdf(scenario, np.array([middle]))[0] >= 0.5
