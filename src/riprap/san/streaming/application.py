"""The description of a streaming application for models.

It comes from a stream graph and its profile, from TOML, or from code. Times are in seconds, sizes in tuples, rates in
tuples/s. Every operator removes a tuple from an input port, processes it for some time and emits tuples at random;
types of operators differ in their ports and emissions.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from riprap.base.errors import GraphError, known

TOLERANCE = 1e-9


@dataclass(frozen=True)
class ModelEmission:
    """One outcome of processing a tuple: with `probability`, output port j emits `tuples[j]` tuples."""

    probability: float
    tuples: tuple[int, ...]


@dataclass(frozen=True)
class ModelPort:
    """An input port. With the remaining probability, nothing is emitted."""

    seconds: float  # processing time per tuple, mean
    emissions: tuple[ModelEmission, ...]
    tainted: tuple[ModelEmission, ...]  # if the tuple or the state is tainted; as many as `emissions`
    state: int = 0  # S: tuples in the full state of this port; 0 = stateless
    penalty: float = 0.0  # α: share of the state to replace after a crash or a loss
    staleness: float = 0.0  # β: tuples to process per tuple lost
    cap: float = 1.0  # γ: at most this share of the state
    taint: float = 0.0  # share of the state to replace after one tainted tuple

    @property
    def stateful(self) -> bool:
        return self.state > 0

    def stabilisation(self, lost: float) -> int:
        """Z = min(αS + βL, γS): clean tuples until the state is correct after `lost` tuples, at least 1."""
        return max(1, round(min(self.penalty * self.state + self.staleness * lost, self.cap * self.state)))

    @property
    def taint_stabilisation(self) -> int:
        """Clean tuples until the state is correct after a tainted tuple or a corruption."""
        return max(1, round(self.taint * self.state))

    def mean(self, output: int, tainted: bool = False) -> float:
        """Selectivity: tuples at `output` per tuple at this port."""
        return sum(
            emission.probability * emission.tuples[output] for emission in (self.tainted if tainted else self.emissions)
        )


@dataclass(frozen=True)
class Arrivals:
    """External input: evenly spaced, or a Poisson process."""

    rate: float
    poisson: bool = False


@dataclass(frozen=True)
class ModelOperator:
    name: str
    kind: str
    inputs: tuple[ModelPort, ...]  # a source has one too: its external input
    outputs: int  # a sink has none
    arrivals: Arrivals | None = None  # into input port 0; sources only
    timer: tuple[int, float] | None = None  # (input port, period in seconds): tokens for time-based triggers
    buffer: int = 1000  # capacity of each output port, tuples
    queue: int = 1000  # capacity of each input stream, tuples

    @property
    def sink(self) -> bool:
        return self.outputs == 0

    @property
    def stateful_ports(self) -> tuple[int, ...]:
        return tuple(index for index, port in enumerate(self.inputs) if port.stateful)


@dataclass(frozen=True)
class ModelStream:
    """From output port `output` of `source` to input port `input` of `target`."""

    source: str
    target: str
    output: int = 0
    input: int = 0


@dataclass(frozen=True)
class Application:
    name: str
    operators: tuple[ModelOperator, ...]
    streams: tuple[ModelStream, ...]

    def __post_init__(self) -> None:
        check(self)

    @cached_property
    def by_name(self) -> Mapping[str, ModelOperator]:
        return {operator.name: operator for operator in self.operators}

    @cached_property
    def sinks(self) -> tuple[str, ...]:
        return tuple(operator.name for operator in self.operators if operator.sink)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Operators, upstream first."""
        graph: dict[str, set[str]] = {operator.name: set() for operator in self.operators}
        for stream in self.streams:
            graph[stream.target].add(stream.source)
        return tuple(TopologicalSorter(graph).static_order())

    @cached_property
    def rates(self) -> Mapping[tuple[str, int], float]:
        """(operator, input port) → tuples/s without faults."""
        rates = {(operator.name, index): 0.0 for operator in self.operators for index in range(len(operator.inputs))}
        for name in self.order:
            operator = self.by_name[name]
            if operator.arrivals:
                rates[name, 0] += operator.arrivals.rate
            if operator.timer:
                rates[name, operator.timer[0]] += 1 / operator.timer[1]
            for stream in self.streams:
                if stream.source == name:
                    rates[stream.target, stream.input] += sum(
                        rates[name, index] * port.mean(stream.output) for index, port in enumerate(operator.inputs)
                    )
        return rates

    def named(self, names: Iterable[str], where: str) -> tuple[ModelOperator, ...]:
        """The operators with these names; raises for an unknown one."""
        for name in names:
            if name not in self.by_name:
                raise GraphError(
                    f"{where} names operator {name}, which is not in {self.name}: {known(self.by_name, name)}"
                )
        return tuple(self.by_name[name] for name in names)


def check(application: Application) -> None:
    """Raises `GraphError` for an invalid description."""
    names = [operator.name for operator in application.operators]
    for name in names:
        if names.count(name) > 1:
            raise GraphError(f"{application.name} has two operators called {name}; names must be unique")
    for stream in application.streams:
        source, target = application.named((stream.source, stream.target), f"a stream of {application.name}")
        if not 0 <= stream.output < source.outputs:
            raise GraphError(f"{source.name} has {source.outputs} output ports; a stream leaves port {stream.output}")
        if not 0 <= stream.input < len(target.inputs):
            raise GraphError(f"{target.name} has {len(target.inputs)} input ports; a stream enters port {stream.input}")
    for operator in application.operators:
        _check_operator(operator)
    try:
        _ = application.order
    except CycleError as error:
        cycle = " → ".join(error.args[1])
        raise GraphError(
            f"the streams of {application.name} form a cycle ({cycle}); models need an acyclic graph"
        ) from None


def _check_operator(operator: ModelOperator) -> None:
    for index, port in enumerate(operator.inputs):
        where = f"{operator.name}, input port {index}"
        if port.seconds < 0:
            raise GraphError(f"{where}: a processing time of {port.seconds:g} s is below 0")
        if len(port.emissions) != len(port.tainted):
            raise GraphError(f"{where}: {len(port.emissions)} clean emissions but {len(port.tainted)} tainted ones")
        for emissions in (port.emissions, port.tainted):
            total = sum(emission.probability for emission in emissions)
            if any(emission.probability < 0 for emission in emissions) or total > 1 + TOLERANCE:
                listed = ", ".join(f"{emission.probability:g}" for emission in emissions)
                raise GraphError(
                    f"{where}: emission probabilities {listed} must each be at least 0 and sum to at most 1"
                )
    if operator.arrivals and not operator.arrivals.rate > 0:
        raise GraphError(f"source {operator.name} has rate {operator.arrivals.rate:g}; it must be positive")
    if operator.timer and not operator.timer[1] > 0:
        raise GraphError(f"{operator.name} is triggered every {operator.timer[1]:g} s; the time must be positive")
