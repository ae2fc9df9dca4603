"""The plain interpreter: one replication; it checks every activity after every completion.

It uses no dependencies between activities, so it checks those that the compiler derives. Slow.
"""

from collections import ChainMap
from dataclasses import dataclass, field

import numpy as np
from tests.san.programs import execute

from riprap.san import samplers
from riprap.san.formalism import DistributionKind, Measure, Network
from riprap.san.generator import uniform
from riprap.san.language import evaluate
from riprap.san.resolved import TOLERANCE, Resolved, ResolvedActivity, resolve
from riprap.san.simulate import LOOP_LIMIT, RING, SimulatedSpan, Trajectory, Trouble, error_of

_SAMPLER = {
    DistributionKind.EXPONENTIAL: samplers.exponential,
    DistributionKind.UNIFORM: samplers.between,
    DistributionKind.NORMAL: samplers.normal,
    DistributionKind.LOGNORMAL: samplers.lognormal,
    DistributionKind.WEIBULL: samplers.weibull,
    DistributionKind.GAMMA: samplers.gamma,
}


def interpret(network: Network | Resolved, key: np.uint64, span: SimulatedSpan) -> Trajectory:
    """Run one replication with the generator key `key`."""
    return _Run(network if isinstance(network, Resolved) else resolve(network), key, span).run()


@dataclass
class _Run:
    network: Resolved
    key: np.uint64
    span: SimulatedSpan
    counter: np.uint64 = field(default_factory=lambda: np.uint64(0))
    now: float = 0.0
    when: dict[int, float] = field(default_factory=dict)  # timed activity → completion time
    drawn_from: dict[int, tuple[float, ...]] = field(default_factory=dict)  # timed activity → parameters of its draw
    trace: list[tuple[float, int]] = field(default_factory=list)
    ring: list[int] = field(default_factory=list)

    def run(self) -> Trajectory:
        network = self.network
        self.marking: dict[str, float] = dict(zip(network.places, network.initial, strict=True))
        self.values: ChainMap[str, float] = ChainMap(self.marking, dict(network.parameters))
        self.rewards = np.zeros(len(network.rewards))
        self.rates = [0.0] * len(network.rewards)
        self.since = [0.0] * len(network.rewards)
        while True:
            self.settle()
            self.schedule()
            self.observe()
            if not self.when:
                break
            number = min(self.when, key=lambda each: (self.when[each], each))
            if self.when[number] > self.span.horizon:
                break
            self.now = self.when.pop(number)
            self.complete(number)
        self.now = self.span.horizon
        for index, reward in enumerate(network.rewards):
            self.integrate(index)
            if reward.measure is Measure.TIME_AVERAGED:
                self.rewards[index] /= self.span.horizon - self.span.start
        times, activities = zip(*self.trace, strict=True) if self.trace else ((), ())
        marking = np.array([self.marking[name] for name in network.places], np.int64)
        return Trajectory(self.rewards, marking, len(self.trace), np.array(times), np.array(activities, np.int64))

    def settle(self) -> None:
        """Completes instantaneous activities until none is enabled."""
        streak = 0
        while True:
            enabled = next((each for each in self.network.instant if self.enabled(self.network.activities[each])), None)
            if enabled is None:
                return
            streak += 1
            self.ring = [*self.ring[1 - RING :], enabled]
            if streak > LOOP_LIMIT:
                raise self.error(Trouble.LOOP, enabled)
            self.complete(enabled)

    def schedule(self) -> None:
        """Draws delays of newly enabled activities, cancels disabled ones, redraws where the distribution changed."""
        for number in self.network.timed:
            activity = self.network.activities[number]
            if not self.enabled(activity):
                self.when.pop(number, None)
                continue
            parameters = tuple(evaluate(code, self.values) for code in activity.delay)
            if number not in self.when or parameters != self.drawn_from[number]:
                self.drawn_from[number] = parameters
                self.when[number] = samplers.due(self.now, self.draw(number, activity, parameters))

    def draw(self, number: int, activity: ResolvedActivity, parameters: tuple[float, ...]) -> float:
        if activity.timing and min(parameters) < 0:
            raise self.error(Trouble.DELAY, number)
        if activity.kind is DistributionKind.DETERMINISTIC:
            return parameters[0]
        if activity.kind is DistributionKind.EMPIRICAL:
            delay, self.counter = samplers.one_of(np.array(activity.values), self.key, self.counter)
        else:
            assert activity.kind is not None
            numbers = (float(value) for value in parameters)
            delay, self.counter = _SAMPLER[activity.kind](*numbers, self.key, self.counter)
        self.counter = np.uint64(self.counter)
        return delay

    def observe(self) -> None:
        """Updates rewards and checks invariants in a stable marking."""
        for index, reward in enumerate(self.network.rewards):
            if reward.measure is not Measure.IMPULSE:
                rate = float(evaluate(reward.code, self.values))
                if rate != self.rates[index]:
                    self.integrate(index)
                    self.rates[index] = rate
        for index, (_, code) in enumerate(self.network.invariants):
            if not evaluate(code, self.values):
                raise self.error(Trouble.INVARIANT, index)

    def integrate(self, index: int) -> None:
        """Adds the integral of a rate reward since its rate last changed."""
        start = max(self.since[index], self.span.start)
        if self.now > start:
            self.rewards[index] += self.rates[index] * (self.now - start)
        self.since[index] = self.now

    def enabled(self, activity: ResolvedActivity) -> bool:
        return all(self.marking[name] >= tokens for name, tokens in activity.inputs) and all(
            evaluate(code, self.values) for code in activity.predicates
        )

    def complete(self, number: int) -> None:
        activity = self.network.activities[number]
        self.trace.append((self.now, number))
        for index, reward in enumerate(self.network.rewards):
            if number in reward.activities and self.now >= self.span.start:
                self.rewards[index] += float(evaluate(reward.code, self.values))
        case = activity.cases[self.choose(number, activity)]
        for name, tokens in activity.inputs:
            self.marking[name] -= tokens
        for code in activity.programs:
            execute(code, self.values)
        for name, tokens in case.outputs:
            self.marking[name] += tokens
        for code in case.programs:
            execute(code, self.values)
        if min(self.marking.values(), default=0) < 0:
            raise self.error(Trouble.NEGATIVE, number)

    def choose(self, number: int, activity: ResolvedActivity) -> int:
        """Draw the case."""
        if len(activity.cases) == 1:
            return 0
        probabilities = [evaluate(case.probability, self.values) for case in activity.cases]
        total = 0.0
        for probability in probabilities:
            total += probability
        if abs(total - 1.0) > TOLERANCE or min(probabilities) < -TOLERANCE:
            raise self.error(Trouble.PROBABILITIES, number)
        draw = uniform(self.key, self.counter)
        self.counter = np.uint64(self.counter + np.uint64(1))
        below = 0.0
        for index, probability in enumerate(probabilities[:-1]):
            below += probability
            if draw < below:
                return index
        return len(probabilities) - 1

    def error(self, trouble: int, detail: int) -> Exception:
        return error_of(self.network, trouble, detail, np.array(self.ring, np.int64), self.now)
