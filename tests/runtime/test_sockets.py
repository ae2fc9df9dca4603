"""Which way elements reach each other: there is one, and no other is tried."""

import os
import socket
import sys

import pytest

from riprap.base.errors import DataError
from riprap.runtime.transport.sockets import listen, of_same_user, start_connecting

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names without files are Linux's")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_on_loopback_there_is_a_name_and_no_port(host):
    listening, location = listen(host, None)
    with listening, start_connecting(location) as made:
        assert listening.family == socket.AF_UNIX
        assert location.startswith("unix://riprap-")
        listening.setblocking(True)
        accepted, peer = listening.accept()
        with accepted:
            made.send(b"x")
            assert accepted.recv(1) == b"x"
            assert (made.getsockname(), made.getpeername()) == (peer, accepted.getsockname())
            assert peer, "no name, so nobody can tell which two ends belong together"


def test_elsewhere_and_under_tls_there_is_a_port():
    for host, tls, scheme in (("0.0.0.0", None, "tcp://"), ("127.0.0.1", object(), "tls://127.0.0.1:")):
        listening, location = listen(host, tls)
        with listening, start_connecting(location.replace("0.0.0.0", "127.0.0.1")) as made:
            assert location.startswith(scheme)
            assert listening.family == made.family == socket.AF_INET


def test_nobody_is_reached_in_another_way_when_nobody_listens():
    listening, location = listen("127.0.0.1", None)
    listening.close()
    with pytest.raises(ConnectionRefusedError):
        start_connecting(location)


def test_another_user_who_has_the_name_is_neither_connected_to_nor_admitted(monkeypatch):
    listening, location = listen("127.0.0.1", None)
    with listening:
        with start_connecting(location):
            listening.setblocking(True)
            accepted, _ = listening.accept()
            with accepted:
                assert of_same_user(accepted)
                monkeypatch.setattr(os, "getuid", lambda: 2**16)
                assert not of_same_user(accepted)
        with pytest.raises(DataError, match="another user listens at riprap-"):
            start_connecting(location)


@pytest.mark.parametrize("location", ["", "unix://", "tcp://x", "grpc://127.0.0.1:1", "riprap-3", "tcp://"])
def test_what_is_no_location_is_refused(location):
    with pytest.raises(DataError, match="is not a location of an element"):
        start_connecting(location)
