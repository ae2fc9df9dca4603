"""What all Flight connections of a run have in common: the token, TLS, and the addresses they bind to.

Every call carries the run's token, and no server handles a call without it. With TLS on, one certificate made for the
run is presented by every server and is the only one that clients trust. It is checked under a name of its own, not
under the server's address, because a run does not know beforehand on which machines its elements will live: who holds
the key of this certificate belongs to the run.
"""

import hmac
import logging
import socket
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pyarrow import flight

from riprap.base.errors import DataError
from riprap.runtime.run import Tls

CERTIFICATE_NAME = "riprap.run"
_log = logging.getLogger(__name__)


class Address(NamedTuple):
    """Where one life of a processing element can be reached."""

    location: str  # of its endpoint
    epoch: int


def connect(location: str, tls: Tls | None) -> flight.FlightClient:
    """A client with a connection of its own: connections that shared one would stop each other when a buffer fills."""
    return flight.FlightClient(
        location,
        tls_root_certs=tls.certificate if tls else None,
        override_hostname=CERTIFICATE_NAME if tls else None,
        generic_options=[("grpc.use_local_subchannel_pool", 1)],
    )


def call_options(token: str, timeout: float | None = None) -> flight.FlightCallOptions:
    """Options of a call that carries the token."""
    return flight.FlightCallOptions(timeout=timeout, headers=[(b"authorization", f"Bearer {token}".encode())])


class Guard(flight.ServerMiddlewareFactory):
    """Refuses calls without the token, before anything else sees them. Compares in constant time."""

    def __init__(self, server: str, token: str) -> None:
        super().__init__()
        self._server = server
        self._expected = f"Bearer {token}".encode()

    def start_call(self, info: flight.CallInfo, headers: Mapping[str, list[str]]) -> None:
        given = [value for name, values in headers.items() if name.lower() == "authorization" for value in values]
        if len(given) != 1 or not hmac.compare_digest(str(given[0]).encode(), self._expected):
            what = "a wrong token" if given else "no token"
            _log.warning("%s refused a stranger's %s call: it carried %s", self._server, info.method.name, what)
            raise flight.FlightUnauthenticatedError("this endpoint belongs to a run, and the call lacks its token")


class Server(flight.FlightServerBase):
    """Answers every `DoExchange` with `serve`. What that refuses is logged, and told to the caller as `told`."""

    def __init__(
        self,
        serve: Callable[..., None],  # descriptor, reader, writer
        refused: tuple[type[Exception], ...],
        told: type[flight.FlightError],
        **arguments: object,
    ) -> None:
        self._serve, self._refused, self._told = serve, refused, told
        super().__init__(**arguments)

    def do_exchange(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.MetadataRecordBatchWriter,
    ) -> None:
        try:
            self._serve(descriptor, reader, writer)
        except self._refused as error:
            _log.warning("%s refused: %s", context.peer(), error)
            raise self._told(str(error)) from error


def server_arguments(name: str, host: str, token: str, tls: Tls | None) -> dict[str, Any]:
    """How a server of the run is set up. The system chooses a free port."""
    return {
        "location": location(host, 0, tls),
        "middleware": {"guard": Guard(name, token)},
        "tls_certificates": [(tls.certificate, tls.key)] if tls else None,
    }


def location(host: str, port: int, tls: Tls | None) -> str:
    bracketed = f"[{host}]" if ":" in host else host
    return f"{'grpc+tls' if tls else 'grpc'}://{bracketed}:{port}"


def own_address(coordinator: str) -> str:
    """The address of this machine from which the coordinator is reached; nothing is sent to find out."""
    parts = urlsplit(coordinator)
    if parts.hostname is None or parts.port is None:
        raise DataError(f"{coordinator} is no location of a coordinator; expected grpc://HOST:PORT")
    family, _, _, _, target = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(target)
        return str(probe.getsockname()[0])
