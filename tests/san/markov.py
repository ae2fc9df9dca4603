"""Exact numbers for small networks in which every delay is exponential: the Markov chain behind them, solved.

The states are the stable markings that can be reached; instantaneous activities are followed to the stable markings
they lead to, with their probabilities. Steady state: πQ = 0. Up to a horizon: the mean time in each state, from the
integral of the transient distribution (uniformisation).
"""

from collections import ChainMap, deque
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix, diags, lil_matrix
from scipy.sparse.linalg import spsolve
from scipy.stats import poisson
from tests.san.programs import execute

from riprap.base.errors import UsageError
from riprap.san.formalism import DistributionKind, Measure, Network
from riprap.san.language import Code, evaluate
from riprap.san.resolved import Resolved, ResolvedActivity, check_delay_parameter, check_probabilities, resolve
from riprap.san.simulate import Trouble, error_of

MOST_STATES = 200_000

Marking = tuple[int, ...]


@dataclass(frozen=True)
class Chain:
    """A continuous-time Markov chain: `rates[i, j]` from state i to state j; `impulses[k]` earned per second in each
    state.
    """

    network: Resolved
    states: tuple[Marking, ...]
    initial: np.ndarray  # probabilities
    rates: csr_matrix
    impulses: np.ndarray  # rewards × states: rate at which impulse rewards are earned


def solve(network: Network, horizon: float | None = None) -> dict[str, float]:
    """The expected value of every reward: in steady state, or over [0, horizon]. In steady state an accumulated or
    impulse reward is given per second."""
    chain = build(network)
    time_in = _steady(chain) if horizon is None else _occupancy(chain, horizon)
    total = float(time_in.sum())
    result = {}
    for index, reward in enumerate(chain.network.rewards):
        if reward.measure is Measure.IMPULSE:
            value = float(chain.impulses[index] @ time_in)
        else:
            rate = [evaluate(reward.code, _values(chain.network, state)) for state in chain.states]
            value = float(np.array(rate, float) @ time_in)
            if reward.measure is Measure.TIME_AVERAGED:
                value /= total
        result[reward.name] = value
    return result


def build(network: Network) -> Chain:
    """Explore the reachable stable markings."""
    resolved = resolve(network)
    for activity in resolved.activities:
        if activity.kind not in (None, DistributionKind.EXPONENTIAL):
            assert activity.kind is not None
            raise UsageError(
                f"activity {activity.name} is {activity.kind.name.lower()}; an exact solution needs every delay to be "
                "exponential: simulate instead"
            )
    explorer = _Explorer(resolved)
    start = explorer.stable(resolved.initial)
    index: dict[Marking, int] = {}
    waiting: deque[Marking] = deque()

    def number(marking: Marking) -> int:
        if marking not in index:
            if len(index) >= MOST_STATES:
                raise UsageError(
                    f"{resolved.name} has more than {MOST_STATES:,} states; "
                    "bound its places with gates, or simulate instead"
                )
            index[marking] = len(index)
            waiting.append(marking)
        return index[marking]

    first = {number(marking): probability for marking, (probability, _) in start.items()}
    entries: list[tuple[int, int, float]] = []
    impulses: list[np.ndarray] = []
    while waiting:
        marking = waiting.popleft()
        earned = np.zeros(len(resolved.rewards))
        for activity_number in resolved.timed:
            activity = resolved.activities[activity_number]
            if not explorer.enabled(activity, marking):
                continue
            rate = float(evaluate(activity.delay[0], _values(resolved, marking)))
            check_delay_parameter(activity.name, "rate", rate)
            for after, (probability, impulse) in explorer.complete(activity_number, marking).items():
                entries.append((index[marking], number(after), rate * probability))
                earned += rate * impulse
        impulses.append(earned)
    size = len(index)
    rows, columns, values = zip(*entries, strict=True) if entries else ((), (), ())
    initial = np.zeros(size)
    for state, probability in first.items():
        initial[state] = probability
    rates = csr_matrix((values, (rows, columns)), shape=(size, size))
    return Chain(resolved, tuple(index), initial, rates, np.array(impulses).T.reshape(len(resolved.rewards), size))


