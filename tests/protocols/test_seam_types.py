"""A protocol that hears nothing costs nothing: everything has a default."""

import pytest

from riprap.base.errors import UsageError
from riprap.protocols import registry
from riprap.protocols.director import Director, DirectorTick
from riprap.protocols.partial import PARTIAL
from riprap.protocols.protocol import Protocol, RestorePlan, Surroundings


def test_a_protocol_and_a_director_that_do_nothing():
    plan = RestorePlan({}, whole=False, exact=False, delivered="passed")
    protocol = Protocol(Surroundings("A", ("A",), {}, {}, {}, ()), plan)
    assert protocol.begin(None, 0) == []
    assert protocol.snapshot() == b""
    assert not protocol.subscriptions
    director = Director()
    assert director.begin([]) == director.handle(DirectorTick(0)) == []


def test_protocols_are_known_by_name():
    assert registry.protocol("partial") is PARTIAL
    assert all(spec.name == name for name, spec in registry.REGISTRY.items())
    with pytest.raises(UsageError, match="partail"):
        registry.protocol("partail")
