"""The processing element's connection to the coordinator; `coordinator.py` defines the messages.

One thread listens. It stores what it receives (stop, address changes, fencing by a newer incarnation), and calls
`wake` so that the element's own thread looks at it soon. After `ElementFenced` or `CoordinatorLost` the process must
end and must not touch anything.
"""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Condition, Lock, Thread
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import flight

from riprap.protocols.cut import CheckpointId, Cut
from riprap.protocols.events import Durable, FromDirector
from riprap.runtime.coordination.director_host import Assignment
from riprap.runtime.coordination.element_states import WorkerState
from riprap.runtime.coordination.roster import ElementFenced
from riprap.runtime.host import Unneeded
from riprap.runtime.run_context import Run
from riprap.runtime.wire import Address, called, connect, own_address

_BROKEN = (flight.FlightError, pa.ArrowException, OSError, StopIteration)
_HANG_UP = 5.0  # seconds that the coordinator has to end the call when the client closes


class CoordinatorLost(Exception):
    """The coordinator is gone, and with it the run."""


class Incarnation(NamedTuple):
    """An incarnation that starts: its epoch, and where it starts."""

    epoch: int
    assignment: Assignment


def claimed(run: Run, task: int, executor_pid: int) -> str:
    """The element that a task runs. In a run with replicas that depends on the task's executor."""
    if all(pe.fragment.replicas == 1 for pe in run.layout.pes):
        return run.layout.pes[task].id
    executor = f"{run.host or own_address(run.coordinator)} {executor_pid}"
    client = connect(run.coordinator, run.tls)
    try:
        descriptor = flight.FlightDescriptor.for_command(json.dumps({"claim": task, "executor": executor}).encode())
        writer, reader = called(client, run.coordinator, run.token, descriptor)
        pe = str(_read(reader)["pe"])
        writer.close()
        return pe
    except _BROKEN as error:
        raise CoordinatorLost(f"the coordinator at {run.coordinator} does not answer: {error}") from error
    finally:
        with suppress(*_BROKEN):
            client.close()


