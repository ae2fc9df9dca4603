"""Every sampler draws from the distribution it names; the generator is uniform and its streams differ."""

import numpy as np
import pytest
from numba import njit
from scipy import stats
from tests.san.interpreter import interpret
from tests.san.networks import DELAYS

from riprap.san import samplers
from riprap.san.formalism import Activity, Network, SanPlace
from riprap.san.generator import key, keys, uniform
from riprap.san.simulate import SimulatedSpan


def draws(sampler, parameters, count=20_000, seed=3):
    stream, counter = key(seed, 0), np.uint64(0)
    values = np.empty(count)
    for index in range(count):
        value, counter = sampler(*parameters, stream, counter)
        counter = np.uint64(counter)
        values[index] = value
    return values


@pytest.mark.parametrize(
    ("sampler", "parameters", "distribution"),
    [
        (samplers.exponential, (2.0,), stats.expon(scale=0.5)),
        (samplers.between, (1.0, 3.0), stats.uniform(1.0, 2.0)),
        (samplers.normal, (1.0, 0.7), stats.truncnorm(-1.0 / 0.7, np.inf, 1.0, 0.7)),
        (samplers.lognormal, (0.3, 0.5), stats.lognorm(0.5, scale=np.exp(0.3))),
        (samplers.weibull, (1.7, 2.0), stats.weibull_min(1.7, scale=2.0)),
        (samplers.gamma, (2.5, 0.4), stats.gamma(2.5, scale=0.4)),
        (samplers.gamma, (0.4, 2.0), stats.gamma(0.4, scale=2.0)),
    ],
)
def test_continuous(sampler, parameters, distribution):
    assert stats.kstest(draws(sampler, parameters), distribution.cdf).pvalue > 1e-4


@pytest.mark.parametrize(
    ("n", "p"), [(1, 0.3), (7, 0.2), (30, 0.9), (60, 0.4), (500, 0.03), (3_000, 0.7), (10**6, 0.2)]
)
def test_binomial(n, p):
    assert_counts(draws(samplers.binomial, (n, p)), stats.binom(n, p))


@pytest.mark.parametrize("mean", [0.5, 4.0, 9.9, 10.1, 250.0, 1e5])
def test_poisson(mean):
    assert_counts(draws(samplers.poisson, (mean,)), stats.poisson(mean))


def assert_counts(values, distribution):
    """Pearson's test over classes of about equal probability."""
    edges = np.unique(distribution.ppf(np.linspace(0, 1, 21)[1:-1]))
    classes = np.searchsorted(edges, values, side="left")
    bounds = np.concatenate([[0.0], distribution.cdf(edges), [1.0]])
    expected = np.diff(bounds) * len(values)
    observed = np.bincount(classes, minlength=len(expected))
    kept = expected > 5
    assert stats.chisquare(observed[kept], expected[kept] * observed[kept].sum() / expected[kept].sum()).pvalue > 1e-4


@pytest.mark.parametrize(
    ("name", "distribution"),
    [
        ("exponential", stats.expon(scale=0.5)),
        ("uniform", stats.uniform(0.2, 0.6)),
        ("normal", stats.truncnorm(-2.5, np.inf, 0.5, 0.2)),
        ("lognormal", stats.lognorm(0.5, scale=np.exp(-1.0))),
        ("weibull", stats.weibull_min(1.5, scale=0.5)),
        ("gamma", stats.gamma(2.5, scale=0.2)),
    ],
)
def test_activities_take_as_long_as_their_distribution_says(name, distribution):
    network = Network("clock", (SanPlace("a"),), (Activity("tick", DELAYS[name]),))
    times = interpret(network, key(2, 0), SimulatedSpan(600.0)).times
    assert len(times) > 500
    assert stats.kstest(np.diff(times), distribution.cdf).pvalue > 1e-4


def test_edges():
    stream = key(1, 0)
    assert samplers.binomial(10, 0.0, stream, np.uint64(0))[0] == 0
    assert samplers.binomial(10, 1.0, stream, np.uint64(0))[0] == 10
    assert samplers.poisson(0.0, stream, np.uint64(0))[0] == 0
    assert samplers.exponential(0.0, stream, np.uint64(0))[0] == samplers.NEVER


@njit
def _uniforms(stream, count):
    values = np.empty(count)
    for index in range(count):
        values[index] = uniform(stream, np.uint64(index))
    return values


def test_the_generator_is_uniform_and_independent():
    values = _uniforms(key(5, 1), 400_000)
    assert values.min() > 0
    assert values.max() < 1
    assert stats.kstest(values, "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 0.01
    other = _uniforms(key(5, 2), 400_000)
    assert abs(np.corrcoef(values, other)[0, 1]) < 0.01


def test_keys_are_odd_and_distinct():
    table = keys(9, 0, 2_000)
    assert len(set(table.tolist())) == 2_000
    assert all(int(value) % 2 for value in table)
    assert keys(9, 100, 5).tolist() == table[100:105].tolist()


def test_one_of_the_values():
    values = np.array([1.0, 4.0, 9.0, 16.0])
    counts = np.unique(draws(samplers.one_of, (values,), 4_000), return_counts=True)
    assert counts[0].tolist() == values.tolist()
    assert stats.chisquare(counts[1]).pvalue > 1e-4
