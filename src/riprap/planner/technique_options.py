"""The techniques that each operator of an app can have, with price, recovery and damage: the problem of `protect`.

                       without replay                           with replay
    none               state is lost, input has a gap           a stateless operator loses nothing
    checkpoint (τ)     state is up to τ old, input has a gap    nothing is lost; up to τ of input is replayed

Input is replayed if all operators upstream are backups; that of a source always is. A source is never behind a gap, but
its output is late for consumers that merge it with other streams. An operator that is no backup is exact only at a
sink.
"""

from collections.abc import Mapping, Sequence

from riprap.base.quantities import Duration
from riprap.graph.graph import Graph
from riprap.graph.specs import OperatorSpec, Sink, Source
from riprap.planner.assessment_file import LOST
from riprap.planner.costs import Cost
from riprap.planner.measured import Measured
from riprap.planner.protection_problem import FailureCase, OperatorChoices, ProtectionProblem, TechniqueOption
from riprap.planner.recovery_times import recovery_time
from riprap.planner.sink_effects import CURRENT, NOTHING_WRONG, AssessedEffects, SinkEffect
from riprap.planner.slo import Prices, Slo

INTERVALS = tuple(Duration(seconds * 1_000_000) for seconds in (1, 2, 5, 10))
DEFAULT_INTERVAL = Duration(1_000_000)  # of an exact element whose operators ask for none
GUARANTEED = 2  # level: the 95th percentile
_BILLION = 1_000_000_000
_HOURS_A_MONTH = 730.0
_KEPT_CHECKPOINTS = 3
_KEPT_SECONDS = 10.0  # of a persistent stream, before its readers' checkpoints let it be trimmed


def technique_problem(
    graph: Graph,
    measured: Measured,
    effects: AssessedEffects,
    slo: Slo,
    *,
    speed: float = 1.0,
    intervals: Sequence[Duration] = INTERVALS,
    worst: bool = False,
) -> ProtectionProblem:
    """`worst`: plans guarantee the worst case of each recovery, not its 95th percentile."""
    sinks = frozenset(sink.name for sink in graph.sinks)
    operators = {}
    for name in graph.order:
        spec = graph[name]
        reached = (graph.reachable(name) | {name}) & sinks
        options = [_option(graph, measured, effects, spec, None, speed, slo.rates, worst)]
        if any(spec.stateful) and "checkpoint" in measured.operators[name].techniques:
            options += [_option(graph, measured, effects, spec, every, speed, slo.rates, worst) for every in intervals]
        backup = measured.operators[name].techniques.get("backup")
        price = None if backup is None else _price(backup, slo.rates, backup.written * _KEPT_SECONDS)
        operators[name] = OperatorChoices(name, graph.upstream(name), reached, tuple(options), price)
    feedback = frozenset(stream.source for stream in graph.streams if stream.feedback is not None)
    return ProtectionProblem(
        graph.name,
        operators,
        {name: slo.of(name) for name in sorted(sinks)},
        slo.unavailable,
        int(slo.between_failures),
        tuple(frozenset(names) for names in slo.sets if isinstance(names, tuple)),
        "host" in slo.sets,
        must=feedback,
    )


def running_price(measured: Measured, prices: Prices) -> int:
    """The price of the app without protection, for an hour, in billionths."""
    return sum(_price(entry.running, prices, 0.0) for entry in measured.operators.values())


def late_consumers(graph: Graph, name: str) -> bool:
    """Whether an operator downstream merges its output with streams that go on while it is down."""
    behind = graph.reachable(name)
    merging = [other for other in behind - {name} if len(graph.inputs(other)) > 1]
    return any(set(graph.upstream(other)) - behind for other in merging)


