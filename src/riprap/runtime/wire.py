"""What all Flight connections of a run share: authentication, TLS, and addresses.

Every call carries a proof that its caller knows the run's token, and servers refuse calls without it. The server's
first message is its own proof, before which the caller trusts nothing. A proof is an HMAC-SHA-256 over the role, the
server's location and a nonce of the caller. With TLS, every server presents the one certificate of the run, and clients
trust no other. It is checked under a fixed name, not under the server's address, because a run does not know in advance
on which machines its elements will run: a process that holds the key of this certificate belongs to the run.
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
    """The address of one incarnation of a processing element."""

    location: str  # of its endpoint
    epoch: int


def connect(location: str, tls: Tls | None) -> flight.FlightClient:
    """A client with a separate connection: clients that share one block each other when a buffer fills."""
    return flight.FlightClient(
        location,
        tls_root_certs=tls.certificate if tls else None,
        override_hostname=CERTIFICATE_NAME if tls else None,
        generic_options=[("grpc.use_local_subchannel_pool", 1)],
    )


class Proofs:
    """Proofs by which the two ends of a call authenticate. The token is not sent, and no proof is valid twice."""

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
        raise flight.FlightUnauthenticatedError(f"the server at {location} does not prove that it belongs to this run")
    return writer, reader


class Guarded(flight.ServerMiddleware):
    """An admitted call; `answer` proves to its caller that this is the right server."""

    def __init__(self, answer: str) -> None:
        super().__init__()
        self.answer = answer


class Guard(flight.ServerMiddlewareFactory):
    """Refuses calls without a valid proof, before any other handler. Compares in constant time.

    A proof is for one location and one nonce of the caller, and each nonce is valid once: a proof that was overheard,
    or sent to another process that had taken the port, is useless.
    """

    def __init__(self, server: str, token: str) -> None:
        super().__init__()
        self._server = server
        self._proofs = Proofs(token)
        self._seen: set[str] = set()
        self._lock = Lock()
        self.location = ""  # of the server, once it is known

    def start_call(self, info: flight.CallInfo, headers: Mapping[str, list[str]]) -> Guarded:
        proofs = [value for name, values in headers.items() if name.lower() == _HEADER for value in values]
        if len(proofs) == 1 and (nonce := self._admitted(str(proofs[0]))) is not None:
            return Guarded(self._proofs.of("coordinator", self.location, nonce))
        what = "a wrong proof" if proofs else "no proof"
        _log.warning("%s refused a %s call from outside the run: it carried %s", self._server, info.method.name, what)
        raise flight.FlightUnauthenticatedError("the call does not prove that it belongs to this endpoint's run")

    def _admitted(self, header: str) -> str | None:
        """The nonce of a proof that is valid and was not seen before."""
        scheme, _, rest = header.partition(" ")
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
    """Answers every `DoExchange` with `serve`. Refusals are logged, and sent to the caller as `error_type`."""

    def __init__(
        self,
        serve: Callable[..., None],  # descriptor, reader, writer
        refused: tuple[type[Exception], ...],
        error_type: type[flight.FlightError],
        **arguments: object,
    ) -> None:
        self._serve, self._refused, self._error_type = serve, refused, error_type
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
            raise self._error_type(str(error)) from error


def server_arguments(host: str, guard: Guard, tls: Tls | None) -> dict[str, Any]:
    """The arguments of a server of the run. The system chooses a free port."""
    return {
        "location": location(host, 0, tls),
        "middleware": {_GUARD: guard},
        "tls_certificates": [(tls.certificate, tls.key)] if tls else None,
    }


def location(host: str, port: int, tls: Tls | None) -> str:
    bracketed = f"[{host}]" if ":" in host else host
    return f"{'grpc+tls' if tls else 'grpc'}://{bracketed}:{port}"


def own_address(coordinator: str) -> str:
    """The address of this machine on the route to the coordinator; finding it sends nothing."""
    parts = urlsplit(coordinator)
    if parts.hostname is None or parts.port is None:
        raise DataError(f"{coordinator} is not the location of a coordinator; expected grpc://HOST:PORT")
    family, _, _, _, target = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(target)
        return str(probe.getsockname()[0])
