"""Runs of real processes on Spark: exact without faults, going on through kills, with counts that are true."""

import pytest
from cluster import standalone
from drivers import player

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    with player("run_scenes.py", tmp_path_factory.mktemp("local")) as play:
        yield play


@pytest.mark.parametrize(
    "scene",
    [
        "bad_input_is_refused_in_a_sentence",
        "one_element_per_operator",
        "fused_chains",
        "all_in_one",
        "in_shards",
        "killed_elements_come_back_alone",
        "a_stopped_element_is_replaced",
        "random_kills_and_true_counts",
        "a_checkpoint_in_the_plan_saves_the_state",
        "the_command_tells_what_became_of_the_run",
        "an_exception_of_an_operator_ends_the_run",
        "an_exception_in_the_driver_leaves_no_process",
    ],
)
def test_local(local, scene):
    local(scene)


@pytest.fixture(scope="module")
def executors(tmp_path_factory):
    with player("run_scenes.py", tmp_path_factory.mktemp("executors"), "local-cluster[2,4,1024]") as play:
        yield play


@pytest.mark.parametrize(
    "scene", ["elements_of_a_killed_executor_move", "a_replaced_element_that_goes_on_ends_by_itself"]
)
def test_executors(executors, scene):
    executors(scene)


@pytest.mark.soak
def test_standalone(tmp_path):
    with standalone(tmp_path) as url, player("run_scenes.py", tmp_path, url) as play:
        play("elements_of_a_killed_executor_move")


@pytest.mark.soak
def test_five_minutes_of_kills(local):
    local("five_minutes_of_kills")
