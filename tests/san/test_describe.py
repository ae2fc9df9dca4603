"""From real apps to models: description, calibration, taint tracking, and the rate at the sink."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.san.taint import spread

from riprap.apps.bargain_discovery import build
from riprap.apps.samples import cache_directory, sample_inputs
from riprap.base.errors import RiprapError
from riprap.engine.engine import Engine
from riprap.engine.inputs import keyed, read_file
from riprap.engine.profile import profile, write_profile
from riprap.graph.annotations import checkpoint
from riprap.graph.builder import App
from riprap.graph.order_keys import TS_TYPE
from riprap.graph.plan_file import parse_plan
from riprap.graph.windows import count, time
from riprap.san.streaming.calibrate import Sample, calibrate, fit, measure, windows_of
from riprap.san.streaming.describe import describe, emissions, protections, read_profile, with_rate
from riprap.san.streaming.failures import Faults
from riprap.san.streaming.scenario import ModelProtection, ModelScenario
from riprap_papers.san.published_apps import bargain_discovery

GRAPH = build()
TUPLES = 200_000


def recorded():
    path = sample_inputs(GRAPH, TUPLES, 1, cache_directory())["Source"]
    return keyed(read_file(path), GRAPH.sources[0])


@pytest.fixture(scope="module")
def measured():
    return profile(GRAPH, {"Source": recorded()})


def test_description_has_the_measured_rates_and_sizes(measured):
    application = describe(GRAPH, measured, rate=1000.0)
    assert application.rates["Aggregator", 0] == pytest.approx(200, rel=0.02)
    assert application.rates["BargainIndex", 1] == pytest.approx(800, rel=0.02)
    assert application.by_name["BargainIndex"].stateful_ports == (0,)
    assert application.by_name["Aggregator"].inputs[0].state == measured.operators["Aggregator"].state_tuples
    doubled = with_rate(application, 2000.0)
    assert doubled.rates["Sink", 0] == pytest.approx(2 * application.rates["Sink", 0])


def test_each_port_has_the_state_that_was_measured_there():
    """One tuple per key on the left and four on the right: halves would be 2.5 each."""
    app = App("ports")
    left, right = app.source("L", "k string, x long"), app.source("R", "k string, y long")
    left.join(right, on="k", left_window=count(1), right_window=count(4), name="J").sink("Out")
    graph = app.build()
    times = pa.array(range(60), pa.timestamp("us", "UTC"))
    keys, numbers = ["abc"[j % 3] for j in range(60)], pa.array(range(60), pa.int64())
    given = {
        source: [pa.record_batch({"k": keys, column: numbers, "_ts": times, "_seq": numbers})]
        for source, column in (("L", "x"), ("R", "y"))
    }
    found = profile(graph, given)
    assert found.operators["J"].port_state == (3, 12)
    assert [port.state for port in describe(graph, found).by_name["J"].inputs] == [3, 12]
    unknown = replace(found, operators={n: replace(o, port_state=(), peak_port=()) for n, o in found.operators.items()})
    assert [port.state for port in describe(graph, unknown).by_name["J"].inputs] == [7, 7]


def test_modelled_sink_rate_is_that_of_the_engine(measured):
    """At 450 tuples/s, with the published selectivities, against what the real operators make of generated data."""
    stored = sum(
        output.event.num_rows
        for output in Engine(GRAPH).run({"Source": recorded()})
        if hasattr(output.event, "num_rows")
    )
    real = stored / TUPLES * 450.0
    for application in (bargain_discovery(450.0), describe(GRAPH, measured, rate=450.0)):
        modelled = ModelScenario(application, horizon=7200.0).job().rows(0, 20)[:, 2].mean() / 7200.0
        assert modelled == pytest.approx(real, rel=0.02)


def test_profile_survives_the_file(measured, tmp_path):
    path = tmp_path / "profile.toml"
    path.write_text(write_profile(measured))
    assert read_profile(path) == measured
    path.write_text('app = "x"\nseconds = 1.0\n')
    with pytest.raises(RiprapError, match="writes one"):
        read_profile(path)


@pytest.mark.parametrize("means", [(0.3, 0.5), (1.0,), (0.9, 0.8), (2.25, 0.5), (0.0, 0.0), (1.5, 1.5, 0.2)])
def test_emissions_have_the_wanted_means(means):
    chances = emissions(means)
    assert sum(chances.values()) <= 1 + 1e-9
    for port, mean in enumerate(means):
        assert sum(chance * shape[port] for shape, chance in chances.items()) == pytest.approx(mean)


def test_time_triggers_become_timers():
    app = App("timed")
    ticks = app.source("in", "value double not null")
    ticks.aggregate("sum(value) AS total", window=time("2s"), every=time("500ms"), name="window").sink("out")
    graph = app.build()
    import pyarrow as pa

    moments = pa.array(np.arange(0, 20_000_000, 10_000), pa.timestamp("us", "UTC"))
    numbers = pa.array(np.arange(len(moments)), pa.int64())
    batch = pa.record_batch([moments, numbers, pa.array(np.ones(len(moments)))], names=["_ts", "_seq", "value"])
    application = describe(graph, profile(graph, {"in": keyed([batch], graph.sources[0])}))
    assert application.by_name["window"].timer == (1, 0.5)
    assert application.rates["out", 0] == pytest.approx(2.0, rel=0.15)


def test_plans_become_protections():
    text = """
        app = "bargain-discovery"
        [operators.Aggregator]
        checkpoint = "4s"
        ha_group = "trades"
        [operators.VWAP]
        ha_group = "trades"
        [ha_groups.trades]
        replicas = 3
    """
    planned = parse_plan(text).apply(GRAPH)
    assert protections(planned) == (
        ModelProtection("checkpoint", ("Aggregator",), {"age": 2.0}),
        ModelProtection("ha-group", ("Aggregator", "VWAP"), {"replicas": 3.0, "failover": 1.0}),
    )
    assert checkpoint("4s").checkpoint_every == 4_000_000
    assert count(2).size == 2


def test_calibration_gives_the_published_shape():
    """The published fit on the real trace: 0.035 and 1.98 for the aggregate, 0.03 and 0.41 for the join."""
    fitted = calibrate(GRAPH, {"Source": recorded()})
    aggregate, join = fitted["Aggregator", 0], fitted["BargainIndex", 0]
    assert 0.005 < aggregate.penalty < 0.1
    assert 1.4 < aggregate.staleness < 2.8
    assert 0.28 < join.staleness < 0.56
    assert aggregate.tainted_ratio == 1.0  # one output per input, whatever is in the window
    assert 1.0 < join.tainted_ratio < 1.4  # published: 10 % more


def test_fit_recovers_what_made_the_points():
    points = [Sample(lost, 0.04 * 5000 + 1.5 * lost) for lost in (10, 100, 500, 1500)]
    assert fit(points, 5000.0) == pytest.approx((0.04, 1.5))


def test_measure_counts_windows_that_lost_something():
    groups = np.arange(10_000) % 50  # round robin: so many lost in a row hit as many groups, up to all 50
    for sample in measure(groups, np.full(50, 4), 0.02, 1):
        assert sample.needed == 4 * min(50, sample.lost)


@pytest.mark.filterwarnings("error")
def test_null_is_a_group_like_any_other():
    random = np.random.default_rng(1)
    a, b = random.choice(["x", "y", None], 400), random.choice([1, 2, None], 400)
    batch = pa.record_batch({"a": pa.array(a), "b": pa.array(b), "_ts": pa.array(range(400), TS_TYPE)})
    groups, sizes = windows_of([batch.slice(0, 250), batch.slice(250)], ["a", "b"], count(7))
    numbers = {pair: len(set(groups[[p == pair for p in zip(a, b, strict=True)]])) for pair in zip(a, b, strict=True)}
    assert set(numbers.values()) == {1}
    assert len(numbers) == len(set(groups)) == len(sizes) == 9
    assert set(sizes) == {7}


def test_marks_follow_the_data_and_the_model_does_not_understate_them(measured):
    nothing = spread(GRAPH, "Source", recorded(), [])["Sink"]
    assert nothing.wrong == 0
    positions = range(1_000, 150_000, 2_000)
    real = spread(GRAPH, "Source", recorded(), positions)["Sink"]
    assert real.tuples == nothing.tuples
    assert real.wrong > len(positions) / 10, "one wrong trade makes several wrong averages"
    corrupted = Faults(sdc_rates={"Source": 0.001})
    rows = ModelScenario(describe(GRAPH, measured), (), corrupted, 10_000.0).job().rows(0, 200)
    per_fault = rows[:, 3].mean() / 10.0
    assert per_fault >= real.wrong / len(positions), (
        "the model taints whole states, so it overstates, and never the reverse"
    )


def test_marks_stop_at_operators_they_do_not_know():
    app = App("sorted")
    app.source("in", "value double not null").sort("value", window=count(10), name="order").sink("out")
    with pytest.raises(RiprapError, match="marks cannot pass sort order"):
        spread(app.build(), "in", [], [])
