"""The coordinator, in the driver: a Flight server that every processing element is connected to while it lives.

An element opens one `DoExchange` call, which is its registration, its heartbeats and its death notice in one. Both ends
prove that they know the run's token before anything is said (`wire.py`). Messages are JSON objects in `app_metadata`,
whose first entry says what they are. Those of an element also have the `epoch` of the life that speaks: what one said
before it heard that it is to go back is a sign of life, and nothing else.

    from the element
      {pe, attempt, host, pid, executor_pid}  the registration; it is the call's descriptor
      {claim, executor}  instead: the task with this number runs there, and hears {pe} and no more
      serving     location of its endpoint
      beat        metrics
      status      a state (`states.py`)
      failed      text of the error: the run ends with it, and with the exit code in `code`
      joined      {line, checkpoints: [[unit, epoch, number, cut], …]}: its state is there, and it works under this line
      took        {unit, epoch, number, cut, line, tag, forced, bytes, taken}: a checkpoint is durable
      told        something for the director, from the element's protocol
    from the coordinator
      registered  {epoch, line, newest, target, first}; the first answer but for books. Where to begin:
                  `directing.Assignment`, `target` is [PE, unit, epoch, number] or null; `first`: no process of the
                  element was there before. It may have to wait for it: then it gives no signs
      back        {epoch, line, newest, target}: begin again from there, in the same process, as this epoch
      line        a number: go on, under this line
      said        something for the element's protocol, from the director
      delete      [[unit, epoch, number], …]: nobody will go back to these checkpoints
      book        {PE: [location, epoch] or null}: what changed in the address book; at first, all of it, and with it
      left        [PE, …]: of those without an address, the ones that had a process before
      issued      {PE: epoch}: the last that were issued; at first, all. Nobody takes messages of a higher one
      terms       {PE: term}: the same of elements of groups, which open channels under these
      stop        true: end
      fenced      text: a newer life has taken over; end at once
      gone        true: the coordinator ends

When the call breaks the process is dead, and that is noticed within milliseconds. When it is silent for `silence`
seconds it hangs: `on_hang` is called, whose business it is to kill it; again and again while it is still there. So it
is for an element that has not registered for `start` seconds: a process of it may hang before it does.

The protocol's director is hosted here (`directing.py`); what it must not forget is in `director.jsonl`, a line per
decision, synced before anybody is told; a last line that is cut is none.

Epochs are kept in `epochs.json` in the run's directory and written (temporary file, fsync, rename) before an element
gets one. So they also rise over a restart of the driver. One coordinator at a time works on a directory.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Condition, Lock, RLock, Thread
from typing import Any

import pyarrow as pa
from pyarrow import flight

from riprap.base import files
from riprap.base.clock import Clock
from riprap.base.errors import DataError, RiprapError
from riprap.protocols.cut import CheckpointId, Cut
from riprap.protocols.events import Durable
from riprap.replication.placement import COPIES, ElementPlace, Placement
from riprap.runtime.coordination.director_host import Assignment, DirectorHost, DirectorLog
from riprap.runtime.coordination.element_states import IllegalTransition, SystemState, WorkerState
from riprap.runtime.coordination.history import History
from riprap.runtime.coordination.roster import ALIVE, ElementFenced, PeStatus, Roster, Transition
from riprap.runtime.layout import Layout
from riprap.runtime.run_context import Tls
from riprap.runtime.wire import Address, Guard, Server, location, server_arguments
from riprap.streams.stream_files import LocalFiles

OnHang = Callable[[str, int, int], None]  # element, epoch, process id

_log = logging.getLogger(__name__)

_LOOKS = 10  # times within `silence` that the coordinator looks for elements that hang
STARTS = 10.0  # times `silence` that a process has to register: it is forked, or imports everything first
_BEATS = 2.5  # signs of life that may be missing before the director hears of it; it is not killed for that
_TICK = 0.1  # seconds: the longest between two ticks of the director
_GOODBYE = 5.0  # seconds that elements have to hang up when the coordinator closes
_OF_ANY_LIFE = ("failed", "took")  # counts even if its life is to go back; a checkpoint says its own line


class _Call:
    """The connection of one life of an element. Anybody may `tell`, also after it is over."""

    def __init__(self, writer: flight.MetadataRecordBatchWriter) -> None:
        self._writer: flight.MetadataRecordBatchWriter | None = writer
        self._lock = Lock()
        self.epoch = 0  # of the life that it is now

    def tell(self, **message: Any) -> None:
        with self._lock:
            if self._writer is not None:
                try:
                    self._writer.write_metadata(json.dumps(message).encode())
                except (flight.FlightError, pa.ArrowException, OSError):
                    self._writer = None  # broken: the call's own thread finds out by itself

    def over(self) -> None:
        with self._lock:
            self._writer = None


class Coordinator:
    """`host`: the address to bind to. `silence`: seconds without a sign of life after which an element hangs.

    `start`: seconds without a process after which one that was started hangs (default: `STARTS` times `silence`).
    """

    def __init__(
        self,
        run_directory: Path,
        layout: Layout,
        token: str,
        tls: Tls | None,
        host: str,
        clock: Clock,
        *,
        silence: float = 3.0,
        start: float | None = None,
        heartbeat: float = 0.2,
        on_hang: OnHang | None = None,
    ) -> None:
        self._epochs_file = run_directory / "epochs.json"
        self._layout, self._token, self._tls, self._host = layout, token, tls, host
        self._clock = clock
        self._silence = silence
        self._start = STARTS * silence if start is None else start
        self._patience = _BEATS * heartbeat
        self._on_hang = on_hang
        self._roster = Roster((pe.id for pe in layout.pes), _read_epochs(self._epochs_file))
        self.placement = Placement(
            ElementPlace(pe.id, COPIES if pe.fragment.copied else pe.fragment.group, pe.replica) for pe in layout.pes
        )
        self._calls: dict[str, _Call] = {}
        self._terms: Mapping[str, int] = {}  # that were announced
        self._waiting: dict[str, _Call] = {}  # that have not been told where to begin
        self._condemned: list[str] = []  # that are to end
        self._changed = Condition(RLock())  # guards everything here
        self._closed = False
        self._server: Server | None = None
        self._watcher = Thread(target=self._watch, name="coordinator: silence", daemon=True)
        self._director_log = DirectorLog(run_directory / "director.jsonl")
        self.history = History(clock.now)
        self._director_host = DirectorHost(
            layout.director(),
            [pe.id for pe in layout.pes],
            self,
            self._director_log.read(),
            self._director_log.append,
            self.history,
        )
        self.location = ""  # known after start()

    # For the driver ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        guard = Guard("the coordinator", self._token)
        arguments = server_arguments(self._host, guard, self._tls)
        self._server = Server(self.serve, (ElementFenced, RiprapError), flight.FlightUnauthorizedError, **arguments)
        self.location = guard.location = location(self._host, self._server.port, self._tls)
        self._watcher.start()

    def close(self) -> None:
        """Tell all that are still connected that the run is over, and free the port."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            calls = list(self._calls.values())
            self._changed.notify_all()
        for call in calls:
            call.tell(gone=True)
        if self._server is not None:
            self._watcher.join()
            # The server waits for its calls; where a hanging element does not hang up, the port goes with the process.
            closing = Thread(target=self._server.shutdown, name="coordinator: closing", daemon=True)
            closing.start()
            closing.join(_GOODBYE)

    def stop(self) -> None:
        """Ask every element to end, also those that register later."""
        with self._changed:
            self._roster.stop(self._clock.now())
            calls = list(self._calls.values())
            self._changed.notify_all()
        for call in calls:
            call.tell(stop=True)

    def wait(self, timeout: float) -> bool:
        """Until the run has ended or failed; False: not within `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._roster.final, timeout)

    def find(self, pe: str, newer_than: int, timeout: float) -> Address | None:
        """The address of the element's current life if that is newer; waits for one up to `timeout` seconds."""

        def newer() -> Address | None:
            address = self._roster.address(pe)
            return address if address is not None and address.epoch > newer_than else None

        with self._changed:
            return self._changed.wait_for(newer, timeout)

    def told_killed(self, pe: str, at: float) -> None:
        """The element's process was killed at that instant of the clock's `monotonic`."""
        with self._changed:
            self._roster.killed(pe, at)

    def failed(self, pe: str, text: str) -> None:
        """End the run with this error of an element that cannot tell it itself."""
        with self._changed:
            self._roster.fail(pe, text, self._clock.now())
        self.stop()

    def table(self) -> list[PeStatus]:
        with self._changed:
            return self._roster.table(self._clock.monotonic())

    def report(self) -> Mapping[str, Any]:
        """What the director has to show."""
        with self._changed:
            return self._director_host.report()

    @property
    def state(self) -> SystemState:
        return self._roster.system

    @property
    def error(self) -> str | None:
        """What the run failed with."""
        return self._roster.error

    @property
    def error_code(self) -> int:
        """The exit code of that."""
        return self._roster.error_code

    @property
    def events(self) -> list[Transition]:
        """All transitions so far, of elements and of the run."""
        with self._changed:
            return list(self._roster.events)

    # One connection ---------------------------------------------------------------------------------------------------

    def serve(
        self,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.MetadataRecordBatchWriter,
    ) -> None:
        """Serve one life of an element until it ends or breaks."""
        registration = json.loads(descriptor.command)
        if "claim" in registration:
            with self._changed:
                given = self.placement.claim(registration["claim"], registration["executor"])
            writer.write_metadata(json.dumps({"pe": given}).encode())
            return
        pe = self._layout.pe(registration["pe"]).id
        call = _Call(writer)
        self._register(call, **registration)
        try:
            while (message := _read(reader)) is not None:
                try:
                    self._hear(pe, call, message)
                except ElementFenced as error:
                    _log.warning("%s", error)
                    call.tell(fenced=str(error))
                except IllegalTransition as bug:
                    self.failed(pe, str(bug))
        finally:
            call.over()
            self._lost(pe, call)

    def _register(self, call: _Call, pe: str, attempt: int, host: str, pid: int, executor_pid: int) -> None:
        with self._changed:
            if self._closed:
                raise ElementFenced("the run is over")
            at, wall = self._clock.monotonic(), self._clock.now()
            epoch = call.epoch = self._roster.register(pe, attempt, host, pid, executor_pid, at, wall)
            self._write_epochs()
            older = self._calls.pop(pe, None)
            if older is not None and self._layout.plan(self._layout.pe(pe)).rounds:
                self._director_host.tick(wall)
                self._director_host.replaced(pe, older.epoch)
            self._calls[pe] = call
            self._waiting[pe] = call
            self._begin_waiting()
            self._changed.notify_all()
        if older is not None:
            older.tell(fenced=f"{pe} was replaced by its epoch {epoch}")
        self._publish(pe)

    def _begin_waiting(self) -> None:
        """Tell those that have registered where to begin, if that is known; under the lock."""
        for pe, call in list(self._waiting.items()):
            assignment = self._director_host.begins(pe, call.epoch)
            if assignment is None:
                self._roster.sign(pe, call.epoch, self._clock.monotonic(), self._clock.now())
                continue
            del self._waiting[pe]
            call.tell(registered=_assigned(call.epoch, assignment) | {"first": self._roster.first(pe)})
            book = {other.id: self._roster.address(other.id) for other in self._layout.pes}
            call.tell(
                book=book, left=self._roster.left(), issued=self._roster.epochs(), terms=self._director_host.terms()
            )
            if self._roster.stopping or self._roster.final:
                call.tell(stop=True)

    def _write_epochs(self) -> None:
        epochs = json.dumps(self._roster.epochs()).encode()
        LocalFiles(self._epochs_file.parent).put(self._epochs_file.name, epochs)

    def _hear(self, pe: str, call: _Call, message: Mapping[str, Any]) -> None:
        (what, content), *_ = message.items()
        at, wall = self._clock.monotonic(), self._clock.now()
        with self._changed:
            epoch = call.epoch  # under the lock: a going back changes it
            if message["epoch"] < epoch and what not in _OF_ANY_LIFE:
                what = "of before"
            match what:
                case "of before":
                    self._roster.sign(pe, epoch, at, wall)
                case "beat":
                    self._roster.beat(pe, epoch, content, at, wall)
                case "status":
                    self._roster.status(pe, epoch, WorkerState(content), at, wall)
                case "finished":
                    self._director_host.finished(pe, epoch)
                case "failed":
                    self._roster.beat(pe, epoch, {}, at, wall)
                    self._roster.fail(pe, content, wall, message.get("code", 1))
                case "serving":
                    self._roster.announce(pe, epoch, content)
                case "joined":
                    self._director_host.joined(pe, epoch, content["line"], _checkpoints(pe, content["checkpoints"]))
                case "took":
                    self._took(pe, **content)
                    self._begin_waiting()
                case "told":
                    self._director_host.tick(wall)
                    self._director_host.heard(pe, epoch, content)
                case _:
                    raise ValueError(f"{pe} said {what}, which means nothing")
            self._changed.notify_all()
        if what == "serving":
            self._publish(pe)
        elif what == "failed":
            self.stop()

    def _took(self, pe: str, unit: str, epoch: int, number: int, cut: Mapping[str, Any], line: int, tag: int,
              forced: bool, bytes: int, taken: int) -> None:  # fmt: skip
        durable = Durable(CheckpointId(pe, unit, epoch, number), Cut.from_json(cut), tag, forced)
        self._director_host.took(line, durable, bytes, taken)

    def _lost(self, pe: str, call: _Call) -> None:
        with self._changed:
            epoch = call.epoch
            self._roster.lost(pe, epoch, self._clock.monotonic(), self._clock.now())
            if self._waiting.get(pe) is call:
                del self._waiting[pe]
            if self._calls.get(pe) is call:
                del self._calls[pe]
                if not self._closed:
                    self._director_host.tick(self._clock.now())
                    self._director_host.lost(pe, epoch)
            self._changed.notify_all()
        self._publish(pe)

    # For the director, under the lock ---------------------------------------------------------------------------------

    def say(self, pe: str, message: Mapping[str, Any]) -> None:
        if self._calls and (terms := self._director_host.terms()) != self._terms:
            self._terms = terms
            for call in self._calls.values():
                call.tell(terms=terms)
        if pe in self._calls:
            self._calls[pe].tell(said=dict(message))

    def go_back(self, pe: str, assignment: Assignment) -> None:
        call = self._calls.get(pe)
        if call is not None and not self._roster.final:
            call.epoch = self._roster.renew(pe, call.epoch, self._clock.now())
            self._write_epochs()
            call.tell(back=_assigned(call.epoch, assignment))
            self._publish(pe)

    def work_under(self, pe: str, line: int) -> None:
        if pe in self._calls:
            self._calls[pe].tell(line=line)

    def end(self, pe: str) -> None:
        self._condemned.append(pe)  # whose business it is may ask for this lock

    def delete(self, pe: str, ids: tuple[CheckpointId, ...], *, void: bool = False) -> None:
        if pe in self._calls:
            self._calls[pe].tell(delete=[id_[1:] for id_ in ids], void=void)

    def _publish(self, pe: str) -> None:
        """Tell every element where this one is. The lock keeps two changes of one element in their order."""
        with self._changed:
            for call in self._calls.values():
                call.tell(book={pe: self._roster.address(pe)}, issued={pe: self._roster.epochs()[pe]})

    def _watch(self) -> None:
        interval = min(self._silence / _LOOKS, _TICK)
        looked = self._clock.monotonic()
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: self._closed, interval):
                    return
                looked, before = self._clock.monotonic(), looked
                if looked - before > 3 * interval:  # the machine or this process was held up, not the elements
                    self._roster.excuse(looked - before)
                again = self._roster.still_there(self._silence, looked)
                absent = self._roster.absent_for(self._start, looked)
                silent = self._roster.silent_for(self._silence, looked, self._clock.now())
                self._director_host.tick(self._clock.now())
                for status in self._roster.table(looked):
                    if status.silent > self._patience and status.state in ALIVE:
                        self._director_host.silent(status.pe, status.epoch)
                for status in silent:
                    self._director_host.lost(status.pe, status.epoch)
                self._begin_waiting()
                condemned = [status for status in self._roster.table(looked) if status.pe in self._condemned]
                self._condemned = []
                self._changed.notify_all()
            for status in silent:
                _log.warning("%s is ended; its last sign of life was %.1f s ago", status.pe, status.silent)
            for status in condemned:
                _log.warning("%s is ended: its replicas need it to begin again", status.pe)
            for status in absent:
                _log.warning("%s has no process yet: one that was started for it is ended", status.pe)
            for status in (*silent, *again, *absent, *condemned):
                if self._on_hang is not None:
                    try:
                        self._on_hang(status.pe, status.epoch, status.pid)
                    except OSError:  # it cannot be killed, or is gone already; the others are still to be watched
                        _log.exception("%s hangs and could not be killed", status.pe)


