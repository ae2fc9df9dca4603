"""Real kills under each protocol, and of runs that follow live inputs."""

import pytest
from drivers import player

from riprap.protocols.registry import REGISTRY

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    with player("protocol_scenes.py", tmp_path_factory.mktemp("local")) as play:
        yield play


@pytest.mark.parametrize("protocol", [name for name in REGISTRY if name != "partial"])
def test_kills_under_a_protocol(local, protocol):
    local("kills_under_a_protocol", protocol)


def test_live_inputs_are_followed(local):
    local("live_inputs_are_followed")
