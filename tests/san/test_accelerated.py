"""The accelerated simulator against the network of activities: means and variances of every metric, on a grid of
models.

The tests are two-sided at 4.5 standard errors with fixed seeds: they fail for a difference of a few per mille in the
means, and do not fail by chance.
"""

import numpy as np
import pytest
from tests.san.interpreter import interpret

from riprap.san.compiled import compile_network
from riprap.san.generator import key
from riprap.san.simulate import SimulatedSpan
from riprap.san.streaming.application import Application, ModelStream
from riprap.san.streaming.deployment import GroupInterpretation
from riprap.san.streaming.failures import Faults, ModelHost
from riprap.san.streaming.scenario import ModelProtection, ModelScenario
from riprap.san.streaming.template import build
from riprap_papers.san import operator_kinds as kinds

STANDARD_ERRORS = 4.5
STATE = {"state": 60, "penalty": 0.1, "staleness": 0.5, "taint": 0.15}


def diamond(rate: float, selectivity: float = 0.4) -> Application:
    """source → filter → (aggregate → join port 0, join port 1) → sink: both kinds of state, and a stateless port."""
    return Application(
        "diamond",
        (
            kinds.source("source", rate, 1e-6),
            kinds.functor("filter", 1e-6, selectivity, selectivity + 0.1),
            kinds.aggregate("aggregate", kinds.port(1e-6, 0.9, 0.95, **STATE)),
            kinds.join("join", kinds.port(1e-6, 0.0, **STATE), kinds.port(1e-6, 0.5, 0.8)),
            kinds.sink("sink", 1e-6),
        ),
        (
            ModelStream("source", "filter"),
            ModelStream("filter", "aggregate"),
            ModelStream("aggregate", "join", input=0),
            ModelStream("source", "join", input=1),
            ModelStream("join", "sink"),
        ),
    )


def chain(rate: float) -> Application:
    """source → filter → aggregate → sink: what groups and copies need, and no more."""
    return Application(
        "chain",
        (
            kinds.source("source", rate, 1e-6),
            kinds.functor("filter", 1e-6, 0.7, 0.8),
            kinds.aggregate("aggregate", kinds.port(1e-6, 0.9, 0.95, **STATE)),
            kinds.sink("sink", 1e-6),
        ),
        (ModelStream("source", "filter"), ModelStream("filter", "aggregate"), ModelStream("aggregate", "sink")),
    )


def mixture(rate: float) -> Application:
    """A Poisson source, a split and a union into a state that gets clean and tainted tuples at once, a time trigger,
    two
    sinks, and selectivities above one."""
    return Application(
        "mixture",
        (
            kinds.source("source", rate, 1e-6, poisson=True),
            kinds.split("split", 1e-6, 0.5, 0.3),
            kinds.aggregate("left", kinds.port(1e-6, 1.3, 1.5, **STATE)),
            kinds.union("union", 1e-6),
            kinds.aggregate_every("window", 0.5, kinds.port(1e-6, 0.0, **STATE), 1e-6),
            kinds.punctor("punctor", 1e-6, 0.9, 0.2),
            kinds.sink("sink", 1e-6),
            kinds.sink("marks", 1e-6),
        ),
        (
            ModelStream("source", "split"),
            ModelStream("split", "left", output=0),
            ModelStream("left", "union"),
            ModelStream("split", "union", output=1),
            ModelStream("union", "window"),
            ModelStream("union", "punctor"),
            ModelStream("window", "sink"),
            ModelStream("punctor", "sink", output=0),
            ModelStream("punctor", "marks", output=1),
        ),
    )


