"""`profile --costs`: the cost of each technique, measured by running an app without and with it.

from riprap.api.cost_profile import cost_profile
found = cost_profile("bargain-discovery", {"Source": "market.parquet"}, rate=20_000, seconds=5)
found.operators["Aggregator"].techniques["ha_group"].cores    # of one more replica
found.totals()["checkpoint"].written                          # bytes/s, all operators
found.as_toml()                                               # the section of a profile that `plan --budget` reads

The app runs once without protection, then once for each technique, which is applied to every operator that can have it.
Every operator runs in its own element, whose process reports its costs (`runtime/spending.py`). The cost of a technique
at an operator is what the operator's elements cost more than its element without protection. Replaying a persistent
stream counts at the operator that reads it. Under full replication sources run once and send to every copy, which
counts at the sources. The driver and Spark itself are not counted.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from riprap.api.run import Inputs, run
from riprap.apps.catalogue import load_app
from riprap.base.errors import RiprapError, UsageError
from riprap.base.quantities import Duration
from riprap.base.scratch import scratch
from riprap.graph.annotations import Annotations, HaGroup
from riprap.graph.graph import Graph
from riprap.graph.ha_groups import copied
from riprap.graph.specs import OperatorSpec, Sink
from riprap.planner.costs import TECHNIQUES, Cost, OperatorCosts, write_costs
from riprap.runtime.layout import arrange
from riprap.spark.session import hosting_session

EVERY = Duration(1_000_000)  # between checkpoints


@dataclass(frozen=True)
class CostProfile:
    seconds: float
    rate: float
    operators: Mapping[str, OperatorCosts]
    skipped: Mapping[str, str]  # techniques that cannot be applied to the app, and why

    def totals(self) -> dict[str, Cost]:
        """By technique, over all operators; `running`: without protection."""
        totals = {"running": Cost()}
        for costs in self.operators.values():
            totals["running"] = totals["running"].plus(costs.running)
            for name, cost in costs.techniques.items():
                totals[name] = totals.get(name, Cost()).plus(cost)
        return totals

    def as_toml(self) -> str:
        return write_costs(self.operators, seconds=self.seconds, rate=self.rate)

    def as_json(self) -> dict[str, Any]:
        operators = {
            name: {what: cost._asdict() for what, cost in {"running": costs.running, **costs.techniques}.items()}
            for name, costs in self.operators.items()
        }
        totals = {name: cost._asdict() for name, cost in self.totals().items()}
        settings = {"seconds": self.seconds, "rate": self.rate, "every": EVERY / 1e6}
        return {**settings, "operators": operators, "totals": totals, "skipped": dict(self.skipped)}


def cost_profile(
    app: str | Graph,
    inputs: Inputs | Callable[[], Inputs],
    *,
    rate: float = 20_000.0,
    seconds: float = 5.0,
    spark: Any = None,
    master: str | None = None,
    say: Callable[[str], None] = lambda text: None,
    warn: Callable[[str], None] = lambda text: None,
) -> CostProfile:
    """`say` is called with what is measured next."""
    if not 0 < rate < 1e9 or not 0 < seconds < 1e6:
        raise UsageError(f"rate={rate} and seconds={seconds}: both must be more than 0")
    bare = _plain(load_app(app) if isinstance(app, str) else app)
    protected: dict[str, Graph] = {}
    skipped: dict[str, str] = {}
    for technique in TECHNIQUES:
        try:
            protected[technique] = with_technique(bare, technique)
            arrange(protected[technique], "none")
        except RiprapError as error:
            protected.pop(technique, None)
            skipped[technique] = str(error)
            warn(f"{technique} is not measured: {error}")
    input_files = inputs() if callable(inputs) else inputs
    most = max(len(arrange(graph, "none").pes) for graph in (bare, *protected.values()))
    spark = hosting_session(most, spark, master=master)

    def measured(graph: Graph, name: str, folder: Path) -> dict[str, Cost]:
        say(name)
        result = run(graph, input_files, out=folder / name, fuse="none", rate=rate, seconds=seconds, spark=spark)
        return by_operator(graph, result.summary["costs"])

    with scratch("costs") as directory:
        running = measured(bare, "running", directory)
        measured_costs = {name: measured(graph, name, directory) for name, graph in protected.items()}
    operators = {}
    for name, cost in running.items():
        if not isinstance(bare[name], Sink):
            having = [t for t, graph in protected.items() if t == "copies" or graph[name].annotations != Annotations()]
            techniques = {t: measured_costs[t][name].beyond(cost) for t in having if name in measured_costs[t]}
            operators[name] = OperatorCosts(cost, techniques, EVERY)
    return CostProfile(seconds, rate, operators, skipped)


def by_operator(graph: Graph, costs: Mapping[str, Mapping[str, float]]) -> dict[str, Cost]:
    """The cost of each operator, summed over its elements, which run no other operator."""
    by_name: dict[str, Cost] = {}
    for pe in arrange(graph, "none").pes:
        if pe.id in costs:
            name = pe.fragment.members[0]
            by_name[name] = by_name.get(name, Cost()).plus(Cost(**costs[pe.id]))
    return by_name


def with_technique(graph: Graph, technique: str) -> Graph:
    """The graph with the technique applied to every operator that can have it; raises if none can."""
    if technique == "copies":
        return copied(graph, 2)
    groups = _connected(graph) if technique == "ha_group" else {}
    some = False
    for spec in graph.operators:
        annotations = _annotations(spec, technique, groups)
        some = some or annotations != Annotations()
        graph = graph.with_operator(replace(spec, annotations=annotations))
    if not some:
        raise UsageError(f"no operator of {graph.name} can have it")
    return graph


def _annotations(spec: OperatorSpec, technique: str, groups: Mapping[str, str]) -> Annotations:
    if technique == "checkpoint" and any(spec.stateful):
        return Annotations(checkpoint_every=EVERY)
    if technique == "backup" and not isinstance(spec, Sink):
        return Annotations(backup=True)
    if technique == "ha_group" and spec.name in groups:
        return Annotations(ha_group=HaGroup(groups[spec.name], 2))
    return Annotations()


def _connected(graph: Graph) -> dict[str, str]:
    """The HA group of each operator except sinks: connected operators share a group, named after the first of them."""
    inner = [spec.name for spec in graph.operators if not isinstance(spec, Sink)]
    group = {name: name for name in inner}
    for stream in graph.streams:
        if {stream.source, stream.target} <= set(inner):
            old, new = group[stream.target], group[stream.source]
            group = {name: new if of == old else of for name, of in group.items()}
    return group


def _plain(graph: Graph) -> Graph:
    """Without any protection."""
    for spec in graph.operators:
        graph = graph.with_operator(replace(spec, annotations=Annotations()))
    return graph
