"""The accelerated simulator against the network of activities, where operators have copies: see test_accelerated.py."""

import pytest
from tests.san.test_accelerated import COPIED, GRID, assert_alike, assert_same


@pytest.mark.parametrize("case", COPIED)
def test_same_means_and_variances(case):
    assert_same(GRID[case])


@pytest.mark.parametrize("case", ["a group", "two copies"])
def test_templates_run_alike_interpreted_and_compiled(case):
    assert_alike(case)