def medley(rate: float) -> Application:
    """Much of the two above in one network, as compiling one takes long: a Poisson source, a split, a selectivity above
    one, both kinds of state, a stateless port, a time trigger."""
    return Application(
        "medley",
        (
            kinds.source("source", rate, 1e-6, poisson=True),
            kinds.split("split", 1e-6, 0.5, 0.3),
            kinds.aggregate("aggregate", kinds.port(1e-6, 1.3, 1.5, **STATE)),
            kinds.join("join", kinds.port(1e-6, 0.0, **STATE), kinds.port(1e-6, 0.5, 0.8)),
            kinds.aggregate_every("window", 0.5, kinds.port(1e-6, 0.0, **STATE), 1e-6),
            kinds.sink("sink", 1e-6),
        ),
        (
            ModelStream("source", "split"),
            ModelStream("split", "aggregate", output=0),
            ModelStream("aggregate", "join", input=0),
            ModelStream("split", "join", output=1, input=1),
            ModelStream("join", "window"),
            ModelStream("window", "sink"),
        ),
    )


def fork(rate: float) -> Application:
    """The least that has a Poisson source, a split, and a join with state on one port and none on the other."""
    return Application(
        "fork",
        (
            kinds.source("source", rate, 1e-6, poisson=True),
            kinds.split("split", 1e-6, 0.5, 0.3),
            kinds.join("join", kinds.port(1e-6, 0.3, **STATE), kinds.port(1e-6, 0.5, 0.8)),
            kinds.sink("sink", 1e-6),
        ),
        (
            ModelStream("source", "split"),
            ModelStream("split", "join", output=0, input=0),
            ModelStream("split", "join", output=1, input=1),
            ModelStream("join", "sink"),
        ),
    )


CHECKPOINTS = (ModelProtection("checkpoint", ("aggregate", "join")),)
GROUPS = (
    ModelProtection("checkpoint", ("join",)),
    ModelProtection("ha-group", ("filter", "aggregate"), {"failover": 0.7}),
)
COPIES = (ModelProtection("full-replication", ("filter", "aggregate", "join"), {"punctuation": 4.0}),)
GROUP = (ModelProtection("ha-group", ("filter", "aggregate"), {"failover": 0.7}),)
TWO = (ModelProtection("full-replication", ("aggregate",), {"punctuation": 4.0}),)
HOSTS = (ModelHost("host", ("aggregate", "window"), 0.01),)
GRID = {
    "fork": ModelScenario(
        fork(50.0), (ModelProtection("checkpoint", ("join",)),), Faults(0.01, 0.02, recovery=2.0), 80.0
    ),
    "medley": ModelScenario(medley(50.0), CHECKPOINTS, Faults(0.01, 0.02, recovery=2.0, hosts=HOSTS), 80.0),
    "medley, scratch": ModelScenario(medley(40.0), (), Faults(0.01, 0.01, recovery=2.0, hosts=HOSTS), 80.0),
    "checkpoint, rare": ModelScenario(diamond(40.0), CHECKPOINTS, Faults(0.002, 0.002, recovery=3.0), 150.0),
    "checkpoint, frequent": ModelScenario(diamond(60.0, 0.7), CHECKPOINTS, Faults(0.02, 0.02, recovery=2.0), 100.0),
    "scratch": ModelScenario(diamond(50.0), (), Faults(0.01, 0.01, recovery=2.0), 100.0),
    "a group": ModelScenario(chain(60.0), GROUP, Faults(0.04, 0.01, recovery=4.0), 80.0),
    "two copies": ModelScenario(chain(50.0), TWO, Faults(sdc_rate=0.02), 60.0),
    "groups, rare": ModelScenario(diamond(40.0), GROUPS, Faults(0.005, 0.002, recovery=3.0), 100.0),
    "groups, frequent": ModelScenario(diamond(60.0, 0.7), GROUPS, Faults(0.04, 0.01, recovery=4.0), 80.0),
    "groups, standby counts and fills up rightly": ModelScenario(
        diamond(60.0, 0.7), GROUPS, Faults(0.04, 0.01, recovery=4.0), 80.0, GroupInterpretation(True, False)
    ),
    "copies": ModelScenario(diamond(50.0), COPIES, Faults(sdc_rate=0.02), 60.0),
    "mixture": ModelScenario(
        mixture(40.0), (), Faults(0.01, 0.02, recovery=2.0, hosts=(ModelHost("host", ("left", "window"), 0.01),)), 80.0
    ),
}


