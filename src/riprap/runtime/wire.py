"""What all Flight connections of a run have in common: proofs, TLS, and the addresses they bind to.

Every call carries a proof that its caller knows the run's token, and no server handles a call without it; the server's
first message is a proof of its own, and until then the caller believes nothing. A proof is an HMAC-SHA-256 over the
role, the server's location and a nonce of the caller. With TLS on, one certificate made for the
run is presented by every server and is the only one that clients trust. It is checked under a name of its own, not
under the server's address, because a run does not know beforehand on which machines its elements will live: who holds
the key of this certificate belongs to the run.
"""

import hashlib
import hmac
import logging
import socket
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pyarrow import flight

from riprap.base.errors import DataError
from riprap.base.randomness import nonce
from riprap.runtime.run_context import Tls

CERTIFICATE_NAME = "riprap.run"
_HEADER, _SCHEME, _GUARD = "authorization", "Riprap", "guard"
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


class Proofs:
    """What the two ends of a call show each other. The token itself does not travel, and no proof counts twice."""

    def __init__(self, token: str) -> None:
        self._key = hashlib.sha256(b"riprap coordinator\0" + token.encode()).digest()

    def of(self, role: str, location: str, nonce: str) -> str:
        return hmac.new(self._key, "\0".join((role, location, nonce)).encode(), "sha256").hexdigest()


def called(
    client: flight.FlightClient, location: str, token: str, descriptor: flight.FlightDescriptor
) -> tuple[flight.MetadataRecordBatchWriter, flight.MetadataRecordBatchReader]:
    """A call whose other end has proved that it knows the token. Raises `FlightUnauthenticatedError` if it has not."""
    proofs, own = Proofs(token), nonce().hex()
    proof = f"{_SCHEME} {own} {proofs.of('element', location, own)}"
    options = flight.FlightCallOptions(headers=[(_HEADER.encode(), proof.encode())])
    writer, reader = client.do_exchange(descriptor, options)
    answer = reader.read_chunk().app_metadata
    if answer is None or not hmac.compare_digest(answer.to_pybytes(), proofs.of("coordinator", location, own).encode()):
        reader.cancel()
        raise flight.FlightUnauthenticatedError(
            f"whoever listens at {location} does not prove that it belongs to this run"
        )
    return writer, reader


class Guarded(flight.ServerMiddleware):
    """A call that was let in; `answer` proves to its caller that this is the right server."""

    def __init__(self, answer: str) -> None:
        super().__init__()
        self.answer = answer


class Guard(flight.ServerMiddlewareFactory):
    """Refuses calls without a proof, before anything else sees them. Compares in constant time.

    A proof is made for one location and one nonce of the caller, and each nonce counts once: what was overheard, or
    sent to somebody else who had taken the port, opens nothing.
    """

    def __init__(self, server: str, token: str) -> None:
        super().__init__()
        self._server = server
        self._proofs = Proofs(token)
        self._seen: set[str] = set()
        self._lock = Lock()
        self.location = ""  # of the server, once it is known

    def start_call(self, info: flight.CallInfo, headers: Mapping[str, list[str]]) -> Guarded:
        given = [value for name, values in headers.items() if name.lower() == _HEADER for value in values]
        if len(given) == 1 and (nonce := self._admitted(str(given[0]))) is not None:
            return Guarded(self._proofs.of("coordinator", self.location, nonce))
        what = "a wrong proof" if given else "no proof"
        _log.warning("%s refused a stranger's %s call: it carried %s", self._server, info.method.name, what)
        raise flight.FlightUnauthenticatedError("this endpoint belongs to a run, and the call does not prove to")

    def _admitted(self, given: str) -> str | None:
        """The nonce of a proof that holds and was not seen before."""
        scheme, _, rest = given.partition(" ")
        nonce, _, proof = rest.partition(" ")
        expected = self._proofs.of("element", self.location, nonce)
        if scheme != _SCHEME or not hmac.compare_digest(proof.encode(), expected.encode()):
            return None
        with self._lock:
            if nonce in self._seen:
                return None
            self._seen.add(nonce)
        return nonce


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
            writer.write_metadata(context.get_middleware(_GUARD).answer.encode())
            self._serve(descriptor, reader, writer)
        except self._refused as error:
            _log.warning("%s refused: %s", context.peer(), error)
            raise self._told(str(error)) from error


def server_arguments(host: str, guard: Guard, tls: Tls | None) -> dict[str, Any]:
    """How a server of the run is set up. The system chooses a free port."""
    return {
        "location": location(host, 0, tls),
        "middleware": {_GUARD: guard},
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
