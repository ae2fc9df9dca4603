"""Non-blocking sockets: plain ones, and ones under TLS.

Both return None for "would block", and 0 for the end of the stream. A broken connection ends like a closed one: what
arrived before is in the kernel and is read first.

TLS is the standard library's `ssl`, version 1.3. Every element presents the run's own certificate, and trusts no other,
under a fixed name (`wire.CERTIFICATE_NAME`). OpenSSL writes one record of 16 KB at a time and has no scatter-gather, so
buffers are first copied into one block.
"""

import contextlib
import os
import socket
import ssl
import struct
import sys
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from riprap.base import files
from riprap.base.errors import DataError
from riprap.base.randomness import nonce
from riprap.base.scratch import scratch
from riprap.runtime.run_context import Tls
from riprap.runtime.transport.wire_columns import Buffer, size_of
from riprap.runtime.wire import CERTIFICATE_NAME

_BACKLOG = 128
_MOST_BUFFERS = 512  # in one call: systems allow 1,024
_SEND_BYTES = 1 << 20  # requested send buffer for a consumer on the same machine; the system allows less
_PIECE = 1 << 18  # bytes that are copied for TLS at a time


class Socket:
    """One connection. `receive` and `transmit` may be partial."""

    def __init__(self, plain: socket.socket) -> None:
        plain.setblocking(False)
        if plain.family != socket.AF_UNIX:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = plain

    def fileno(self) -> int:
        return self._socket.fileno()

    def handshake(self) -> bool:
        """Whether the connection is ready; if not, call again when it is readable or writable."""
        return True

    def receive(self, buffers: Sequence[memoryview]) -> int | None:
        """The number of bytes received; 0: the end of the stream; None: none available now."""
        try:
            if len(buffers) == 1:
                return self._socket.recv_into(buffers[0])
            return self._socket.recvmsg_into(buffers)[0]
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return 0

    def transmit(self, buffers: Sequence[Buffer]) -> int | None:
        """The number of bytes sent; None: no room now. Raises `OSError` if the connection is lost."""
        try:
            if len(buffers) == 1:
                return self._socket.send(buffers[0])
            return self._socket.sendmsg(buffers[:_MOST_BUFFERS])
        except (BlockingIOError, InterruptedError):
            return None

    @property
    def more(self) -> bool:
        """Whether received bytes are buffered here, where no selector reports them."""
        return False

    def end(self) -> None:
        """Send nothing more; bytes that arrive can still be read."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()


class SecureSocket(Socket):
    """The same under TLS."""

    def __init__(self, plain: socket.socket, context: ssl.SSLContext, *, server: bool) -> None:
        super().__init__(plain)
        self._secure = context.wrap_socket(
            plain,
            server_side=server,
            do_handshake_on_connect=False,
            suppress_ragged_eofs=True,
            server_hostname=None if server else CERTIFICATE_NAME,
        )
        self._socket = self._secure

    def handshake(self) -> bool:
        try:
            self._secure.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        return True

    def receive(self, buffers: Sequence[memoryview]) -> int | None:
        got = 0
        for buffer in buffers:
            while len(buffer):
                try:
                    count = self._secure.recv_into(buffer)
                except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    return got or None
                except (OSError, ValueError):
                    count = 0
                if count == 0:
                    return got
                got += count
                buffer = buffer[count:]
        return got

    def transmit(self, buffers: Sequence[Buffer]) -> int | None:
        sent = 0
        while True:
            piece = _gathered(buffers, sent)
            if not piece:
                return sent
            at = 0
            while at < len(piece):
                try:
                    at += self._secure.send(piece[at:])
                except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    return sent + at or None
            sent += at

    @property
    def more(self) -> bool:
        return self._secure.pending() > 0


def _gathered(buffers: Sequence[Buffer], skip: int) -> memoryview:
    """The next bytes after the first `skip`, in one block."""
    parts, size = [], 0
    for buffer in buffers:
        if skip >= size_of(buffer):
            skip -= size_of(buffer)
            continue
        part = memoryview(buffer).cast("B")[skip : skip + _PIECE - size]
        skip = 0
        parts.append(part)
        size += len(part)
        if size >= _PIECE:
            break
    return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))


def listen(host: str, tls: Tls | None) -> tuple[socket.socket, str]:
    """A listening socket, and its location: where producers connect.

    On a loopback address and without TLS it is a Unix socket, which needs half the CPU time and no port. It has no
    file, only an unguessable abstract name, and is visible wherever the loopback address is.
    """
    if tls is None and _local(host):
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        address: Any = f"\0riprap-{nonce().hex()[:24]}"
    else:
        family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.bind(address)
        listening.listen(_BACKLOG)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening, _location_of(listening, tls)


def _location_of(listening: socket.socket, tls: Tls | None) -> str:
    if listening.family == socket.AF_UNIX:
        return f"unix://{listening.getsockname()[1:].decode()}"
    host, port = listening.getsockname()[:2]
    return f"{'tls' if tls else 'tcp'}://{f'[{host}]' if ':' in host else host}:{port}"


def _local(host: str) -> bool:
    """Whether it is a loopback address of a system with abstract Unix sockets."""
    return sys.platform == "linux" and (host.startswith("127.") or host in ("::1", "localhost"))


def of_same_user(connected: socket.socket) -> bool:
    """Whether the other end of a Unix socket belongs to this user: any user may take a name first. True for other kinds
    of sockets."""
    if connected.family != socket.AF_UNIX:
        return True
    _, user, _ = struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return bool(user == os.getuid())


def start_connecting(location: str) -> socket.socket:
    """A socket that is being connected: it becomes writable once it is connected or has failed. Each location has one
    address: if nothing, or another user, listens there, no other is tried."""
    parts = urlsplit(location)
    if parts.scheme == "unix" and parts.netloc:
        return _connected_to(parts.netloc)
    if parts.scheme not in ("tcp", "tls") or parts.hostname is None or parts.port is None:
        raise DataError(
            f"{location} is not a location of an element; expected unix://NAME, tcp://HOST:PORT or tls://HOST:PORT"
        )
    family, _, _, _, address = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)[0]
    connecting = socket.socket(family, socket.SOCK_STREAM)
    connecting.setblocking(False)
    connecting.connect_ex(address)
    return connecting


def _connected_to(name: str) -> socket.socket:
    connecting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connecting.setblocking(False)
        connecting.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
        connecting.bind(b"")  # a name chosen by the system, so that both ends of a connection can be identified
        connecting.connect(f"\0{name}")
        if not of_same_user(connecting):
            raise DataError(f"another user listens at {name}: it is not an element of this run")
    except (OSError, DataError):
        connecting.close()
        raise
    return connecting


class Security:
    """The TLS contexts of one process; None where the run has no certificate."""

    def __init__(self, tls: Tls | None) -> None:
        self.server = self.client = None
        if tls is None:
            return
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        for context in (self.server, self.client):
            context.minimum_version = ssl.TLSVersion.TLSv1_3
        self.client.load_verify_locations(cadata=tls.certificate.decode())
        # `ssl` reads keys from files only: a temporary one, in a directory that only this user can enter.
        with scratch("tls") as directory:
            both = files.real(directory) / "key.pem"
            files.write_bytes(both, tls.key + b"\n" + tls.certificate)
            self.server.load_cert_chain(both)

    def accepted(self, plain: socket.socket) -> Socket:
        return SecureSocket(plain, self.server, server=True) if self.server is not None else Socket(plain)

    def connected(self, plain: socket.socket) -> Socket:
        return SecureSocket(plain, self.client, server=False) if self.client is not None else Socket(plain)