class Client:
    def __init__(
        self, run: Run, pe: str, attempt: int, executor_pid: int, wake: Callable[[], None] = lambda: None
    ) -> None:
        self._run = run
        self._registration: dict[str, Any] = {
            "pe": pe,
            "attempt": attempt,
            "host": run.host or own_address(run.coordinator),
            "pid": os.getpid(),
            "executor_pid": executor_pid,
        }
        self._wake = wake
        self._gone = f"the coordinator at {run.coordinator} is gone"
        self._changed = Condition()
        self._sending = Lock()  # gRPC allows neither concurrent writes nor writes after the end
        self._ended = False
        self._book: dict[str, Address] = {}
        self._fenced: str | None = None
        self._lost = False
        self._client: flight.FlightClient | None = None
        self._writer: flight.MetadataRecordBatchWriter | None = None
        self._reader: flight.MetadataRecordBatchReader | None = None
        self._listener: Thread | None = None
        self._directed: list[FromDirector | Unneeded | Incarnation | int] = []
        self.epoch = 0  # of the current incarnation
        self.stopping = False  # the run is to end: finish and report `ended`
        self.booked = False  # it has received the whole address book
        self.first = True  # this is the element's first process in this part of the run
        self.left: set[str] = set()  # elements that had an address and have none now
        self.issued: dict[str, int] = {}  # the newest announced epoch of each element
        self.terms: dict[str, int] = {}  # the last term of each element of a group

    def register(self) -> Incarnation:
        """Start an incarnation of the element."""
        try:
            self._client = connect(self._run.coordinator, self._run.tls)
            descriptor = flight.FlightDescriptor.for_command(json.dumps(self._registration).encode())
            self._writer, self._reader = called(self._client, self._run.coordinator, self._run.token, descriptor)
            message = _read(self._reader)
            while "registered" not in message:  # skip changes of the address book: the whole book follows
                if "fenced" in message:
                    raise ElementFenced(message["fenced"])
                if "gone" in message:
                    raise CoordinatorLost(self._gone)
                message = _read(self._reader)
            registered = message["registered"]
        except flight.FlightUnauthorizedError as error:
            raise ElementFenced(str(error)) from error
        except _BROKEN as error:
            raise CoordinatorLost(f"the coordinator at {self._run.coordinator} does not answer: {error}") from error
        self._listener = Thread(
            target=self._listen, args=(self._reader,), name="answers of the coordinator", daemon=True
        )
        self._listener.start()
        self.first = registered["first"]
        incarnation = _incarnation(registered)
        self.begin(incarnation)
        return incarnation

    def begin(self, incarnation: Incarnation) -> None:
        """Send messages as this incarnation from now on."""
        self.epoch = incarnation.epoch

    def announce(self, location: str) -> None:
        """Report the location of the element's endpoint, once it accepts connections."""
        self._send(serving=location)

    def beat(self, metrics: Mapping[str, Any]) -> None:
        """A heartbeat, with the numbers for the live table."""
        self._send(beat=dict(metrics))

    def status(self, state: WorkerState) -> None:
        self._send(status=state)

    def finished(self) -> None:
        """The element's work is done, though some of it may not be visible yet."""
        self._send(finished=True)

    def failed(self, text: str, code: int = 1) -> None:
        """Report an error that a restart would meet again: the run ends with it, and with that exit code."""
        self._send(failed=text, code=code)

    def joined(self, line: int, checkpoints: Mapping[CheckpointId, Cut]) -> None:
        """The state is restored: report the recovery line and the existing checkpoints to the director."""
        self._send(
            joined={"line": line, "checkpoints": [[*id_[1:], cut.as_json()] for id_, cut in checkpoints.items()]}
        )

    def took(self, line: int, durable: Durable, size: int, taken: int) -> None:
        id_, cut, tag, forced, _ = durable
        what = {"unit": id_.unit, "epoch": id_.epoch, "number": id_.number, "cut": cut.as_json(), "line": line}
        self._send(took={**what, "tag": tag, "forced": forced, "bytes": size, "taken": taken})

    def to_director(self, message: Mapping[str, Any]) -> None:
        """A message from the element's protocol."""
        self._send(told=dict(message))

    def directed(self) -> list[FromDirector | Unneeded | Incarnation | int]:
        """The director's messages since the last call, in order; a number is the recovery line to work under.

        An `Incarnation` is returned alone. Messages to the previous incarnation are dropped, except for checkpoints to
        be deleted; messages after it are for the new incarnation.
        """
        if not self._directed:
            return []
        with self._changed:
            directed, self._directed = self._directed, []
            last = max((at for at, item in enumerate(directed) if isinstance(item, Incarnation)), default=None)
            if last is None:
                return directed
            self._directed = [item for item in directed[:last] if isinstance(item, Unneeded)] + directed[last + 1 :]
        return [directed[last]]

    def find(self, pe: str, newer_than: int, timeout: float) -> Address | None:
        """The address of an element's current incarnation if that is newer; waits up to `timeout` seconds.

        The coordinator pushes every change, so this sends no request.
        """

        def newer() -> Address | None:
            address = self._book.get(pe)
            return address if address is not None and address.epoch > newer_than else None

        with self._changed:
            return self._changed.wait_for(newer, timeout)

    def check(self) -> None:
        """Raise if this process was fenced or has lost the coordinator."""
        if self._fenced is not None:
            raise ElementFenced(self._fenced)
        if self._lost:
            raise CoordinatorLost(self._gone)

    def close(self) -> None:
        """End the connection. Earlier messages have reached the coordinator by then, if it is alive."""
        self._end()
        if self._listener is not None:
            self._listener.join(_HANG_UP)
        with suppress(*_BROKEN):
            if self._writer is not None:
                self._writer.close()
        with suppress(*_BROKEN):
            if self._client is not None:
                self._client.close()

    def _end(self) -> None:
        """Hang up, once. A lost call is cancelled: a second `done_writing` would abort the process."""
        with self._sending:
            if self._writer is not None and not self._ended:
                self._ended = True
                with suppress(*_BROKEN):
                    if self._lost and self._reader is not None:
                        self._reader.cancel()
                    else:
                        self._writer.done_writing()

    def _send(self, **message: Any) -> None:
        self.check()
        assert self._writer is not None, "register first"
        try:
            with self._sending:
                if self._ended:
                    raise CoordinatorLost(self._gone)
                self._writer.write_metadata(json.dumps({**message, "epoch": self.epoch}).encode())
        except _BROKEN as error:
            self._lost = True
            raise CoordinatorLost(self._gone) from error

    def _direct(self, message: Mapping[str, Any]) -> None:
        pe = self._registration["pe"]
        if "said" in message:
            self._directed.append(FromDirector(message["said"]))
        elif "delete" in message:
            ids = tuple(CheckpointId(pe, *id_) for id_ in message["delete"])
            self._directed.append(Unneeded(ids, message["void"]))
        elif "line" in message:
            self._directed.append(message["line"])
        elif "back" in message:
            self._directed.append(_incarnation(message["back"]))

    def _listen(self, reader: flight.MetadataRecordBatchReader) -> None:
        try:
            while not self._lost:
                message = _read(reader)
                with self._changed:
                    self.booked = self.booked or "book" in message
                    self.left.update(message.get("left", ()))
                    self.issued.update(message.get("issued", {}))
                    self.terms.update(message.get("terms", {}))
                    for pe, address in message.get("book", {}).items():
                        if address is not None:
                            self._book[pe] = Address(*address)
                            self.left.discard(pe)
                        elif self._book.pop(pe, None) is not None:
                            self.left.add(pe)
                    self.stopping = self.stopping or "stop" in message
                    self._direct(message)
                    self._fenced = self._fenced or message.get("fenced")
                    self._lost = "gone" in message
                    self._changed.notify_all()
                self._wake()
        except _BROKEN:
            self._lost = True
        self._end()  # the coordinator's server waits for this
        self._wake()


def _incarnation(message: Mapping[str, Any]) -> Incarnation:
    target = None if message["target"] is None else CheckpointId(*message["target"])
    return Incarnation(message["epoch"], Assignment(message["line"], message["newest"], target))


def _read(reader: flight.MetadataRecordBatchReader) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(reader.read_chunk().app_metadata.to_pybytes())
    return message
