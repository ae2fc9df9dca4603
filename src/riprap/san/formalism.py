"""Stochastic activity networks as frozen data. `compiled` runs them.

Semantics (Sanders and Meyer's, with their open choices fixed here):

- A place holds a number of tokens, an integer of at least 0.
- An activity is enabled if every input arc has its tokens and every input gate's predicate holds. A dead marking is not
  an error.
- Instantaneous activities complete first, in the order of `priority` (smallest first), then of the model. Timed
  activities are considered only in stable markings: those in which no instantaneous activity is enabled.
- A timed activity draws its delay when it becomes enabled in a stable marking. Its completion time is fixed until it
  completes or a stable marking disables it: then the draw is discarded, and enabling it again draws again. If the
  parameters of its distribution depend on the marking and change while it is enabled, it draws again from the new
  distribution at that time (reactivation).
- Activities with equal completion times complete in the order of the model.
- On completion: the case probabilities are evaluated and a case is drawn; then input arcs and the functions of the
  input gates act, in order; then the output arcs and output gates of the case.
- Time is in seconds; rates are per second.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

Expression = str  # of riprap.san.language, with a value
Program = str  # of riprap.san.language, changes markings
Number = float | Expression


class DistributionKind(Enum):
    """Distributions of delays. The value names their parameters."""

    EXPONENTIAL = ("exponential", "rate")
    DETERMINISTIC = ("deterministic", "delay")
    UNIFORM = ("uniform", "low", "high")
    NORMAL = ("normal", "mean", "deviation")  # before truncation: negative values are drawn again
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
    inputs: Mapping[str, int] = field(default_factory=dict)  # place → tokens required and removed
    gates: tuple[InputGate, ...] = ()
    cases: tuple[ActivityCase, ...] = (ActivityCase(),)
    priority: int = 0  # of instantaneous activities: smaller first


class Measure(Enum):
    TIME_AVERAGED = "time-averaged"
    ACCUMULATED = "accumulated"
    IMPULSE = "impulse"


@dataclass(frozen=True)
class Reward:
    """A result of a run: the average or integral of a rate over time, or a sum over completions.

    `activities`: for impulses, those whose completions count; the expression uses the marking just before.
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
    """Must hold in every stable marking; otherwise the run fails with an error that names it."""

    name: str
    expression: Expression


@dataclass(frozen=True)
class Network:
    """A complete model. `parameters` are named numbers; changing them needs no recompilation."""

    name: str
    places: tuple[SanPlace, ...]
    activities: tuple[Activity, ...]
    rewards: tuple[Reward, ...] = ()
    invariants: tuple[Invariant, ...] = ()
    parameters: Mapping[str, float] = field(default_factory=dict)
