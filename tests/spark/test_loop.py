"""Apps that nobody wrote go through the whole loop: assess, profile, model, plan, run, prove (`loop_scenes.py`)."""

import pytest
from drivers import player
from tests.simulation.shares import soak

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def play(tmp_path_factory):
    with player("loop_scenes.py", tmp_path_factory.mktemp("loops")) as play:
        yield play


@pytest.mark.parametrize("seed", range(5))
def test_a_random_app_goes_through_the_loop(play, seed):
    play("loop", seed)


@pytest.mark.soak
def test_many_random_apps_go_through_the_loop(play):
    soak(5, 105, lambda seed: play("loop", seed))
