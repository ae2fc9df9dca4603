"""The interpreter, which knows nothing of dependencies, and the compiled network give the same trajectory."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.san.interpreter import interpret
from tests.san.networks import all_closed_forms, everything

from riprap.san.compiled import Compiled, compile_network
from riprap.san.generator import key
from riprap.san.simulate import SimulatedSpan

# One process for all tests that use the same networks: each is compiled once.
pytestmark = pytest.mark.xdist_group("san-networks")

FULL = compile_network(everything())
SIMPLE = compile_network(all_closed_forms())


def assert_same(compiled: Compiled, seed: int, span: SimulatedSpan) -> None:
    expected = interpret(compiled.network, key(seed, 0), span)
    found = compiled.run(key(seed, 0), span, trace=100_000)
    assert found.events == expected.events
    np.testing.assert_array_equal(found.activities, expected.activities)
    np.testing.assert_array_equal(found.times, expected.times)
    np.testing.assert_array_equal(found.marking, expected.marking)
    np.testing.assert_array_equal(found.rewards, expected.rewards)


@settings(max_examples=16)
@given(
    st.integers(0, 2**32),
    st.floats(0.0, 5.0),
    st.floats(0.0, 1.0),
    st.integers(3, 20),
    st.floats(0.0, 10.0),
)
@example(seed=422, pace=5e-324, good=0.0, limit=4, start=0.0)  # a delay beyond the largest number
def test_every_kind_of_element(seed, pace, good, limit, start):
    compiled = FULL.with_parameters({"pace": pace, "good": good, "limit": limit})
    assert_same(compiled, seed, SimulatedSpan(20.0, start))


@settings(max_examples=8)
@given(st.integers(0, 2**32), st.floats(0.1, 2.0))
def test_composed_networks(seed, rate):
    assert_same(SIMPLE.with_parameters({"one.arrival": rate, "shop.copy2.failure": rate}), seed, SimulatedSpan(30.0))


def test_a_replication_is_a_function_of_its_key():
    many = FULL.run_many(np.array([key(7, 0), key(7, 1), key(7, 0)]), SimulatedSpan(50.0)).rewards
    np.testing.assert_array_equal(many[0], many[2])
    assert not np.array_equal(many[0], many[1])
    np.testing.assert_array_equal(many[1], FULL.run(key(7, 1), SimulatedSpan(50.0)).rewards)


def test_changed_parameters_need_to_exist():
    with pytest.raises(Exception, match="not a parameter"):
        FULL.with_parameters({"pase": 1.0})
