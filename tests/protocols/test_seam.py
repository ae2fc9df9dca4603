"""A protocol that hears nothing costs nothing: everything has a default."""

from riprap.protocols.director import Director, Tick
from riprap.protocols.protocol import Protocol, RestorePlan, Surroundings


def test_a_protocol_and_a_director_that_do_nothing():
    plan = RestorePlan({}, whole=False, exact=False, delivered="passed")
    protocol = Protocol(Surroundings("A", ("A",), {}, {}, {}, ()), plan)
    assert protocol.begin(None, 0) == []
    assert protocol.snapshot() == b""
    assert not protocol.hears
    director = Director()
    assert director.begin([]) == director.handle(Tick(0)) == []
