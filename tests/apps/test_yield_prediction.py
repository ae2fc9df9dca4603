"""Yield prediction: the data, the model under the contract, and the whole app against a model fitted by hand."""

import numpy as np
import pyarrow as pa
import pytest

from riprap.apps import fab
from riprap.apps.samples import sample_inputs
from riprap.apps.yield_prediction import FEATURES, MODEL, SINK, YieldModel, build
from riprap.base.errors import UsageError
from riprap.engine.engine import Engine
from riprap.engine.inputs import keyed, read_file
from riprap.testing.checker import check_operator

LOTS = 8
GRAPH = build()


@pytest.fixture(scope="module")
def tables():
    return fab.generate(LOTS, seed=3)


@pytest.fixture(scope="module")
def ran(tables):
    """What the sink was given, and what reached the model."""
    seen = {0: [], 1: []}

    def watch(name, port, batch):
        if name == MODEL:
            seen[port].append(batch)

    inputs = {source.name: keyed(tables[source.name].to_batches(), source) for source in GRAPH.sources}
    outputs = [event for name, event in Engine(GRAPH, watch=watch).run(inputs) if name == SINK]
    return pa.Table.from_batches(outputs), [pa.Table.from_batches(seen[port]) for port in (0, 1)]


def test_data_follows_from_the_seed_and_is_in_order(tables):
    again, other = fab.generate(LOTS, seed=3), fab.generate(LOTS, seed=4)
    for name, table in tables.items():
        assert table.equals(again[name])
        assert not table.equals(other[name])
        assert table.schema == fab.SCHEMAS[name]
        assert (np.diff(table["_ts"].cast(pa.int64()).to_numpy()) >= 0).all()
    assert sum(table.num_rows for table in tables.values()) == LOTS * fab.TUPLES_PER_LOT
    assert fab.lots_for(LOTS * fab.TUPLES_PER_LOT) == LOTS
    with pytest.raises(UsageError, match="0 lots"):
        fab.generate(0, seed=1)


def test_yields_are_plausible(tables):
    yields = fab.generate(fab.LOTS, seed=1)["Probe"]["yield"].to_numpy()
    assert yields.min() >= 0.0
    assert yields.max() <= 100.0
    assert 75.0 < yields.mean() < 95.0
    assert 3.0 < yields.std() < 12.0
    readings = tables["Etch"]["power"].to_numpy()
    assert 0.002 < (readings == fab.NONSENSE).mean() < 0.03


def test_every_wafer_is_predicted_before_it_is_tested(tables, ran):
    sink, (features, examples) = ran
    wafers = LOTS * fab.WAFERS_PER_LOT
    assert sorted(sink["wafer"].to_pylist()) == list(range(wafers))
    assert features.num_rows == examples.num_rows == wafers
    predicted = dict(zip(features["wafer"].to_pylist(), features["_ts"].to_pylist(), strict=True))
    tested = dict(zip(tables["Probe"]["wafer"].to_pylist(), tables["Probe"]["_ts"].to_pylist(), strict=True))
    assert all(predicted[wafer] < tested[wafer] for wafer in range(wafers))
    np.testing.assert_allclose(
        sink["qm"].to_numpy(), sink["predicted"].to_numpy() - sink["yield"].to_numpy(), rtol=0, atol=0
    )


def test_features_are_averages_without_the_nonsense(tables, ran):
    _, (features, _) = ran
    readings = tables["Etch"].to_pandas()
    power = next(sensor for sensor in fab.SENSORS if sensor.name == "power")
    sound = readings[readings["power"] != fab.NONSENSE].groupby("wafer")["power"].mean()
    expected = (sound[features["wafer"].to_numpy()] - power.nominal) / power.tolerance
    np.testing.assert_allclose(features["power"].to_numpy(), expected, rtol=1e-9, atol=1e-9)


def test_predictions_are_those_of_weighted_least_squares(ran):
    """Against a fit from all examples that came before, each weighed by its age, done anew for every prediction."""
    sink, (features, examples) = ran
    options = dict(GRAPH[MODEL].options)

    def terms(table):
        x = np.stack([table[name].to_numpy() for name in FEATURES], axis=1)
        return np.hstack([np.ones((len(x), 1)), x, x**2])

    known, targets = terms(examples), examples["yield"].to_numpy() - options["expected"]
    learned_at = examples["_ts"].cast(pa.int64()).to_numpy()
    found = dict(zip(sink["wafer"].to_pylist(), sink["predicted"].to_pylist(), strict=True))
    asked_at = features["_ts"].cast(pa.int64()).to_numpy()
    for row, (wafer, x) in enumerate(zip(features["wafer"].to_pylist(), terms(features), strict=True)):
        count = int((learned_at < asked_at[row]).sum())
        root = np.sqrt((1.0 - 1.0 / options["memory"]) ** np.arange(count)[::-1])[:, None]
        width = known.shape[1]
        left = np.vstack([root * known[:count], np.sqrt(options["ridge"]) * np.eye(width)])
        right = np.concatenate([root[:, 0] * targets[:count], np.zeros(width)])
        fit = np.linalg.lstsq(left, right, rcond=None)[0]
        assert found[wafer] == pytest.approx(np.clip(options["expected"] + x @ fit, 0, 100), abs=1e-5)


def test_the_model_keeps_the_contract(ran):
    _, inputs = ran
    head = [table.slice(0, 60).combine_chunks().to_batches()[0] for table in inputs]
    check_operator(GRAPH, MODEL, head, rounds=12)


def test_a_model_without_examples_says_what_is_expected():
    model = YieldModel(("x",), expected=85.0, memory=10.0, ridge=1.0)
    (rows,) = model.process(0, pa.record_batch({"wafer": [1, 2], "x": [3.0, -4.0]}))
    assert rows.batch["predicted"].to_pylist() == [85.0, 85.0]


def test_samples_fit_the_app(tmp_path):
    paths = sample_inputs(GRAPH, 2 * fab.TUPLES_PER_LOT, 1, tmp_path)
    assert set(paths) == {"Deposition", "Lithography", "Etch", "Probe"}
    engine = Engine(GRAPH)
    outputs = engine.run({source.name: keyed(read_file(paths[source.name]), source) for source in GRAPH.sources})
    assert sum(output.event.num_rows for output in outputs) == 2 * fab.WAFERS_PER_LOT
