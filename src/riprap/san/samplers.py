"""The samplers of all simulators.

Each function has the arguments (parameters…, key, counter) and returns (value, next counter). All are exact: they draw
from the named distribution for any parameters, not from an approximation.
"""

from math import exp, floor, lgamma, log, log1p, pi, sqrt

import numpy as np
from numba import njit, uint64

from riprap.san.generator import uniform

NEVER = 1e300  # seconds: a time that no run reaches; finite, to differ from "not scheduled"

_ONE = uint64(1)
_TWO = uint64(2)


@njit(cache=True)
def due(now: float, delay: float) -> float:
    """The completion time of a delay drawn at `now`. An overflowing delay (a rate of 1e-320, a variance of 1e9) gives
    NEVER: an infinite time would mean "not scheduled"."""
    moment = now + delay
    return moment if moment < NEVER else NEVER


@njit(cache=True)
def exponential(rate: float, key: np.uint64, counter: np.uint64) -> tuple[float, np.uint64]:
    u = uniform(key, counter)
    return (-log(u) / rate if rate > 0.0 else NEVER), counter + _ONE


@njit(cache=True)
def between(low: float, high: float, key: np.uint64, counter: np.uint64) -> tuple[float, np.uint64]:
    """Uniform."""
    return low + (high - low) * uniform(key, counter), counter + _ONE


@njit(cache=True)
def standard_normal(key: np.uint64, counter: np.uint64) -> tuple[float, np.uint64]:
    """Box and Muller; one of the two values."""
    radius = sqrt(-2.0 * log(uniform(key, counter)))
    return radius * np.cos(2.0 * pi * uniform(key, counter + _ONE)), counter + _TWO


@njit(cache=True)
def normal(mean: float, deviation: float, key: np.uint64, counter: np.uint64) -> tuple[float, np.uint64]:
    """Truncated normal: negative values are drawn again."""
    while True:
        z, counter = standard_normal(key, counter)
        value = mean + deviation * z
        if value >= 0.0:
            return value, counter


@njit(cache=True)
def lognormal(mu: float, sigma: float, key: np.uint64, counter: np.uint64) -> tuple[float, np.uint64]:
    z, counter = standard_normal(key, counter)
    return exp(mu + sigma * z), counter


@njit(cache=True)
def weibull(shape: float, scale: float, key: np.uint64, counter: np.uint64) -> tuple[float, np.uint64]:
    return scale * (-log(uniform(key, counter))) ** (1.0 / shape), counter + _ONE


@njit(cache=True)
def gamma(shape: float, scale: float, key: np.uint64, counter: np.uint64) -> tuple[float, np.uint64]:
    """Marsaglia and Tsang's rejection."""
    boost = 1.0
    if shape < 1.0:
        boost = uniform(key, counter) ** (1.0 / shape)
        counter = counter + _ONE
        shape = shape + 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / sqrt(9.0 * d)
    while True:
        z, counter = standard_normal(key, counter)
        v = 1.0 + c * z
        if v <= 0.0:
            continue
        v = v * v * v
        u = uniform(key, counter)
        counter = counter + _ONE
        if log(u) < 0.5 * z * z + d - d * v + d * log(v):
            return scale * boost * d * v, counter


@njit(cache=True)
def one_of(values: np.ndarray, key: np.uint64, counter: np.uint64) -> tuple[float, np.uint64]:
    """One of `values`, each equally likely: the empirical distribution."""
    return values[int(uniform(key, counter) * len(values))], counter + _ONE


@njit(cache=True)
def poisson(mean: float, key: np.uint64, counter: np.uint64) -> tuple[int, np.uint64]:
    """Knuth's product below 10; Hörmann's transformed rejection (PTRS) above."""
    if mean <= 0.0:
        return 0, counter
    if mean < 10.0:
        limit = exp(-mean)
        product = uniform(key, counter)
        counter = counter + _ONE
        count = 0
        while product > limit:
            product *= uniform(key, counter)
            counter = counter + _ONE
            count += 1
        return count, counter
    root = sqrt(mean)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2.0)
    while True:
        u = uniform(key, counter) - 0.5
        v = uniform(key, counter + _ONE)
        counter = counter + _TWO
        us = 0.5 - abs(u)
        k = floor((2.0 * a / us + b) * u + mean + 0.43)
        if us >= 0.07 and v <= v_r:
            return int(k), counter
        if k < 0 or (us < 0.013 and v > us):
            continue
        if log(v) + log(inverse_alpha) - log(a / (us * us) + b) <= k * log(mean) - mean - lgamma(k + 1.0):
            return int(k), counter


@njit(cache=True)
def binomial(n: int, p: float, key: np.uint64, counter: np.uint64) -> tuple[int, np.uint64]:
    """Number of successes of n: by waiting times if few, else Hörmann's transformed rejection (BTRS)."""
    if n <= 0 or p <= 0.0:
        return 0, counter
    if p >= 1.0:
        return n, counter
    if n == 1:
        return int(uniform(key, counter) < p), counter + _ONE
    flip = p > 0.5
    q = 1.0 - p if flip else p
    if n * q < 10.0:
        # Gaps between successes are geometric.
        k = 0
        position = 0
        scale = log1p(-q)
        while True:
            position += floor(log(uniform(key, counter)) / scale) + 1
            counter = counter + _ONE
            if position > n:
                break
            k += 1
        return (n - k if flip else k), counter
    spread = sqrt(n * q * (1.0 - q))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * q
    c = n * q + 0.5
    alpha = (2.83 + 5.1 / b) * spread
    v_r = 0.92 - 4.2 / b
    odds = q / (1.0 - q)
    mode = floor((n + 1) * q)
    while True:
        u = uniform(key, counter) - 0.5
        v = uniform(key, counter + _ONE)
        counter = counter + _TWO
        us = 0.5 - abs(u)
        x = floor((2.0 * a / us + b) * u + c)
        if x < 0 or x > n:
            continue
        if us < 0.07 or v > v_r:
            v = log(v * alpha / (a / (us * us) + b))
            bound = (
                (mode + 0.5) * log((mode + 1.0) / (odds * (n - mode + 1.0)))
                + (n + 1.0) * log((n - mode + 1.0) / (n - x + 1.0))
                + (x + 0.5) * log(odds * (n - x + 1.0) / (x + 1.0))
                + _stirling(mode)
                + _stirling(n - mode)
                - _stirling(x)
                - _stirling(n - x)
            )
            if v > bound:
                continue
        return (n - int(x) if flip else int(x)), counter


@njit(cache=True)
def _stirling(k: float) -> float:
    """log k! − [log √(2π) + (k + ½) log(k + 1) − (k + 1)]: Stirling's remainder; its series from 16 on."""
    if k < 16.0:
        return lgamma(k + 1.0) - (0.9189385332046727 + (k + 0.5) * log(k + 1.0) - (k + 1.0))
    square = (k + 1.0) * (k + 1.0)
    return (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / square) / square) / (k + 1.0)
