"""Stochastic activity networks as frozen data. Building one runs nothing; `interpreter`, `compiled`, `markov` run it.

Semantics, in one place (Sanders and Meyer's, with the choices they leave open made here):

- A place holds a whole number of tokens, never fewer than 0.
- An activity is enabled when every input arc finds its tokens and every input gate's predicate holds. A dead marking
  is no error.
- Instantaneous activities complete first, the smallest `priority` first and then in the order of the model; timed
  activities are looked at only in markings in which no instantaneous one is enabled (stable markings).
- A timed activity draws its delay when it becomes enabled in a stable marking and keeps the moment of completion
  until it completes or a stable marking disables it: then the draw is lost, and enabling it again draws anew. If the
  parameters of its distribution depend on the marking and their values change while it is enabled, it draws anew from
  the new distribution at that moment (reactivation); with unchanged values it is left alone.
- Equal completion times complete in the order of the model.
- On completion: case probabilities are evaluated and the case is drawn; then input arcs and the functions of the input
  gates act, in order; then the output arcs and output gates of the case.
- Time is in seconds; rates are per second.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

Expression = str  # of riprap.san.language, with a value
Program = str  # of riprap.san.language, changes markings
Number = float | Expression


class DistributionKind(Enum):
    """Distributions of delays. The value says what their parameters are."""

    EXPONENTIAL = ("exponential", "rate")
    DETERMINISTIC = ("deterministic", "delay")
    UNIFORM = ("uniform", "low", "high")
    NORMAL = ("normal", "mean", "deviation")  # of the normal before what is negative is drawn again
    LOGNORMAL = ("lognormal", "mu", "sigma")
    WEIBULL = ("weibull", "shape", "scale")
    GAMMA = ("gamma", "shape", "scale")
    EMPIRICAL = ("empirical", "values")

    @property
    def parameters(self) -> tuple[str, ...]:
        return self.value[1:]


@dataclass(frozen=True)
class Distribution:
    kind: DistributionKind
    parameters: tuple[Number, ...]


def exponential(rate: Number) -> Distribution:
    return Distribution(DistributionKind.EXPONENTIAL, (rate,))


def deterministic(delay: Number) -> Distribution:
    return Distribution(DistributionKind.DETERMINISTIC, (delay,))


def uniform(low: Number, high: Number) -> Distribution:
    return Distribution(DistributionKind.UNIFORM, (low, high))


def normal(mean: Number, deviation: Number) -> Distribution:
    return Distribution(DistributionKind.NORMAL, (mean, deviation))


def lognormal(mu: Number, sigma: Number) -> Distribution:
    return Distribution(DistributionKind.LOGNORMAL, (mu, sigma))


def weibull(shape: Number, scale: Number) -> Distribution:
    return Distribution(DistributionKind.WEIBULL, (shape, scale))


def gamma(shape: Number, scale: Number) -> Distribution:
    return Distribution(DistributionKind.GAMMA, (shape, scale))


def empirical(*values: float) -> Distribution:
    return Distribution(DistributionKind.EMPIRICAL, values)


@dataclass(frozen=True)
class SanPlace:
    name: str
    tokens: int = 0  # in the initial marking


@dataclass(frozen=True)
class InputGate:
    predicate: Expression
    function: Program = ""


@dataclass(frozen=True)
class OutputGate:
    function: Program


@dataclass(frozen=True)
class ActivityCase:
    """One outcome of an activity."""

    probability: Number = 1.0
    outputs: Mapping[str, int] = field(default_factory=dict)  # place → tokens added
    gates: tuple[OutputGate, ...] = ()


@dataclass(frozen=True)
class Activity:
    """Timed if it has a `delay`, instantaneous otherwise."""

    name: str
    delay: Distribution | None = None
    inputs: Mapping[str, int] = field(default_factory=dict)  # place → tokens needed and taken
    gates: tuple[InputGate, ...] = ()
    cases: tuple[ActivityCase, ...] = (ActivityCase(),)
    priority: int = 0  # of instantaneous activities: smaller first


class Measure(Enum):
    TIME_AVERAGED = "time-averaged"
    ACCUMULATED = "accumulated"
    IMPULSE = "impulse"


@dataclass(frozen=True)
class Reward:
    """A number that a run is summed up in: the average or integral of a rate over time, or a sum over completions.

    `activities`: for impulses, the ones whose completions count; the expression sees the marking just before.
    """

    name: str
    measure: Measure
    expression: Expression
    activities: tuple[str, ...] = ()


def time_averaged(name: str, expression: Expression) -> Reward:
    return Reward(name, Measure.TIME_AVERAGED, expression)


def accumulated(name: str, expression: Expression) -> Reward:
    return Reward(name, Measure.ACCUMULATED, expression)


def impulse(name: str, *activities: str, value: Expression = "1") -> Reward:
    return Reward(name, Measure.IMPULSE, value, activities)


@dataclass(frozen=True)
class Invariant:
    """Holds in every stable marking, or the run ends with an error that names it."""

    name: str
    expression: Expression


@dataclass(frozen=True)
class Network:
    """A whole model. `parameters` are named numbers: changing them needs no new compilation."""

    name: str
    places: tuple[SanPlace, ...]
    activities: tuple[Activity, ...]
    rewards: tuple[Reward, ...] = ()
    invariants: tuple[Invariant, ...] = ()
    parameters: Mapping[str, float] = field(default_factory=dict)
