"""What is known in closed form, against simulation and against the exact solution of the Markov chain."""

from math import factorial

import numpy as np
import pytest
from tests.san.markov import solve
from tests.san.networks import all_closed_forms, bounded_queue, queue, repair_shop, tandem

from riprap.base.errors import UsageError
from riprap.san.compiled import compile_network
from riprap.san.formalism import (
    Activity,
    ActivityCase,
    InputGate,
    Network,
    SanPlace,
    deterministic,
    exponential,
    time_averaged,
)
from riprap.san.generator import keys
from riprap.san.simulate import SimulatedSpan
from riprap.san.statistics import estimate

# One process for all tests that use the same networks: each is compiled once.
pytestmark = pytest.mark.xdist_group("san-networks")


def mm1_length(load: float) -> float:
    return load / (1 - load)


def mmc_length(arrival: float, service: float, servers: int) -> float:
    """Erlang's C."""
    offered = arrival / service
    load = offered / servers
    waiting = offered**servers / factorial(servers) / (1 - load)
    idle = 1 / (sum(offered**k / factorial(k) for k in range(servers)) + waiting)
    return waiting * idle * load / (1 - load) + offered


def machines_up(machines: int, crews: int, failure: float, repair: float) -> float:
    """Birth and death over the number of machines down."""
    weights = [1.0]
    for down in range(machines):
        weights.append(weights[-1] * (machines - down) * failure / (min(down + 1, crews) * repair))
    return sum((machines - down) * weight for down, weight in enumerate(weights)) / sum(weights)


@pytest.fixture(scope="module")
def simulated():
    compiled = compile_network(all_closed_forms())
    rows = compiled.run_many(keys(11, 0, 40), SimulatedSpan(25_000.0, 500.0)).rewards
    return {reward.name: estimate(rows[:, k], 0.9999) for k, reward in enumerate(compiled.network.rewards)}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("one.length", mm1_length(0.6)),
        ("one.empty", 0.4),
        ("three.length", mmc_length(0.6, 1.0, 3)),
        ("row.first", mm1_length(0.5)),
        ("row.second", mm1_length(0.5 / 0.8)),
    ],
)
def test_simulation_of_queues(simulated, name, expected):
    assert simulated[name].low <= expected <= simulated[name].high
    assert simulated[name].half_width < 0.05 * expected


def test_machine_repair_simulated_and_exact(simulated):
    expected = machines_up(5, 2, 0.2, 1.0)
    assert solve(repair_shop(5, 2))["working"] == pytest.approx(expected, rel=1e-9)
    assert simulated["shop.working"].low <= expected <= simulated["shop.working"].high


@pytest.mark.parametrize("servers", [1, 2, 3])
def test_exact_queues(servers):
    network = bounded_queue(servers, 200)
    expected = mm1_length(0.6) if servers == 1 else mmc_length(0.6, 1.0, servers)
    solution = solve(network)
    assert solution["length"] == pytest.approx(expected, rel=1e-9)
    assert solution["served"] == pytest.approx(0.6, rel=1e-9)


def test_exact_availability_over_time():
    """A machine that fails at rate f and is repaired at rate r: its mean availability over [0, T] is known."""
    machine = Network(
        "machine",
        (SanPlace("up", 1),),
        (
            Activity("fail", exponential("f"), {"up": 1}),
            Activity("mend", exponential("r"), gates=(InputGate("up == 0"),), cases=(ActivityCase(outputs={"up": 1}),)),
        ),
        (time_averaged("availability", "up"),),
        parameters={"f": 0.1, "r": 1.5},
    )
    f, r, horizon = 0.1, 1.5, 7.0
    transient = f / (f + r) ** 2 / horizon * (1 - np.exp(-(f + r) * horizon))
    assert solve(machine)["availability"] == pytest.approx(r / (f + r), rel=1e-12)
    assert solve(machine, horizon)["availability"] == pytest.approx(r / (f + r) + transient, rel=1e-9)


def test_exact_follows_instantaneous_activities_and_cases():
    """Routing by chance: a third of what is served at rate 1 comes back at once."""
    network = Network(
        "feedback",
        (SanPlace("work"), SanPlace("served")),
        (
            Activity(
                "arrive", exponential(0.3), gates=(InputGate("work < 60"),), cases=(ActivityCase(outputs={"work": 1}),)
            ),
            Activity("serve", exponential(1.0), {"work": 1}, cases=(ActivityCase(outputs={"served": 1}),)),
            Activity("route", None, {"served": 1}, cases=(ActivityCase(1 / 3, {"work": 1}), ActivityCase(2 / 3))),
        ),
        (time_averaged("length", "work"),),
    )
    assert solve(network)["length"] == pytest.approx(mm1_length(0.45), rel=1e-6)


def test_exact_needs_exponential_delays():
    network = Network("fixed", (SanPlace("a", 1),), (Activity("go", deterministic(1.0), {"a": 1}),))
    with pytest.raises(UsageError, match="activity go is deterministic"):
        solve(network)


def test_exact_refuses_to_explore_without_end(monkeypatch):
    monkeypatch.setattr("tests.san.markov.MOST_STATES", 50)
    with pytest.raises(UsageError, match="more than 50 states"):
        solve(queue(1))
    with pytest.raises(UsageError, match="more than 50 states"):
        solve(tandem())
