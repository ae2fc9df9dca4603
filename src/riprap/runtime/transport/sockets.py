"""Sockets that never wait: plain ones, and ones under TLS.

Both say "would block" as None, and the end of what the other side sends as 0. A connection that breaks ends like one
that is closed: what had come before is read first, as the kernel keeps it.

TLS is the standard library's `ssl`, version 1.3. One certificate made for the run is presented by every element and
trusted alone, under a name of its own (`wire.CERTIFICATE_NAME`). OpenSSL takes one record of 16 KB at a time and knows
no list of buffers, so what is sent is copied into one piece first.
"""

import contextlib
import os
import socket
import ssl
import struct
import sys
import tempfile
from collections.abc import Sequence
from urllib.parse import urlsplit

from riprap.base.errors import DataError
from riprap.runtime.run import Tls
from riprap.runtime.transport.columns import Buffer, size_of
from riprap.runtime.wire import CERTIFICATE_NAME

_BACKLOG = 128
_MOST_BUFFERS = 512  # in one call: systems allow 1,024
_SEND_BYTES = 1 << 20  # that the system may hold for a consumer on the same machine; it allows less
_PIECE = 1 << 18  # bytes that are copied for TLS at a time


class Socket:
    """One connection. `receive` and `transmit` may do part of what they are asked for."""

    def __init__(self, plain: socket.socket) -> None:
        plain.setblocking(False)
        if plain.family != socket.AF_UNIX:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = plain

    def fileno(self) -> int:
        return self._socket.fileno()

    def handshake(self) -> bool:
        """Whether the connection is ready to be used; if not, ask again when something comes or may go."""
        return True

    def receive(self, buffers: Sequence[memoryview]) -> int | None:
        """How many bytes came; 0: none will come any more; None: none are there now."""
        try:
            if len(buffers) == 1:
                return self._socket.recv_into(buffers[0])
            return self._socket.recvmsg_into(buffers)[0]
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return 0

    def transmit(self, buffers: Sequence[Buffer]) -> int | None:
        """How many bytes went; None: there is no room now. Raises `OSError` where nobody is there."""
        try:
            if len(buffers) == 1:
                return self._socket.send(buffers[0])
            return self._socket.sendmsg(buffers[:_MOST_BUFFERS])
        except (BlockingIOError, InterruptedError):
            return None

    @property
    def more(self) -> bool:
        """Whether bytes that came wait here, where no selector sees them."""
        return False

    def end(self) -> None:
        """Nothing more will be sent; what comes can still be read."""
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
    """The next bytes behind the first `skip`, in one piece."""
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


def listen(host: str) -> socket.socket:
    """A listening socket on a port that the system chooses."""
    family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.bind(address)
        listening.listen(_BACKLOG)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening


def listen_beside(listening: socket.socket) -> socket.socket | None:
    """Where producers on the same machine connect: a Unix socket, over which bytes take half the processor's time.

    It has no file, only a name, which belongs to the loopback port and is seen wherever that is. None: there is none,
    as the port is not a loopback one's, or the system has no such names, or somebody has taken this one.
    """
    host, port = listening.getsockname()[:2]
    if not _local(host):
        return None
    beside = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        beside.bind(_name_beside(port))
        beside.listen(_BACKLOG)
        beside.setblocking(False)
    except OSError:
        beside.close()
        return None
    return beside


def _connected_beside(port: int) -> socket.socket | None:
    """To whom of this user's listens beside a port; None: nobody does."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
        made.bind(b"")  # a name that the system chooses: so both ends of a connection can be told
        made.connect(_name_beside(port))
        _, user, _ = struct.unpack("3i", made.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if user == os.getuid():  # names belong to whoever comes first, and the token is not for others
            return made
    except OSError:
        pass
    made.close()
    return None


def _local(host: str) -> bool:
    return sys.platform == "linux" and (host.startswith("127.") or host == "::1")


def _name_beside(port: int) -> bytes:
    return b"\0riprap-%d" % port


def location_of(listening: socket.socket, tls: Tls | None) -> str:
    host, port = listening.getsockname()[:2]
    return f"{'tls' if tls else 'tcp'}://{f'[{host}]' if ':' in host else host}:{port}"


def start_connecting(location: str) -> socket.socket:
    """A socket that is being connected: writable as soon as it is, or has failed."""
    parts = urlsplit(location)
    if parts.scheme not in ("tcp", "tls") or parts.hostname is None or parts.port is None:
        raise DataError(f"{location} is no location of an element; expected tcp://HOST:PORT or tls://HOST:PORT")
    family, _, _, _, address = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)[0]
    if parts.scheme == "tcp" and _local(str(address[0])) and (beside := _connected_beside(parts.port)) is not None:
        return beside
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setblocking(False)
    made.connect_ex(address)
    return made


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
        # `ssl` reads keys from files only: one that this user alone can open, for the moment that it takes.
        with tempfile.NamedTemporaryFile(prefix="riprap-tls-") as file:
            file.write(tls.key + b"\n" + tls.certificate)
            file.flush()
            os.fchmod(file.fileno(), 0o600)
            self.server.load_cert_chain(file.name)

    def accepted(self, plain: socket.socket) -> Socket:
        return SecureSocket(plain, self.server, server=True) if self.server is not None else Socket(plain)

    def connected(self, plain: socket.socket) -> Socket:
        return SecureSocket(plain, self.client, server=False) if self.client is not None else Socket(plain)
