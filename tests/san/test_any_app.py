"""Models of apps whose windows end by time or by punctuation, and of replicas on hosts."""

import pyarrow as pa
import pytest

from riprap.engine.profile import profile
from riprap.graph.builder import App
from riprap.graph.windows import punctuated, session_window, time
from riprap.san.streaming.describe import STATELESS_RATIO, describe
from riprap.san.streaming.failures import Faults, ModelHost
from riprap.san.streaming.scenario import AVAILABILITY, ModelProtection, ModelScenario

SECOND = 1_000_000
SIZE = 6_000
RATE = 100


def modelled(shape):
    app = App("any")
    shape(app.source("S", "k string, x long")).sink("Out")
    graph = app.build()
    # Bursts of nine seconds, with a silence of two: the last tuple of each closes every session.
    moments = [(i * SECOND // RATE) + (i // (9 * RATE)) * 2 * SECOND for i in range(SIZE)]
    rows = {
        "k": pa.array([f"k{i % 5}" for i in range(SIZE)]),
        "x": pa.array([i % 900 for i in range(SIZE)], pa.int64()),
        "_ts": pa.array(moments, pa.timestamp("us", "UTC")),
        "_seq": pa.array(range(SIZE), pa.int64()),
    }
    batch = pa.record_batch(rows)
    measured = profile(graph, {"S": [batch.slice(at, 250) for at in range(0, SIZE, 250)]})
    return describe(graph, measured), measured


@pytest.mark.parametrize(
    ("window", "least"), [(time("10s"), 500), (session_window("1s"), 500), (punctuated(), 500)], ids=str
)
def test_windows_that_are_empty_at_times_have_state_and_emit_as_measured(window, least):
    def shape(source):
        source = source.punctuate("x = 899", name="Marked") if window == punctuated() else source
        return source.aggregate("sum(x) AS x", window=window, by="k", name="Sums")

    application, measured = modelled(shape)
    port = application.by_name["Sums"].inputs[0]
    assert port.state >= least, "of some 900 tuples at a time"
    emitted = measured.operators["Sums"].tuples_out[0] / measured.seconds
    assert application.rates["Out", 0] == pytest.approx(emitted, rel=0.2)
    assert application.rates["Out", 0] > 0


def test_what_drops_tuples_drops_fewer_tainted_ones_and_what_passes_all_passes_all():
    application, _ = modelled(lambda source: source.filter("x < 450", name="Half").select("k", "x", name="All"))
    half, everything = (application.by_name[name].inputs[0] for name in ("Half", "All"))
    assert half.mean(0, tainted=True) == pytest.approx(STATELESS_RATIO * half.mean(0)) != half.mean(0)
    assert everything.mean(0, tainted=True) == everything.mean(0) == 1.0


def test_second_replicas_die_with_their_host():
    application, _ = modelled(lambda source: source.filter("x < 450", name="Half"))
    group = ModelProtection("ha-group", ("Half",), {"failover": 0.1})
    hosts = (ModelHost("left", ("Half",), 0.02),)

    def down(*protections):
        scenario = ModelScenario(application, protections, Faults(recovery=5.0, hosts=hosts), 500.0)
        job = scenario.job(seed=3)
        return 1.0 - dict(zip(job.names, job.rows(0, 100).mean(axis=0), strict=True))[AVAILABILITY]

    replicated = ModelScenario(application, (group,), Faults(hosts=hosts), 1.0).deployment()
    assert [(name, rate, len(own)) for name, rate, own in replicated.machines(hosts)] == [
        ("left", 0.02, 1), ("left_1", 0.02, 1)
    ]  # fmt: skip
    alone = down()
    assert alone == pytest.approx(0.1 / 1.1, rel=0.1), "five seconds of every 55"
    both = (0.1 / 1.1) ** 2  # of the time neither replica is there, and a moment for each fail-over
    assert both < down(group) < alone / 3