def damage(
    graph: Graph, effects: AssessedEffects, operator: str, sink: str, *, interval: Duration | None, replayed: bool,
    outage: float, speed: float, level: int,
) -> SinkEffect:  # fmt: skip
    """What one failure does to a sink. `interval`: between its checkpoints; `outage`: microseconds."""
    spec = graph[operator]
    lasted = round(outage * speed)
    if replayed:
        if isinstance(spec, Sink) or not late_consumers(graph, operator):
            return NOTHING_WRONG
        return effects.of(operator, CURRENT, lasted, sink, level)
    age = CURRENT if not any(spec.stateful) else LOST if interval is None else Duration(round(interval * speed))
    if age not in (CURRENT, LOST) and level == 0:
        age = CURRENT  # a checkpoint may have just been taken
    return effects.of(operator, age, lasted, sink, level)


def scaled(cost: Cost, every: float, interval: Duration) -> Cost:
    """The cost of checkpoints with another interval: of memory it is the same."""
    times = every * 1e6 / interval
    return Cost(cost.cores * times, cost.memory, cost.written * times, cost.sent * times)


def _option(
    graph: Graph, measured: Measured, effects: AssessedEffects, spec: OperatorSpec, interval: Duration | None,
    speed: float, prices: Prices, worst: bool,
) -> TechniqueOption:  # fmt: skip
    entry = measured.operators[spec.name]
    price = 0
    if interval is not None:
        cost = scaled(entry.techniques["checkpoint"], measured.every, interval)
        price = _price(cost, prices, _KEPT_CHECKPOINTS * entry.state)
    reached = (graph.reachable(spec.name) | {spec.name}) & {sink.name for sink in graph.sinks}
    cases: dict[tuple[bool, bool], FailureCase] = {}
    for replayed in (True,) if isinstance(spec, Source) else (False, True):
        if replayed and interval is None and any(spec.stateful):
            continue
        every = interval if interval is not None or not replayed else DEFAULT_INTERVAL
        time = recovery_time(measured, spec.name, every, replayed=replayed, speed=speed)
        guaranteed = time.worst if worst else time.high
        found: dict[str, SinkEffect] = {
            sink: damage(
                graph, effects, spec.name, sink, interval=interval, replayed=replayed, outage=guaranteed, speed=speed,
                level=GUARANTEED,
            )
            for sink in sorted(reached)
        }  # fmt: skip
        for backup in (False, True):
            exact = replayed and (backup or isinstance(spec, Sink))
            hurt = {} if exact else {sink: effect for sink, effect in found.items() if effect != NOTHING_WRONG}
            cases[replayed, backup] = FailureCase(guaranteed, time.middle, hurt, exact)
    return TechniqueOption("none" if interval is None else "checkpoint", interval, price, cases)


def _price(cost: Cost, prices: Prices, stored: float) -> int:
    """For an hour, in billionths. `stored`: bytes."""
    hour = (
        cost.cores * prices.core_hour
        + cost.memory / 1e9 * prices.memory_gb_hour
        + cost.written * 3600 / 1e9 * prices.gb_written
        + cost.sent * 3600 / 1e9 * prices.gb_sent
        + stored / 1e9 * prices.gb_stored_month / _HOURS_A_MONTH
    )
    return round(hour * _BILLION)


def uniform(problem: ProtectionProblem) -> Mapping[str, ProtectionProblem]:
    """The problem restricted to plans that give every operator the same technique, by name."""
    from dataclasses import replace

    found = {}
    kinds = sorted(
        {option.interval for entry in problem.operators.values() for option in entry.options if option.interval}
    )
    for every in (None, *kinds):
        for backups in (False, True):
            operators = {}
            for name, entry in problem.operators.items():
                options = tuple(option for option in entry.options if option.interval == every) or entry.options[:1]
                kept = tuple(
                    replace(option, cases={key: case for key, case in option.cases.items()
                                           if key[1] == (backups and entry.backup is not None)})
                    for option in options
                )  # fmt: skip
                operators[name] = replace(entry, options=kept)
            words = ["nothing" if every is None else f"checkpoints every {every / 1e6:g} s", "backups"]
            title = words[0] if not backups else words[1] if every is None else " and ".join(words)
            found[title] = replace(problem, operators=operators)
    return found
