"""`riprap.protect` from the objectives to the proof, with real kills; and again, which repeats nothing."""

import pytest
from drivers import player

pytestmark = pytest.mark.xdist_group("spark")


def test_from_objectives_to_the_proof(tmp_path):
    with player("protect_scenes.py", tmp_path) as play:
        play("from_objectives_to_the_proof")
