"""Runs on executors that are killed."""

import pytest
from cluster import standalone
from drivers import player

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def executors(tmp_path_factory):
    with player("executor_scenes.py", tmp_path_factory.mktemp("executors"), "local-cluster[2,4,1024]") as play:
        yield play


@pytest.mark.parametrize(
    "scene", ["elements_of_a_killed_executor_move", "a_replaced_element_that_goes_on_ends_by_itself"]
)
def test_executors(executors, scene):
    executors(scene)


@pytest.mark.soak
def test_standalone(tmp_path):
    with standalone(tmp_path) as url, player("executor_scenes.py", tmp_path, url) as play:
        play("elements_of_a_killed_executor_move")