def _read(reader: flight.MetadataRecordBatchReader) -> dict[str, Any] | None:
    """The next message; None: the call has ended or is broken."""
    try:
        message: dict[str, Any] = json.loads(reader.read_chunk().app_metadata.to_pybytes())
        return message
    except (StopIteration, flight.FlightError, pa.ArrowException, OSError):
        return None


def _assigned(epoch: int, assignment: Assignment) -> dict[str, Any]:
    target = None if assignment.target is None else list(assignment.target)
    return {"epoch": epoch, "line": assignment.line, "newest": assignment.newest, "target": target}


def _checkpoints(pe: str, told: Sequence[Sequence[Any]]) -> dict[CheckpointId, Cut]:
    return {CheckpointId(pe, unit, epoch, number): Cut.from_json(cut) for unit, epoch, number, cut in told}


def _read_epochs(path: Path) -> dict[str, int]:
    """The last epoch of each element. Whoever guessed a lower one would be taken for a life that was replaced."""
    try:
        epochs = json.loads(files.read_text(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError):
        epochs = None
    if not isinstance(epochs, dict) or not all(type(epoch) is int and epoch >= 0 for epoch in epochs.values()):
        raise DataError(f"{path} is damaged, and without it the run cannot go on: restore it, or begin another run")
    return epochs