class _Explorer:
    def __init__(self, network: Resolved) -> None:
        self.network = network

    def enabled(self, activity: ResolvedActivity, marking: Marking) -> bool:
        values = _values(self.network, marking)
        return all(values[name] >= tokens for name, tokens in activity.inputs) and all(
            evaluate(code, values) for code in activity.predicates
        )

    def complete(self, number: int, marking: Marking) -> dict[Marking, tuple[float, np.ndarray]]:
        """Stable markings after activity `number`: probability, and impulses weighted with it."""
        found: dict[Marking, tuple[float, np.ndarray]] = {}
        for after, probability, impulse in self.outcomes(number, marking):
            for stable, (chance, more) in self.stable(after, (number,)).items():
                before, earned = found.get(stable, (0.0, np.zeros(len(self.network.rewards))))
                found[stable] = (before + probability * chance, earned + probability * (chance * impulse + more))
        return found

    def stable(self, marking: Marking, path: tuple[int, ...] = ()) -> dict[Marking, tuple[float, np.ndarray]]:
        for number in self.network.instant:
            if self.enabled(self.network.activities[number], marking):
                if len(path) > 500:
                    raise error_of(self.network, Trouble.LOOP, number, np.array(path[-64:]), 0.0)
                found: dict[Marking, tuple[float, np.ndarray]] = {}
                for after, probability, impulse in self.outcomes(number, marking):
                    for end, (chance, more) in self.stable(after, (*path, number)).items():
                        before, earned = found.get(end, (0.0, np.zeros(len(self.network.rewards))))
                        found[end] = (before + probability * chance, earned + probability * (chance * impulse + more))
                return found
        return {marking: (1.0, np.zeros(len(self.network.rewards)))}

    def outcomes(self, number: int, marking: Marking) -> list[tuple[Marking, float, np.ndarray]]:
        """(marking after one case, its probability, impulses earned)."""
        activity = self.network.activities[number]
        values = _values(self.network, marking)
        impulse = np.array(
            [
                float(evaluate(reward.code, values)) if number in reward.activities else 0.0
                for reward in self.network.rewards
            ]
        )
        probabilities = [float(evaluate(case.probability, values)) for case in activity.cases]
        check_probabilities(f"activity {activity.name}", probabilities)
        results = []
        for case, probability in zip(activity.cases, probabilities, strict=True):
            if probability <= 0:
                continue
            after = dict(zip(self.network.places, marking, strict=True))
            for name, tokens in activity.inputs:
                after[name] -= tokens
            self._run(activity.programs, after)
            for name, tokens in case.outputs:
                after[name] += tokens
            self._run(case.programs, after)
            if min(after.values(), default=0) < 0:
                raise error_of(self.network, Trouble.NEGATIVE, number, np.zeros(0, np.int64), 0.0)
            results.append((tuple(after.values()), probability, impulse))
        return results

    def _run(self, programs: tuple[Code, ...], marking: dict[str, int]) -> None:
        for code in programs:
            execute(code, ChainMap(marking, dict(self.network.parameters)))  # type: ignore[arg-type]


def _values(network: Resolved, marking: Marking) -> dict[str, float]:
    return {**network.parameters, **dict(zip(network.places, marking, strict=True))}


def _generator(chain: Chain) -> csr_matrix:
    rates = chain.rates - diags(chain.rates.diagonal())
    return csr_matrix(rates - diags(np.asarray(rates.sum(axis=1)).ravel()))


def _steady(chain: Chain) -> np.ndarray:
    """πQ = 0, Σπ = 1: one equation replaced by the sum."""
    matrix = lil_matrix(_generator(chain).T)
    matrix[-1, :] = 1.0
    right = np.zeros(len(chain.states))
    right[-1] = 1.0
    solution = np.atleast_1d(spsolve(csr_matrix(matrix), right))
    if not np.all(np.isfinite(solution)):
        raise UsageError(f"{chain.network.name} has no single steady state; give a horizon")
    return np.clip(solution, 0.0, None)


def _occupancy(chain: Chain, horizon: float) -> np.ndarray:
    """Mean seconds in each state over [0, horizon], by uniformisation."""
    generator = _generator(chain)
    pace = float(-generator.diagonal().min()) * 1.02 or 1.0
    step = csr_matrix(diags(np.ones(len(chain.states))) + generator / pace).T.tocsr()
    mean = pace * horizon
    terms = int(mean + 8 * np.sqrt(mean) + 20)
    # ∫₀ᵀ P(N(t) = k) dt = P(N(T) > k) / pace
    weights = poisson.sf(np.arange(terms), mean) / pace
    distribution, total = chain.initial.copy(), np.zeros(len(chain.states))
    for weight in weights:
        total += weight * distribution
        distribution = step @ distribution
    return total
