"""Which way elements of one machine reach each other."""

import socket
import sys

import pytest

from riprap.runtime.transport.sockets import listen, listen_beside, location_of, start_connecting

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names without files are Linux's")


@pytest.fixture
def port():
    with listen("127.0.0.1") as listening:
        yield listening


def way(listening: socket.socket, tls: bool = False) -> int:
    with start_connecting(location_of(listening, object() if tls else None)) as made:
        return made.family


def test_who_listens_beside_its_port_is_reached_there(port):
    with listen_beside(port) as beside:
        with start_connecting(location_of(port, None)) as made:
            accepted, peer = beside.accept()
            with accepted:
                made.send(b"x")
                assert accepted.recv(1) == b"x"
                assert (made.getsockname(), made.getpeername()) == (peer, accepted.getsockname())
                assert peer, "no name, so nobody can tell which two ends belong together"
        assert way(port, tls=True) == socket.AF_INET


def test_where_nobody_listens_beside_the_port_is_taken(port):
    assert way(port) == socket.AF_INET
    listen_beside(port).close()
    assert way(port) == socket.AF_INET


def test_whoever_took_the_name_before_is_not_spoken_with_unless_it_is_the_same_user(port, monkeypatch):
    with listen_beside(port):
        assert listen_beside(port) is None
        monkeypatch.setattr("os.getuid", lambda: 2**16)
        assert way(port) == socket.AF_INET


def test_only_loopback_has_such_names():
    with listen("0.0.0.0") as listening:
        assert listen_beside(listening) is None
