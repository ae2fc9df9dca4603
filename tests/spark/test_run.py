"""Runs of real processes on Spark: exact without faults, going on through kills, with counts that are true."""

import pytest
from drivers import player

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    with player("run_scenes.py", tmp_path_factory.mktemp("local")) as play:
        yield play


@pytest.mark.parametrize(
    "scene",
    [
        "one_element_per_operator",
        "in_shards",
        "killed_elements_come_back_alone",
        "a_stopped_element_is_replaced",
        "killed_sources_lose_nothing_uncounted",
        "random_kills_and_true_counts",
        "a_checkpoint_in_the_plan_saves_the_state",
        "an_exception_of_an_operator_ends_the_run",
        "an_exception_in_the_driver_leaves_no_process",
    ],
)
def test_local(local, scene):
    local(scene)


@pytest.mark.soak
@pytest.mark.parametrize("scene", ["fused_chains", "all_in_one", "five_minutes_of_kills", "fifty_kills_of_sources"])
def test_longer(local, scene):
    local(scene)
