"""Builds the description of an app for models from its stream graph and profile, and protections from plans."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import floor
from pathlib import Path

from riprap.base.documents import read_toml
from riprap.base.errors import DataError, known
from riprap.base.shapes import shaped
from riprap.engine.profile import OperatorProfile, PieceProfile, Profile
from riprap.graph.graph import Graph
from riprap.graph.specs import Aggregate, OperatorSpec, Sort
from riprap.graph.windows import Time
from riprap.san.streaming.application import Application, Arrivals, ModelEmission, ModelOperator, ModelPort, ModelStream
from riprap.san.streaming.scenario import ModelProtection

_SECOND = 1_000_000  # microseconds
STATELESS_RATIO = 1.05  # of a tainted tuple's output, where an operator without state drops some; as published
_LEAST_UNTRIGGERED = 0.01  # share of the output; less is rounding


@dataclass(frozen=True)
class Stability:
    """How the state of one port recovers; see `ModelPort`. Without calibration, any loss costs the whole state."""

    penalty: float = 1.0
    staleness: float = 0.0
    cap: float = 1.0
    taint: float = 0.005  # published for both stateful operators of Bargain Discovery
    tainted_ratio: float = 1.1  # output while this state is wrong, relative to the correct output; published: 10 % more


def describe(
    graph: Graph,
    profile: Profile,
    *,
    rate: float | None = None,
    stability: Mapping[tuple[str, int], Stability] | None = None,
) -> Application:
    """The application at a total of `rate` source tuples/s, or at the recorded rates.

    A profile has the size of an operator's state, not of each port's: it is divided equally among stateful ports.
    """
    for name in profile.operators:
        if name not in graph:
            names = [operator.name for operator in graph.operators]
            raise DataError(f"the profile has operator {name}, which is not in {graph.name}: {known(names, name)}")
    for spec in graph.operators:
        if spec.name not in profile.operators:
            raise DataError(f"the profile has no operator {spec.name} of {graph.name}; profile the app again")
    recorded = sum(sum(profile.operators[source.name].mean_rate) for source in graph.sources)
    scale = 1.0 if rate is None else rate / recorded
    operators = tuple(
        _operator(spec, profile, scale, {} if stability is None else stability) for spec in graph.operators
    )
    streams = tuple(
        ModelStream(stream.source, stream.target, stream.source_port, stream.target_port) for stream in graph.streams
    )
    return Application(graph.name, operators, streams)


def _operator(
    spec: OperatorSpec, profile: Profile, scale: float, stability: Mapping[tuple[str, int], Stability]
) -> ModelOperator:
    measured = profile.operators[spec.name]
    seconds = measured.seconds_per_tuple
    if spec.kind == "source":
        port = ModelPort(seconds, (ModelEmission(1.0, (1,)),), (ModelEmission(1.0, (1,)),))
        return ModelOperator(spec.name, spec.kind, (port,), 1, Arrivals(sum(measured.mean_rate) * scale))
    if spec.kind == "sink":
        return ModelOperator(spec.name, spec.kind, (ModelPort(seconds, (), ()),), 0)
    period = spec.every.size / _SECOND if isinstance(spec, Aggregate) and isinstance(spec.every, Time) else 0.0
    if isinstance(spec, Sort) and isinstance(spec.window, Time):
        period = spec.window.size / _SECOND
    # A profile written by hand may have only the total: then it is divided equally among the ports.
    equal_share = (measured.state_tuples // max(1, sum(spec.stateful)),) * spec.inputs
    # At the end of the input, or at its peak: windows of time and sessions may be empty at any one moment.
    known_states = [ports for ports in (measured.port_state, measured.peak_port) if len(ports) == spec.inputs]
    state = max(known_states, key=sum, default=equal_share)
    ratios = [
        stability.get((spec.name, number), Stability()).tainted_ratio
        for number in range(spec.inputs)
        if spec.stateful[number]
    ]
    ratio = sum(ratios) / len(ratios) if ratios else STATELESS_RATIO
    ports = []
    for number in range(spec.inputs):
        means = _means(spec, measured, number)
        if period:
            means = (0.0,) * spec.outputs
        fitted = stability.get((spec.name, number), Stability())
        # Only an operator that drops tuples can emit more, and at most all of them.
        wrong = tuple(min(1.0, mean * ratio) if mean < 1.0 else mean for mean in means)
        ports.append(_port(seconds, means, wrong, state[number] if spec.stateful[number] else 0, fitted))
    untriggered = _untriggered(measured)
    if not period and any(untriggered):  # punctuation or the watermark makes it emit: evenly, in the model
        period = profile.seconds / max(1.0, max(untriggered)) / scale
        ports.append(_port(seconds, tuple(out / max(untriggered) for out in untriggered),
                           tuple(out / max(untriggered) for out in untriggered), 0, Stability()))  # fmt: skip
        return ModelOperator(spec.name, spec.kind, tuple(ports), spec.outputs, timer=(spec.inputs, period))
    if not period:
        return ModelOperator(spec.name, spec.kind, tuple(ports), spec.outputs)
    per_trigger = tuple(out / max(1.0, profile.seconds / period) for out in measured.tuples_out)
    ports.append(_port(seconds, per_trigger, per_trigger, 0, Stability()))
    return ModelOperator(spec.name, spec.kind, tuple(ports), spec.outputs, timer=(spec.inputs, period))


def _untriggered(measured: OperatorProfile) -> tuple[float, ...]:
    """By output port, the tuples that no input tuple triggered; of an operator with several outputs, none."""
    if len(measured.tuples_out) != 1:
        return (0.0,) * len(measured.tuples_out)
    triggered = sum(count * share for count, share in zip(measured.tuples_in, measured.port_selectivity, strict=True))
    left = measured.tuples_out[0] - triggered
    return (left if left > _LEAST_UNTRIGGERED * measured.tuples_out[0] and left >= 1 else 0.0,)


def _means(spec: OperatorSpec, measured: OperatorProfile, number: int) -> tuple[float, ...]:
    """Tuples at each output port per tuple at input port `number`."""
    if spec.outputs == 1:
        return (measured.port_selectivity[number],)
    return measured.selectivity


def _port(
    seconds: float, means: tuple[float, ...], wrong: tuple[float, ...], state: int, fitted: Stability
) -> ModelPort:
    clean, dirty = emissions(means), emissions(wrong)
    shapes = sorted({*clean, *dirty}) or [(1, *(0,) * (len(means) - 1))]
    return ModelPort(
        seconds,
        tuple(ModelEmission(clean.get(shape, 0.0), shape) for shape in shapes),
        tuple(ModelEmission(dirty.get(shape, 0.0), shape) for shape in shapes),
        state, fitted.penalty, fitted.staleness, fitted.cap, fitted.taint,
    )  # fmt: skip


def emissions(means: tuple[float, ...]) -> dict[tuple[int, ...], float]:
    """Numbers of tuples at each output port → probability, with the given means.

    If the means sum to at most 1, a tuple goes to one port, as in a split. Otherwise one draw decides for all
    ports: those with a larger fraction emit whenever those with a smaller one do.
    """
    if sum(means) <= 1.0 + 1e-12:
        single = {tuple(int(port == other) for other in range(len(means))): mean for port, mean in enumerate(means)}
        return {shape: chance for shape, chance in single.items() if chance > 0}
    levels = sorted({mean - floor(mean) for mean in means} | {0.0, 1.0})
    chances: dict[tuple[int, ...], float] = {}
    for low, high in itertools.pairwise(levels):
        shape = tuple(floor(mean) + int(mean - floor(mean) >= high) for mean in means)
        if any(shape) and high > low:
            chances[shape] = chances.get(shape, 0.0) + high - low
    return chances


def protections(graph: Graph, failover: float = 1.0) -> tuple[ModelProtection, ...]:
    """The annotations of a graph (or of an applied plan) as techniques.

    The age of the last checkpoint is its mean, half the interval.
    """
    techniques = [
        ModelProtection("checkpoint", (spec.name,), {"age": spec.annotations.checkpoint_every / _SECOND / 2})
        for spec in graph.operators
        if spec.annotations.checkpoint_every is not None
    ]
    groups: dict[str, list[OperatorSpec]] = {}
    for spec in graph.operators:
        if spec.annotations.ha_group is not None:
            groups.setdefault(spec.annotations.ha_group.name, []).append(spec)
    for members in groups.values():
        group = members[0].annotations.ha_group
        assert group is not None
        settings = {"replicas": float(group.replicas), "failover": failover}
        techniques.append(ModelProtection("ha-group", tuple(spec.name for spec in members), settings))
    return tuple(techniques)


def read_profile(path: Path) -> Profile:
    """A profile that `riprap profile --out` wrote, or that was written by hand."""
    data = read_toml(path, "profile")
    try:
        tables, pieces = data.get("operators"), data.get("pieces", [])
        if not isinstance(tables, dict) or not isinstance(pieces, list):
            raise DataError("it has no [operators.NAME], or its pieces are not a list")
        operators = {name: _operator_profile(name, table) for name, table in tables.items()}
        known = {name: data[name] for name in ("app", "seconds", "tuples", "taken") if name in data}
        profile = shaped(Profile, known | {"operators": {}}, "the profile")
        return replace(
            profile, operators=operators, pieces=tuple(shaped(PieceProfile, piece, "a piece") for piece in pieces)
        )
    except DataError as error:
        raise DataError(f"profile {path}: {error}; `riprap profile APP --out FILE` writes one") from error


def _operator_profile(name: str, table: object) -> OperatorProfile:
    fields = table | {"name": name} if isinstance(table, dict) else table
    profile = shaped(OperatorProfile, fields, f"operator {name}")
    sizes = {
        "mean_rate": len(profile.tuples_in), "port_selectivity": len(profile.tuples_in),
        "selectivity": len(profile.tuples_out),
    }  # fmt: skip
    for field, size in sizes.items():
        if len(getattr(profile, field)) != size:
            raise DataError(
                f"operator {name}: {field} has {len(getattr(profile, field))} values; expected {size}, one per port"
            )
    return profile


def with_rate(application: Application, rate: float) -> Application:
    """The same application at another total source rate, with the same shares of the sources."""
    total = sum(operator.arrivals.rate for operator in application.operators if operator.arrivals)
    return replace(
        application,
        operators=tuple(
            replace(operator, arrivals=replace(operator.arrivals, rate=operator.arrivals.rate * rate / total))
            if operator.arrivals
            else operator
            for operator in application.operators
        ),
    )


def with_poisson(application: Application) -> Application:
    """The same application with Poisson arrivals at the same rates."""
    return replace(
        application,
        operators=tuple(
            replace(operator, arrivals=replace(operator.arrivals, poisson=True)) if operator.arrivals else operator
            for operator in application.operators
        ),
    )
