"""A checked and resolved network: names are resolved to indices, texts are parsed, dependencies are derived.

All errors of a network are found here, before it runs, except those that depend on the marking.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from keyword import iskeyword

from riprap.base.errors import GraphError, known
from riprap.san.formalism import Activity, DistributionKind, Measure, Network, Number
from riprap.san.language import FUNCTIONS, Code, evaluate, expression, program

TOLERANCE = 1e-9  # how far the sum of an activity's case probabilities may be from 1


class NetworkError(GraphError):
    """An invalid network, or an invalid step of a run; the message names the cause."""


@dataclass(frozen=True)
class ResolvedCase:
    probability: Code
    outputs: tuple[tuple[str, int], ...]
    programs: tuple[Code, ...]


@dataclass(frozen=True)
class ResolvedActivity:
    name: str
    kind: DistributionKind | None  # None: instantaneous
    delay: tuple[Code, ...]  # the distribution's parameters; empty for an empirical one
    values: tuple[float, ...]  # of an empirical distribution
    inputs: tuple[tuple[str, int], ...]
    predicates: tuple[Code, ...]
    programs: tuple[Code, ...]
    cases: tuple[ResolvedCase, ...]
    priority: int
    places: frozenset[str]  # the network's places, to distinguish them from parameters

    @cached_property
    def condition(self) -> frozenset[str]:
        """Places that determine whether it is enabled."""
        names = {name for name, _ in self.inputs}
        return frozenset(names.union(*(code.reads for code in self.predicates)) & self.places)

    @cached_property
    def timing(self) -> frozenset[str]:
        """Places that its delay depends on."""
        return frozenset(frozenset().union(*(code.reads for code in self.delay)) & self.places)

    @cached_property
    def changes(self) -> frozenset[str]:
        """Places that its completion may change."""
        places = {name for name, _ in self.inputs}
        for code in self.programs:
            places |= code.writes
        for case in self.cases:
            places |= {name for name, _ in case.outputs}
            places = places.union(*(code.writes for code in case.programs))
        return frozenset(places)


@dataclass(frozen=True)
class ResolvedReward:
    name: str
    measure: Measure
    code: Code
    activities: frozenset[int]


@dataclass(frozen=True)
class Resolved:
    """Activities are in the order of the network, `instant` in the order of completion."""

    name: str
    places: tuple[str, ...]
    initial: tuple[int, ...]
    parameters: Mapping[str, float]
    activities: tuple[ResolvedActivity, ...]
    timed: tuple[int, ...]
    instant: tuple[int, ...]
    rewards: tuple[ResolvedReward, ...]
    invariants: tuple[tuple[str, Code], ...]


def resolve(network: Network) -> Resolved:
    """Checks and resolves `network`; raises `NetworkError`."""
    places = _unique("place", [place.name for place in network.places])
    _unique("activity", [activity.name for activity in network.activities])
    _unique("reward", [reward.name for reward in network.rewards])
    for name in (*places, *network.parameters):
        _check_name(name)
    for name in set(places) & set(network.parameters):
        raise NetworkError(f"{network.name}: {name} is both a place and a parameter; rename one of them")
    for place in network.places:
        if place.tokens < 0:
            raise NetworkError(
                f"{network.name}: place {place.name} starts with {place.tokens} tokens; the number must be 0 or more"
            )
    context = _Context(network, frozenset(places))
    activities = tuple(context.activity(activity) for activity in network.activities)
    index = {activity.name: number for number, activity in enumerate(network.activities)}
    rewards = []
    for reward in network.rewards:
        for name in reward.activities:
            if name not in index:
                raise NetworkError(
                    f"reward {reward.name} counts activity {name}, which is not one of {known(index, name)}"
                )
        counted = frozenset(index[name] for name in reward.activities)
        where = f"reward {reward.name}"
        rewards.append(
            ResolvedReward(reward.name, reward.measure, context.expression(reward.expression, where), counted)
        )
    timed = tuple(number for number, activity in enumerate(activities) if activity.kind is not None)
    instant = [number for number, activity in enumerate(activities) if activity.kind is None]
    return Resolved(
        network.name,
        places,
        tuple(place.tokens for place in network.places),
        dict(network.parameters),
        activities,
        timed,
        tuple(sorted(instant, key=lambda number: (activities[number].priority, number))),
        tuple(rewards),
        tuple(
            (item.name, context.expression(item.expression, f"invariant {item.name}")) for item in network.invariants
        ),
    )


@dataclass(frozen=True)
class _Context:
    network: Network
    places: frozenset[str]

    def expression(self, value: Number, where: str) -> Code:
        code = expression(repr(float(value)) if isinstance(value, int | float) else value)
        self._check_names(code.reads, where, "read")
        return code

    def program(self, text: str, where: str) -> Code:
        code = program(text)
        self._check_names(code.reads, where, "read")
        for name in code.writes - self.places:
            raise NetworkError(
                f"{where} changes {name}, which is not one of the places {known(sorted(self.places), name)}"
            )
        return code

    def arcs(self, arcs: Mapping[str, int], where: str) -> tuple[tuple[str, int], ...]:
        for name, tokens in arcs.items():
            if name not in self.places:
                raise NetworkError(
                    f"{where} has an arc to {name}, which is not one of {known(sorted(self.places), name)}"
                )
            if tokens < 1:
                raise NetworkError(f"{where} has an arc of {tokens} tokens to {name}; an arc moves at least 1")
        return tuple(arcs.items())

    def activity(self, activity: Activity) -> ResolvedActivity:
        where = f"activity {activity.name}"
        if not activity.cases:
            raise NetworkError(f"{where} has no case; give it at least one")
        delay: tuple[Code, ...] = ()
        values: tuple[float, ...] = ()
        kind = activity.delay.kind if activity.delay else None
        if activity.delay and kind is DistributionKind.EMPIRICAL:
            values = tuple(float(value) for value in activity.delay.parameters)
            if not values or min(values) < 0:
                raise NetworkError(f"{where} draws from {values}; give at least one delay, all 0 or more")
        elif activity.delay:
            delay = tuple(self.expression(value, where) for value in activity.delay.parameters)
            self._check_delay(activity, delay)
        cases = tuple(
            ResolvedCase(
                self.expression(case.probability, where),
                self.arcs(case.outputs, where),
                tuple(self.program(gate.function, where) for gate in case.gates if gate.function),
            )
            for case in activity.cases
        )
        self._check_cases(where, cases)
        return ResolvedActivity(
            activity.name, kind, delay, values, self.arcs(activity.inputs, where),
            tuple(self.expression(gate.predicate, where) for gate in activity.gates),
            tuple(self.program(gate.function, where) for gate in activity.gates if gate.function),
            cases, activity.priority, self.places,
        )  # fmt: skip

    def _check_names(self, names: Iterable[str], where: str, verb: str) -> None:
        for name in names:
            if name not in self.places and name not in self.network.parameters:
                everything = sorted({*self.places, *self.network.parameters})
                raise NetworkError(
                    f"{where} {verb}s {name}, which is neither a place nor a parameter: {known(everything, name)}"
                )

    def _check_delay(self, activity: Activity, delay: tuple[Code, ...]) -> None:
        assert activity.delay is not None
        names = activity.delay.kind.parameters
        if len(delay) != len(names):
            raise NetworkError(f"activity {activity.name}: {activity.delay.kind.name.lower()} needs {', '.join(names)}")
        for name, code in zip(names, delay, strict=True):
            if code.reads & self.places or name == "mu":
                continue  # depends on the marking, or may be any number
            value = evaluate(code, self.network.parameters)
            check_delay_parameter(activity.name, name, value)

    def _check_cases(self, where: str, cases: tuple[ResolvedCase, ...]) -> None:
        if any(case.probability.reads & self.places for case in cases):
            return  # checked at every completion instead
        check_probabilities(where, [evaluate(case.probability, self.network.parameters) for case in cases])


def check_delay_parameter(activity: str, name: str, value: float) -> None:
    """Rates and delays are not negative; shapes and scales are positive."""
    positive = name in ("shape", "scale")
    if not value >= 0 or (positive and value == 0):
        limit = "positive" if positive else "0 or more"
        raise NetworkError(f"activity {activity} has {name} {value:g}; it must be {limit}")


def check_probabilities(where: str, probabilities: list[float]) -> None:
    for value in probabilities:
        if not -TOLERANCE <= value <= 1 + TOLERANCE:
            raise NetworkError(f"{where} has a case with probability {value:g}; it must be from 0 to 1")
    if abs(sum(probabilities) - 1) > TOLERANCE:
        listed = " + ".join(f"{value:g}" for value in probabilities)
        raise NetworkError(
            f"the probabilities of the cases of {where} are {listed} = {sum(probabilities):g}; they must sum to 1"
        )


def _unique(what: str, names: list[str]) -> tuple[str, ...]:
    for name, count in Counter(names).items():
        if count > 1:
            raise NetworkError(f"{what} {name} occurs {count} times; names must be unique")
    return tuple(names)


def _check_name(name: str) -> None:
    parts = name.split(".")
    if not all(part.isidentifier() and not iskeyword(part) for part in parts) or parts[0] in FUNCTIONS:
        raise NetworkError(f"{name!r} cannot be a name: use letters, digits, _ and dots, as in crew.free")
