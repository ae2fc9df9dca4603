"""The processing element's connection to the coordinator; `coordinator.py` says what is spoken.

One thread listens. What it hears (stop, an address book that changed, that a newer life has taken over) is kept here
and looked at by the element's own thread; `wake` is called so that it does so soon. After `ElementFenced` or
`CoordinatorLost` the process has no business any more: it must end and touch nothing.
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
_FAREWELL = 5.0  # seconds that the coordinator has to end the call when the client closes


class CoordinatorLost(Exception):
    """The coordinator is gone, and with it the run."""


class Incarnation(NamedTuple):
    """Which life begins, and where."""

    epoch: int
    assignment: Assignment


def claimed(run: Run, task: int, executor_pid: int) -> str:
    """The element that a task is, where that depends on where it runs: in a run with replicas."""
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
        self._about: dict[str, Any] = {
            "pe": pe,
            "attempt": attempt,
            "host": run.host or own_address(run.coordinator),
            "pid": os.getpid(),
            "executor_pid": executor_pid,
        }
        self._wake = wake
        self._gone = f"the coordinator at {run.coordinator} is gone"
        self._changed = Condition()
        self._telling = Lock()  # one may write at a time, and none after the end: gRPC allows neither
        self._ended = False
        self._book: dict[str, Address] = {}
        self._fenced: str | None = None
        self._lost = False
        self._client: flight.FlightClient | None = None
        self._writer: flight.MetadataRecordBatchWriter | None = None
        self._reader: flight.MetadataRecordBatchReader | None = None
        self._listener: Thread | None = None
        self._directed: list[FromDirector | Unneeded | Incarnation | int] = []
        self.epoch = 0  # of the life that speaks
        self.stopping = False  # the run is to end: finish and say `ended`
        self.booked = False  # it has heard where all elements are
        self.first = True  # no process of the element has registered before, in this part of the run
        self.left: set[str] = set()  # elements that were somewhere, and are nowhere now
        self.issued: dict[str, int] = {}  # the last epoch of each element, as far as it was announced
        self.terms: dict[str, int] = {}  # the last term of each element of a group

    def register(self) -> Incarnation:
        """Begin a life of the element."""
        try:
            self._client = connect(self._run.coordinator, self._run.tls)
            descriptor = flight.FlightDescriptor.for_command(json.dumps(self._about).encode())
            self._writer, self._reader = called(self._client, self._run.coordinator, self._run.token, descriptor)
            message = _read(self._reader)
            while "registered" not in message:  # it has to wait; of books, the whole one follows
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
        beginning = _beginning(registered)
        self.begin(beginning)
        return beginning

    def begin(self, beginning: Incarnation) -> None:
        """From now on it is this life that speaks."""
        self.epoch = beginning.epoch

    def announce(self, location: str) -> None:
        """Tell where the element's endpoint is, once it can be connected to."""
        self._tell(serving=location)

    def beat(self, metrics: Mapping[str, Any]) -> None:
        """A sign of life, with what the live table shows."""
        self._tell(beat=dict(metrics))

    def status(self, state: WorkerState) -> None:
        self._tell(status=state)

    def finished(self) -> None:
        """Its work is done; some of it may not be seen yet."""
        self._tell(finished=True)

    def failed(self, text: str, code: int = 1) -> None:
        """Tell of an error that a restart would meet again: the run ends with it, and with that exit code."""
        self._tell(failed=text, code=code)

    def joined(self, line: int, checkpoints: Mapping[CheckpointId, Cut]) -> None:
        """Its state is there: tell the director under which line, and which checkpoints there are."""
        self._tell(
            joined={"line": line, "checkpoints": [[*id_[1:], cut.as_json()] for id_, cut in checkpoints.items()]}
        )

    def took(self, line: int, durable: Durable, size: int, taken: int) -> None:
        id_, cut, tag, forced, _ = durable
        what = {"unit": id_.unit, "epoch": id_.epoch, "number": id_.number, "cut": cut.as_json(), "line": line}
        self._tell(took={**what, "tag": tag, "forced": forced, "bytes": size, "taken": taken})

    def told(self, message: Mapping[str, Any]) -> None:
        """To the director, from the protocol."""
        self._tell(told=dict(message))

    def directed(self) -> list[FromDirector | Unneeded | Incarnation | int]:
        """What the director has said since the last call, in order; a number is the line to work under.

        A `Incarnation` comes alone: what was said to the life before it has no meaning any more, but for checkpoints
        that
        are to be deleted, and what was said after it is for the life that begins.
        """
        if not self._directed:
            return []
        with self._changed:
            directed, self._directed = self._directed, []
            last = max((at for at, one in enumerate(directed) if isinstance(one, Incarnation)), default=None)
            if last is None:
                return directed
            self._directed = [one for one in directed[:last] if isinstance(one, Unneeded)] + directed[last + 1 :]
        return [directed[last]]

    def find(self, pe: str, newer_than: int, timeout: float) -> Address | None:
        """The address of an element's current life if that is newer; waits for one up to `timeout` seconds.

        The coordinator sends every change, so nothing is asked.
        """

        def newer() -> Address | None:
            address = self._book.get(pe)
            return address if address is not None and address.epoch > newer_than else None

        with self._changed:
            return self._changed.wait_for(newer, timeout)

    def check(self) -> None:
        """Raise if this process has no business any more."""
        if self._fenced is not None:
            raise ElementFenced(self._fenced)
        if self._lost:
            raise CoordinatorLost(self._gone)

    def close(self) -> None:
        """End the connection. What was told before has reached the coordinator then, if it lives."""
        self._end()
        if self._listener is not None:
            self._listener.join(_FAREWELL)
        with suppress(*_BROKEN):
            if self._writer is not None:
                self._writer.close()
        with suppress(*_BROKEN):
            if self._client is not None:
                self._client.close()

    def _end(self) -> None:
        """Hang up, once. A call that is lost is cancelled: to end its writing a second time would abort the process."""
        with self._telling:
            if self._writer is not None and not self._ended:
                self._ended = True
                with suppress(*_BROKEN):
                    if self._lost and self._reader is not None:
                        self._reader.cancel()
                    else:
                        self._writer.done_writing()

    def _tell(self, **message: Any) -> None:
        self.check()
        assert self._writer is not None, "register first"
        try:
            with self._telling:
                if self._ended:
                    raise CoordinatorLost(self._gone)
                self._writer.write_metadata(json.dumps({**message, "epoch": self.epoch}).encode())
        except _BROKEN as error:
            self._lost = True
            raise CoordinatorLost(self._gone) from error

    def _direct(self, message: Mapping[str, Any]) -> None:
        pe = self._about["pe"]
        if "said" in message:
            self._directed.append(FromDirector(message["said"]))
        elif "delete" in message:
            ids = tuple(CheckpointId(pe, *id_) for id_ in message["delete"])
            self._directed.append(Unneeded(ids, message["void"]))
        elif "line" in message:
            self._directed.append(message["line"])
        elif "back" in message:
            self._directed.append(_beginning(message["back"]))

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
        self._end()  # the coordinator's server waits for it
        self._wake()


def _beginning(told: Mapping[str, Any]) -> Incarnation:
    target = None if told["target"] is None else CheckpointId(*told["target"])
    return Incarnation(told["epoch"], Assignment(told["line"], told["newest"], target))


def _read(reader: flight.MetadataRecordBatchReader) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(reader.read_chunk().app_metadata.to_pybytes())
    return message