FEW = ("a group",)  # networks take half a minute to compile: of those, a small one is in every run


@pytest.mark.parametrize("case", FEW)
def test_same_means_and_variances(case):
    assert_same(GRID[case])


@pytest.mark.soak
@pytest.mark.parametrize("case", [case for case in GRID if case not in FEW])
def test_same_means_and_variances_of_the_others(case):
    assert_same(GRID[case])


@pytest.mark.soak
def test_same_means_and_variances_when_copies_crash():
    assert_same(ModelScenario(diamond(50.0), COPIES, Faults(0.01, 0.02, recovery=2.0), 60.0))


def assert_same(scenario: ModelScenario) -> None:
    tokens = scenario.job("tokens", seed=21).rows(0, 1200)
    fast = scenario.job("accelerated", seed=22).rows(0, 4000)
    for column, name in enumerate(scenario.job().names):
        a, b = tokens[:, column], fast[:, column]
        if a.std() == b.std() == 0.0:
            assert a[0] == b[0], name
            continue
        error = np.sqrt(a.var() / len(a) + b.var() / len(b))
        assert abs(a.mean() - b.mean()) < STANDARD_ERRORS * error + 1e-9, f"{name}: means {a.mean():g} and {b.mean():g}"
        spread = np.sqrt(variance_error(a) ** 2 + variance_error(b) ** 2)
        assert abs(a.var() - b.var()) < STANDARD_ERRORS * spread, f"{name}: variances {a.var():g} and {b.var():g}"


def variance_error(values: np.ndarray) -> float:
    """Standard error of a sample variance, whatever the distribution."""
    centred = values - values.mean()
    return float(np.sqrt((np.mean(centred**4) - values.var() ** 2) / len(values)))


def test_templates_run_alike_interpreted_and_compiled():
    assert_alike(GRID["a group"])


def assert_alike(scenario: ModelScenario) -> None:
    network = build(scenario.deployment(), scenario.faults)
    expected = interpret(network, key(4, 0), SimulatedSpan(3.0))
    found = compile_network(network).run(key(4, 0), SimulatedSpan(3.0), trace=100_000)
    assert expected.events > 500
    np.testing.assert_array_equal(found.activities, expected.activities)
    np.testing.assert_array_equal(found.times, expected.times)
    np.testing.assert_array_equal(found.rewards, expected.rewards)


@pytest.mark.parametrize(("crash_rate", "recovery", "rate"), [(0.002, 2.0, 40.0), (0.004, 3.5, 200.0)])
def test_groups_are_more_available_than_nothing(crash_rate, recovery, rate):
    """A standby replica that refills harms nobody. Were it counted, groups would come out below no protection."""
    inner, faults = ("filter", "aggregate", "join"), Faults(crash_rate, recovery=recovery)

    def availability(technique, reading):
        scenario = ModelScenario(diamond(rate), (ModelProtection(technique, inner),), faults, 300.0, reading)
        return scenario.job().rows(0, 1500)[:, 0].mean()

    nothing = availability("none", GroupInterpretation())
    assert availability("ha-group", GroupInterpretation()) > nothing + 0.01
    assert availability("ha-group", GroupInterpretation(standby_counts=True)) < nothing


def test_without_faults_everything_is_available_and_nothing_tainted():
    for case in ("checkpoint, rare", "copies"):
        scenario = GRID[case].fault_free()
        rows = scenario.job().rows(0, 20)
        assert (rows[:, :2] == 1.0).all()
        assert (rows[:, 3] == 0.0).all()


def test_a_replication_does_not_depend_on_its_neighbours():
    job = GRID["groups, frequent"].job(seed=3)
    np.testing.assert_array_equal(job.rows(0, 30)[10:20], job.rows(10, 10))
