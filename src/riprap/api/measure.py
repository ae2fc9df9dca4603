"""`measure`: what the operators of an app do, how they recover, and what each technique costs, from short real runs.

found = riprap.measure("bargain-discovery", {"Source": "market.parquet"})
found.operators["Aggregator"].state       # bytes, at its peak
found.operators["Aggregator"].restart     # seconds: the 5th, 50th and 95th percentile
found.error                               # of the cost model, over the runs that checked it

One run in this process finds rates, selectivity and state. Then the app runs as real processes: without protection;
with checkpoints; with backups; under mixed plans, which check the model of costs; and once more, while elements are
killed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from riprap.api.cost_profile import by_operator
from riprap.api.kill_runs import FUSE, Counting, PlannedKill, run_with_kills
from riprap.api.replayed_inputs import ReplayedInputs, replayed
from riprap.api.run import run
from riprap.base import files
from riprap.base.errors import CheckFailed
from riprap.base.quantities import Duration
from riprap.engine.inputs import keyed, read_file
from riprap.engine.profile import Profile, profile
from riprap.graph.annotations import Annotations
from riprap.graph.graph import Graph
from riprap.graph.plan_file import Plan, write_plan
from riprap.graph.specs import Sink
from riprap.planner.cost_model import CostRun, calibrated, total_error
from riprap.planner.costs import Cost
from riprap.planner.measured import NO_COST, Measured, MeasuredOperator, Quantiles
from riprap.planner.recovery_times import fitted
from riprap.planner.technique_options import scaled
from riprap.proof.kill_outcomes import KillOutcome
from riprap.runtime.planned import planned_layout
from riprap.spark.session import hosting_session

EVERY = Duration(1_000_000)  # between the measured checkpoints
SECONDS = 5.0  # of a run for costs
KILLS = 8
_SETTLE, _BETWEEN = 2.5, 2.2  # seconds before the first kill, and between kills
_FITTED = 2  # runs that the model is always calibrated on
_ROWS = 512  # of a batch, so that the peak of the state is seen
_READ = 2e-6  # seconds to read a row from a persistent stream, on top of processing it
_RESTORE = 5e7  # bytes/s, where no state was large enough to measure it
_DURABLE = (0.005, 0.02, 0.08)  # seconds, where nothing was written
_FLOOR = Cost(0.005, 2e6, 20_000.0, 20_000.0)  # below this a resource costs nothing that matters
_FAILOVER = Quantiles(0.05, 0.2, 1.0)

Say = Callable[[str, float], None]  # what is measured next, and the seconds that are left


@dataclass(frozen=True)
class Measurements:
    """Everything that was measured, with the samples that corrections start from."""

    measured: Measured
    outcomes: tuple[KillOutcome, ...]
    checks: tuple[tuple[str, Cost, Cost], ...] = ()  # plan, predicted and measured cost


def measure_app(
    graph: Graph, replay: ReplayedInputs, directory: Path, *, spark: Any = None, master: str | None = None,
    kills: int = KILLS, seconds: float = SECONDS, checks: bool = True, say: Say = lambda what, left: None,
    warn: Callable[[str], None] = lambda text: None,
) -> Measurements:  # fmt: skip
    """`directory` must be new or empty; the files of its runs are removed."""
    graph = bare(graph)
    stateful = [spec.name for spec in graph if any(spec.stateful)]
    logged = [spec.name for spec in graph if not isinstance(spec, Sink)]
    plans = {"checkpoints": _plan(graph, stateful, (), EVERY)} if stateful else {}
    plans["backups"] = _plan(graph, stateful, logged, EVERY)
    plans["nothing"] = Plan(graph.name, {})  # not first: what the first run leaves warm would be for free
    if checks:
        plans["a mix (1)"] = _plan(graph, stateful, logged[::2], Duration(2 * EVERY))
        plans["a mix (2)"] = _plan(graph, stateful[::2], logged[1::2], EVERY)
        plans["a mix (3)"] = _plan(graph, stateful, logged[: len(logged) // 2], Duration(5 * EVERY))
    each = seconds + 3.0
    killing = _SETTLE + kills * _BETWEEN + 5.0
    left = 2.0 + len(plans) * each + killing

    def tell(what: str, takes: float) -> None:
        nonlocal left
        say(what, left)
        left -= takes

    tell("one run in this process", 2.0)
    seen = _profiled(graph, replay)
    elements = max(len(planned_layout(graph, plan, FUSE).pes) for plan in plans.values())
    spark = hosting_session(elements, spark, master=master)
    costs: dict[str, dict[str, Cost]] = {}
    for number, (name, plan) in enumerate(plans.items()):
        tell(f"with {name}" if name != "nothing" else "without protection", each)
        files.make(directory)
        files.remove_tree(directory / f"cost-{number}")
        files.write_text(directory / "plan.toml", write_plan(plan))
        result = run(
            graph, replay.run, out=directory / f"cost-{number}", plan=directory / "plan.toml", fuse=FUSE,
            rate=dict(replay.rates), seconds=min(seconds, replay.seconds), spark=spark, warn=warn,
        )  # fmt: skip
        costs[name] = by_operator(plan.apply(graph), result.summary["costs"])
        files.remove_tree(directory / f"cost-{number}")
    tell("recoveries, by killing elements", killing)
    outcomes = killed(graph, plans["backups"], replay, directory, kills, spark=spark, warn=warn)
    files.unlink(directory / "plan.toml", missing_ok=True)
    state = {name: float(row.peak_bytes) for name, row in seen.operators.items()}
    runs = [CostRun(plans[name], found) for name, found in costs.items() if name != "nothing"]
    model = calibrated(graph, costs["nothing"], runs, state)
    techniques = model.techniques(EVERY / 1e6)
    operators = {
        spec.name: _operator(
            spec.name, seen, replay.speed, costs["nothing"].get(spec.name, NO_COST),
            techniques[spec.name],
        )
        for spec in graph
    }  # fmt: skip
    measured = Measured(
        graph.name, replay.seconds * replay.speed, EVERY / 1e6, *(Quantiles(*_DURABLE),) * 2, _FAILOVER, operators
    )
    measured = with_samples(measured, outcomes)
    compared = tuple(_checked(graph, costs["nothing"], runs, state))
    if compared:
        errors = [total_error(before, after, _FLOOR) for _, before, after in compared]
        measured = replace(measured, error=Cost(*(median(part) for part in zip(*errors, strict=True))))
    return Measurements(measured, tuple(outcomes), compared)


def killed(
    graph: Graph, plan: Plan, replay: ReplayedInputs, directory: Path, kills: int, *, spark: Any,
    warn: Callable[[str], None] = lambda text: None,
) -> list[KillOutcome]:  # fmt: skip
    """Kills elements in turn, in as many runs as it takes."""
    names = [spec.name for spec in graph]
    step = max(1, len(names) // max(kills, 1))
    waiting = [names[(number * step + number // len(names)) % len(names)] for number in range(kills)]
    done: list[KillOutcome] = []
    counting = Counting({sink.name: Duration(1) for sink in graph.sinks}, {})
    for attempt in range(2 + kills):
        room = max(int((replay.seconds - _SETTLE - 2.0) // _BETWEEN), 1)
        now = [PlannedKill(name, _SETTLE + at * _BETWEEN) for at, name in enumerate(waiting[:room])]
        found = run_with_kills(
            graph, plan, replay, now, directory / f"kills-{attempt}", counting, spark=spark, expected={},
            seconds=now[-1].at + 4.0, warn=warn,
        )  # fmt: skip
        files.remove_tree(directory / f"kills-{attempt}")
        recovered = [one for one in found.outcomes if one.recovery is not None]
        done += recovered
        waiting = waiting[len(recovered) :] if recovered else waiting[1:]
        if not waiting:
            break
    if not done:
        raise CheckFailed("no killed element recovered, so there is nothing to measure")
    return done


def with_samples(measured: Measured, outcomes: Sequence[KillOutcome], corrected: int = 0) -> Measured:
    """With the times of recoveries fitted to these kills."""
    back = [one for one in outcomes if one.recovery is not None]
    if not back:
        return measured
    restarts = [one.restart + one.restore for one in back]
    operators = {
        name: replace(
            entry,
            restart=fitted([one.restart + one.restore for one in back if one.operator == name], restarts),
        )
        for name, entry in measured.operators.items()
    }  # fmt: skip
    detection, resume = fitted([one.detection for one in back]), fitted([one.catch_up for one in back])
    return replace(measured, detection=detection, resume=resume, operators=operators, corrected=corrected)


def predicted_cost(measured: Measured, plan: Plan) -> Cost:
    """What a plan costs on top of the app, by the model."""
    total = NO_COST
    for name, own in plan.operators.items():
        techniques = measured.operators[name].techniques
        if own.checkpoint_every is not None and "checkpoint" in techniques:
            total = total.plus(scaled(techniques["checkpoint"], measured.every, own.checkpoint_every))
        if own.backup and "backup" in techniques:
            total = total.plus(techniques["backup"])
    return total


def extra_cost(protected: Mapping[str, Cost], running: Mapping[str, Cost]) -> Cost:
    """Measured: of all operators together, what they cost more."""
    total, without = NO_COST, NO_COST
    for name, cost in protected.items():
        total, without = total.plus(cost), without.plus(running.get(name, NO_COST))
    return total.beyond(without)


def bare(graph: Graph) -> Graph:
    """Without any protection of the code."""
    for spec in graph.operators:
        graph = graph.with_operator(replace(spec, annotations=Annotations()))
    return graph


def _plan(graph: Graph, saved: Sequence[str], logged: Sequence[str], every: Duration) -> Plan:
    operators = {
        spec.name: Annotations(every if spec.name in saved else None, backup=spec.name in logged) for spec in graph
    }
    return Plan(graph.name, {name: own for name, own in operators.items() if own != Annotations()})


def _checked(
    graph: Graph, running: Mapping[str, Cost], runs: Sequence[CostRun], state: Mapping[str, float]
) -> Iterator[tuple[str, Cost, Cost]]:
    """Each run after the second against a model that is calibrated on all others."""
    for number, one in enumerate(runs):
        others = [other for other in runs if other is not one]
        if number >= _FITTED and others:
            model = calibrated(graph, running, others, state)
            yield f"plan {number + 1}", model.of_plan(one.plan), extra_cost(one.costs, running)


def _profiled(graph: Graph, replay: ReplayedInputs) -> Profile:
    batches = {s.name: read_file(replay.run[s.name], rows=_ROWS) for s in graph.sources}
    return profile(graph, {s.name: keyed(batches[s.name], s) for s in graph.sources})


def _operator(
    name: str, seen: Profile, speed: float, running: Cost, techniques: Mapping[str, Cost]
) -> MeasuredOperator:
    row = seen.operators[name]
    rate, taken, sent = sum(row.mean_rate), sum(row.tuples_in), sum(row.tuples_out)
    return MeasuredOperator(
        rate, sent / taken if taken else 0.0, float(row.peak_bytes), Quantiles(0.3, 0.6, 1.5), _RESTORE,
        1.0 / (row.seconds_per_tuple + _READ), Quantiles(*_DURABLE), running, techniques,
        port_state=tuple(map(float, row.peak_port)),
    )  # fmt: skip


def measure_inputs(
    graph: Graph, inputs: Mapping[str, Path], out: Path, *, speed: float | None = None, **options: Any
) -> Measurements:
    """Measures in the directory `out`, which keeps nothing but what `measure` is asked to write there."""
    graph.check_runs()
    replay = replayed(graph, inputs, out / "inputs", speed=speed)
    return measure_app(graph, replay, out / "runs", **options)
