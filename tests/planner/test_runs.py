"""Whatever plan is written for a random app, `run` and `prove` can run; and what cannot be planned is refused."""

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest
from tests.random_apps import FURTHER
from tests.simulation.schedules import BUILD, any_app, cyclic_app

from riprap.api.recovery_plan import plan_recovery
from riprap.base.errors import GraphError, PlanError
from riprap.base.quantities import Duration
from riprap.faults.operator_advice import OperatorAdvice
from riprap.faults.protected import proposed_plan
from riprap.graph.annotations import Annotations, HaGroup, continuous, retain
from riprap.graph.graph import Graph
from riprap.graph.ha_groups import copied
from riprap.graph.plan_file import Plan, parse_plan, write_plan
from riprap.graph.specs import Aggregate, Join, Sink
from riprap.operators.user import Rows, UserOperator
from riprap.planner.assessment_file import LOST, AssessedApp, OperatorImpact, RecoveryTimes
from riprap.planner.budget import Budget
from riprap.planner.costs import Cost, OperatorCosts
from riprap.planner.from_graph import plan_with_protection, problem_of
from riprap.planner.tradeoff import tradeoff
from riprap.runtime.planned import wrong_with

SECOND = 1_000_000
REQUESTS = ("bound", "budget", "verdicts")


class _Own(UserOperator):
    """A user's own operator, which bears no loss."""

    tolerates_loss = False

    def output_schemas(self, inputs):
        return [inputs[0]]

    def process(self, port, batch):
        return [Rows(batch)]


class _Dice(_Own):
    tolerates_loss, deterministic = True, False


OWN = {
    "own": lambda random, pick, name: [*pick().apply(_Own, name=name)],
    "dice": lambda random, pick, name: [*pick().apply(_Dice, name=name)],
}


def app(random: Random) -> Graph:
    """With shards, and with protection in its code, or in copies."""
    graph = cyclic_app(random) if random.random() < 0.3 else any_app(random, BUILD | FURTHER | OWN)
    for name in random.sample(graph.order, min(2, len(graph.order))):
        with suppress(GraphError):  # its state is not divided by a key
            sharded = graph.with_operator(replace(graph[name], parallelism=2))
            graph = sharded if random.random() < 0.3 else graph
    with suppress(GraphError):  # one is not deterministic
        if random.random() < 0.05:
            return copied(graph, 2)
    for spec in graph:
        if random.random() < 0.3:
            graph = graph.with_operator(replace(graph[spec.name], annotations=_annotations(spec, random)))
    return graph


def _annotations(spec, random):
    if isinstance(spec, Sink):
        return Annotations(stability="fsync")
    kept = Annotations(backup=True, stability=random.choice([None, "fsync"]))
    if isinstance(spec, Aggregate | Join) and random.random() < 0.4:
        return continuous(recovery="1s")
    group = Annotations(ha_group=HaGroup(spec.name, 2))
    saved = Annotations(checkpoint_every=Duration(SECOND))
    return random.choice([kept, kept, saved, Annotations(persist=frozenset([0])), retain("while-down"), group])


def bound(graph: Graph, random: Random) -> Plan:
    limit = random.choice(["1s", "2s", "5s"])
    kept = [name for name in graph.order if random.random() < 0.1]
    return parse_plan(plan_recovery(graph, limit, latency="900ms", must=kept).text)


def budget(graph: Graph, random: Random) -> Plan:
    def number(most):
        return random.choice([0.0, random.uniform(0, most)])

    operators, costs = {}, {}
    for spec in graph:
        rows = {Duration(0): ((Duration(SECOND), number(5)),), LOST: ((Duration(SECOND), number(50)),)}
        if random.random() < 0.9:
            operators[spec.name] = OperatorImpact(number(3), rows, state=number(1e6))
        if not isinstance(spec, Sink):
            measured = {t: Cost(*(number(1) for _ in range(4))) for t in ("checkpoint", "backup", "ha_group")}
            costs[spec.name] = OperatorCosts(Cost(), measured, Duration(SECOND))
    settings = RecoveryTimes(intervals=(Duration(SECOND),), replicas=random.choice([2, 3]))
    asked = problem_of(graph, AssessedApp(graph.name, operators, settings, costs))
    limit = random.choice([None, Duration(SECOND), Duration(3 * SECOND)])
    steps = tradeoff(asked, Budget(number(4), random.choice([None, number(4)]), None, limit)).steps
    return plan_with_protection(graph, random.choice(steps).protection, settings.replicas)


def verdicts(graph: Graph, random: Random) -> Plan:
    found = {}
    for name in graph.order:
        advice = random.choice(["restart", "checkpoint", "replicate"])
        near = {name, *graph.upstream(name), *graph.downstream(name)} - {sink.name for sink in graph.sinks}
        group = tuple(one for one in graph.order if one in near) if advice == "replicate" else ()
        found[name] = OperatorAdvice(advice, "", group)
    return proposed_plan(graph, found)


def written(seed: int) -> str:
    """What became of a request: the kind of it where a plan was written, else "refused"."""
    random = Random(f"plans {seed}")
    graph = app(random)
    request = random.choice(REQUESTS)
    try:
        plan = {"bound": bound, "budget": budget, "verdicts": verdicts}[request](graph, random)
    except PlanError:
        return "refused"
    wrong = wrong_with(graph, parse_plan(write_plan(plan)))
    assert not wrong, f"written({seed}) of {__name__}, {request}: {wrong}\n{write_plan(plan)}"
    return request


@pytest.mark.parametrize("seeds", [range(at, at + 50) for at in range(0, 300, 50)], ids=str)
def test_what_is_written_runs(seeds):
    counts = Counter(written(seed) for seed in seeds)
    assert all(counts[request] > 5 for request in REQUESTS), counts


@pytest.mark.soak
def test_what_is_written_runs_in_many_more_apps():
    for seed in range(300, 6_000):
        written(seed)
