"""Descriptions, techniques and deployments of streaming applications."""

import itertools
from dataclasses import replace

import pytest
from tests.san.interpreter import interpret

from riprap.base.errors import RiprapError
from riprap.san.generator import key
from riprap.san.simulate import SimulatedSpan
from riprap.san.streaming.application import Application, ModelStream
from riprap.san.streaming.deployment import Shock
from riprap.san.streaming.failures import Faults, ModelHost
from riprap.san.streaming.scenario import ModelProtection, ModelScenario
from riprap.san.streaming.techniques import TECHNIQUES
from riprap.san.streaming.template import build
from riprap_papers.san import operator_kinds as kinds
from riprap_papers.san.published_apps import bargain_discovery

APP = bargain_discovery(2200.0)


def chain(*inner) -> Application:
    operators = (kinds.source("in", 100.0, 1e-6), *inner, kinds.sink("out", 1e-6))
    names = [operator.name for operator in operators]
    streams = tuple(ModelStream(a, b) for a, b in itertools.pairwise(names))
    return Application("chain", operators, streams)


def test_rates_follow_selectivities():
    assert APP.rates["Aggregate", 0] == pytest.approx(440)
    assert APP.rates["Join", 1] == pytest.approx(1760)
    assert APP.rates["Sink", 0] == pytest.approx(1760 * 0.182)


def test_stabilisation_of_the_published_table():
    """Z = min(αS + βL, γS), by hand: 0.035 · 15,495 + 1.98 · 440 · 16, and the join's capped at its 3,099 tuples."""
    assert APP.by_name["Aggregate"].inputs[0].stabilisation(440 * 16) == round(0.035 * 15495 + 1.98 * 440 * 16)
    assert APP.by_name["Join"].inputs[0].stabilisation(440 * 17) == 3099
    assert APP.by_name["Join"].inputs[0].taint_stabilisation == 15


@pytest.mark.parametrize(
    ("selectivity", "expected"), [(0.0, {}), (0.25, {1: 0.25}), (1.0, {1: 1.0}), (2.5, {2: 0.5, 3: 0.5})]
)
def test_selectivity_is_a_mean(selectivity, expected):
    chances = kinds.selection(selectivity)
    assert chances == pytest.approx(expected)
    assert sum(count * chance for count, chance in chances.items()) == pytest.approx(selectivity)


def test_kinds_have_the_ports_of_their_figures():
    data = kinds.port(1e-6, 1.0, state=10)
    assert kinds.aggregate_every("a", 2.0, data, 1e-6).timer == (1, 2.0)
    assert kinds.aggregate_every("a", 2.0, data, 1e-6).inputs[0].mean(0) == 0
    assert kinds.sort("s", 20.0, data, 1e-6).outputs == 2
    punctor = kinds.punctor("p", 1e-6, 0.9, 0.1)
    assert punctor.inputs[0].mean(0) == pytest.approx(0.9)
    assert punctor.inputs[0].mean(1) == pytest.approx(0.1)
    split = kinds.split("x", 1e-6, 0.5, 0.3, 0.2)
    assert [split.inputs[0].mean(port) for port in range(3)] == pytest.approx([0.5, 0.3, 0.2])
    assert kinds.union("u", 1e-6).inputs[0].mean(0) == kinds.delay("d", 1e-6).inputs[0].mean(0) == 1
    assert kinds.barrier("b", data, data).outputs == kinds.user_defined("f", (data,)).outputs == 1


def test_every_technique_is_listed_with_its_defaults():
    assert [technique.NAME for technique in TECHNIQUES] == ["none", "checkpoint", "ha-group", "full-replication"]


def test_checkpoint_restarts_with_old_state_and_none_with_empty_state():
    faults = Faults(recovery=16.0)
    checkpointed = ModelScenario(APP, (ModelProtection("checkpoint", ("Join",)),), faults).deployment()
    assert checkpointed.instances[6].restarts[0].tainted == 3099
    assert checkpointed.instances[3].restarts[0].refill == 15_495
    undone = ModelScenario(
        APP, (ModelProtection("checkpoint", ("Join",)), ModelProtection("none", ("Join",))), faults
    ).deployment()
    assert undone.instances[6].restarts[0].refill == 3_099


def test_a_crash_reaches_stateful_ports_downstream():
    deployment = ModelScenario(APP, (), Faults(recovery=16.0)).deployment()
    z_join = round(0.03 * 3099 + 0.41 * 440 * 16)
    z_aggregate = round(0.035 * 15495 + 1.98 * 440 * 16)
    assert set(deployment.crash_shocks(0)) == {Shock(3, 0, z_aggregate), Shock(6, 0, z_join)}
    assert deployment.crash_shocks(4) == (Shock(6, 0, z_join),)
    assert deployment.crash_shocks(5) == ()  # only the join's stateless port is downstream of Filter 4


