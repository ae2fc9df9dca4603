"""`profile --costs`: what each technique takes, measured by running an app without it and with it.

from riprap.api.cost_profile import cost_profile
found = cost_profile("bargain-discovery", {"Source": "market.parquet"}, rate=20_000, seconds=5)
found.operators["Aggregator"].techniques["ha_group"].cores    # of one replica more
found.totals()["checkpoint"].written                          # bytes/s, all operators
found.as_toml()                                               # the section of a profile that `plan --budget` reads

One run without protection, then one for each technique, with every operator that can have it protected so and each in
an element of its own. What an element took is told by its process (`runtime/spending.py`). An operator's cost is what
the elements that run it took more than the one did without protection: where its streams are persistent, reading them
again is counted at the operator that does. Under full replication sources run once, and send to every copy: that is
counted at them. What the driver and Spark themselves take is not counted.
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
    skipped: Mapping[str, str]  # techniques that the app cannot have, and why

    def totals(self) -> dict[str, Cost]:
        """By technique, over all operators; `running`: without any."""
        found = {"running": Cost()}
        for costs in self.operators.values():
            found["running"] = found["running"].plus(costs.running)
            for name, cost in costs.techniques.items():
                found[name] = found.get(name, Cost()).plus(cost)
        return found

    def as_toml(self) -> str:
        return write_costs(self.operators, seconds=self.seconds, rate=self.rate)

    def as_json(self) -> dict[str, Any]:
        told = {
            name: {what: cost._asdict() for what, cost in {"running": costs.running, **costs.techniques}.items()}
            for name, costs in self.operators.items()
        }
        totals = {name: cost._asdict() for name, cost in self.totals().items()}
        settings = {"seconds": self.seconds, "rate": self.rate, "every": EVERY / 1e6}
        return {**settings, "operators": told, "totals": totals, "skipped": dict(self.skipped)}


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
    """`say` is told what is measured next."""
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
    given = inputs() if callable(inputs) else inputs
    most = max(len(arrange(graph, "none").pes) for graph in (bare, *protected.values()))
    spark = hosting_session(most, spark, master=master)

    def measured(graph: Graph, name: str, folder: Path) -> dict[str, Cost]:
        say(name)
        result = run(graph, given, out=folder / name, fuse="none", rate=rate, seconds=seconds, spark=spark)
        return by_operator(graph, result.summary["costs"])

    with scratch("costs") as directory:
        running = measured(bare, "running", directory)
        taken = {name: measured(graph, name, directory) for name, graph in protected.items()}
    operators = {}
    for name, cost in running.items():
        if not isinstance(bare[name], Sink):
            having = [t for t, graph in protected.items() if t == "copies" or graph[name].annotations != Annotations()]
            techniques = {t: taken[t][name].beyond(cost) for t in having if name in taken[t]}
            operators[name] = OperatorCosts(cost, techniques, EVERY)
    return CostProfile(seconds, rate, operators, skipped)


def by_operator(graph: Graph, costs: Mapping[str, Mapping[str, float]]) -> dict[str, Cost]:
    """What the elements of each operator took together, where each runs in elements of its own."""
    found: dict[str, Cost] = {}
    for pe in arrange(graph, "none").pes:
        if pe.id in costs:
            name = pe.fragment.members[0]
            found[name] = found.get(name, Cost()).plus(Cost(**costs[pe.id]))
    return found


def with_technique(graph: Graph, technique: str) -> Graph:
    """Every operator that can have it has it; raises where none can."""
    if technique == "copies":
        return copied(graph, 2)
    groups = _connected(graph) if technique == "ha_group" else {}
    some = False
    for spec in graph.operators:
        asked = _annotations(spec, technique, groups)
        some = some or asked != Annotations()
        graph = graph.with_operator(replace(spec, annotations=asked))
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
    """Operators but sinks, by the first of those that streams connect: an HA group each."""
    inner = [spec.name for spec in graph.operators if not isinstance(spec, Sink)]
    group = {name: name for name in inner}
    for stream in graph.streams:
        if {stream.source, stream.target} <= set(inner):
            old, new = group[stream.target], group[stream.source]
            group = {name: new if of == old else of for name, of in group.items()}
    return group


def _plain(graph: Graph) -> Graph:
    """Without protection of its own."""
    for spec in graph.operators:
        graph = graph.with_operator(replace(spec, annotations=Annotations()))
    return graph
