"""The accelerated simulator against the network of activities, where operators are replicated: see `test_accelerated`.

A file of its own, for each of these networks takes long to compile, and another worker can do it.
"""

import pytest
from tests.san.test_accelerated import GRID, REPLICAS, assert_alike, assert_same


@pytest.mark.parametrize("case", REPLICAS)
def test_same_means_and_variances_of_replicas(case):
    assert_same(GRID[case])


@pytest.mark.parametrize("case", REPLICAS)
def test_templates_of_replicas_run_alike_interpreted_and_compiled(case):
    assert_alike(GRID[case])