def test_a_group_hides_crashes_inside_and_passes_on_its_own_outage():
    group = ModelProtection("ha-group", ("Filter 2", "Aggregate", "Filter 3"), {"failover": 2.0})
    deployment = ModelScenario(APP, (group,), Faults(recovery=16.0)).deployment()
    filter2 = deployment.of_operator["Filter 2"][0]
    aggregates = deployment.of_operator["Aggregate"]
    assert [shock.instance for shock in deployment.crash_shocks(filter2)] == [aggregates[0]]
    join = deployment.of_operator["Join"][0]
    assert deployment.group_shocks(0) == (Shock(join, 0, round(0.03 * 3099 + 0.41 * 440 * 2)),)
    source = deployment.of_operator["Filter 1"][0]
    assert {shock.instance for shock in deployment.crash_shocks(source)} == {*aggregates, join}


def test_full_replication_connects_all_copies():
    deployment = ModelScenario(APP, (ModelProtection("full-replication", tuple(APP.by_name)),)).deployment()
    assert len(deployment.instances) == 14
    into_join = [link for link in deployment.links if link.target in deployment.of_operator["Join"]]
    assert len(into_join) == 8


def test_resources_count_instances_and_busy_cores():
    single = ModelScenario(APP).resources()
    double = ModelScenario(APP, (ModelProtection("full-replication", tuple(APP.by_name)),)).resources()
    assert single["instances"] == 8
    assert double["instances"] == 14
    assert single["busy_cores"] < double["busy_cores"] < 2 * single["busy_cores"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ModelScenario(APP, (ModelProtection("checkpoint", ("Aggregat",)),)).deployment(),
            "Aggregat.*did you mean Aggregate",
        ),
        (lambda: ModelScenario(APP, (ModelProtection("magic", ("Join",)),)).deployment(), "technique magic is unknown"),
        (
            lambda: ModelScenario(APP, (ModelProtection("checkpoint", ("Join",), {"ago": 1}),)).deployment(),
            "no setting ago",
        ),
        (
            lambda: ModelScenario(APP, (ModelProtection("ha-group", ("Join",)),) * 2).deployment(),
            "Join is replicated twice",
        ),
        (lambda: ModelScenario(APP, (), Faults(crash_rate=-1.0)).deployment(), "crash rate is -1"),
        (lambda: ModelScenario(APP, (), Faults(recovery=0.0)).deployment(), "recovery of 0 s"),
        (lambda: ModelScenario(APP, (), Faults(forced={"Nobody": 1.0})).deployment(), "Nobody"),
        (
            lambda: ModelScenario(APP, (), Faults(hosts=(ModelHost("h", ("Nobody",), 1.0),))).deployment(),
            "host h names operator Nobody",
        ),
        (lambda: ModelScenario(APP, horizon=0.0).deployment(), "positive time"),
        (lambda: chain(kinds.functor("f", -1.0, 1.0)), "processing time of -1 s"),
        (lambda: chain(kinds.functor("f", 1e-6, -0.5)), "selectivity of -0.5"),
        (lambda: chain(kinds.split("f", 1e-6, 0.7, 0.6)), "0.7, 0.6 must each be at least 0 and sum to at most 1"),
        (lambda: bargain_discovery(0.0), "must be positive"),
        (lambda: ModelScenario(chain(kinds.functor("slow", 0.02, 1.0))).job(), "slow is busy 200% of its time"),
        (
            lambda: Application(
                "loop", (kinds.union("a", 1e-6), kinds.union("b", 1e-6)), (ModelStream("a", "b"), ModelStream("b", "a"))
            ),
            "form a cycle",
        ),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(RiprapError, match=message):
        make()


def test_the_invariant_of_groups_can_fail():
    """A group that goes on with a replica that is not whole is found out, in the network as it is simulated."""
    protected = (ModelProtection("ha-group", ("f",)),)
    scenario = ModelScenario(
        chain(kinds.functor("f", 1e-6, 1.0)), protected, Faults(forced={"f": 0.5}, recovery=2.0), 3.0
    )
    network = build(scenario.deployment(), scenario.faults)
    assert interpret(network, key(1, 0), SimulatedSpan(3.0)).events > 100
    blind = [each for each in network.activities if ".deactivate" not in each.name]
    with pytest.raises(RiprapError, match=r"replica 0 of group0 is complete while it is active .* does not hold"):
        interpret(replace(network, activities=tuple(blind)), key(1, 0), SimulatedSpan(3.0))


def test_the_invariant_of_instances_can_fail():
    """A crash that forgets a tuple which is being processed is found out, and so is one that leaves streams full."""
    scenario = ModelScenario(chain(kinds.functor("f", 0.002, 1.0)), (), Faults(forced={"f": 0.5}, recovery=2.0), 3.0)
    network = build(scenario.deployment(), scenario.faults)
    assert interpret(network, key(1, 0), SimulatedSpan(3.0)).events > 100

    def forgetting(line):
        return replace(network, activities=tuple(
            replace(each, cases=tuple(replace(c, gates=tuple(
                replace(g, function="\n".join(x for x in str(g.function).split("\n") if line not in x)) for g in c.gates
            )) for c in each.cases)) if each.name == "f.die" else each
            for each in network.activities
        ))  # fmt: skip

    with pytest.raises(RiprapError, match=r"f does one thing at a time while it is alive .* does not hold"):
        interpret(forgetting("f.waiting = 0"), key(1, 0), SimulatedSpan(3.0))
