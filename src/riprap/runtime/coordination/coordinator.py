"""The coordinator, in the driver: a Flight server that every processing element stays connected to.

An element opens one `DoExchange` call, which is its registration, its heartbeats and its death notice in one. Both ends
first prove that they know the run's token (`wire.py`). Messages are JSON objects in `app_metadata`; the first key names
the kind. A message of an element also has the `epoch` of its incarnation: one from before a rollback counts as a
heartbeat and nothing else.

    from the element
      {pe, attempt, host, pid, executor_pid}  the registration; it is the call's descriptor
      {claim, executor}  instead: the task with this number runs there; the only answer is {pe}
      serving     location of its endpoint
      beat        metrics
      status      a state (`element_states.py`)
      finished    true: its work is done, though some of it may not be visible yet
      failed      text of the error: the run ends with it, and with the exit code in `code`
      joined      {line, checkpoints: [[unit, epoch, number, cut], …]}: it has restored its state and works under this
                  recovery line
      took        {unit, epoch, number, cut, line, tag, forced, bytes, taken}: a checkpoint is durable
      told        a message to the director, from the element's protocol
    from the coordinator
      registered  {epoch, line, newest, target, first}; the first answer except for address books. Where to start:
                  `director_host.Assignment`, `target` is [PE, unit, epoch, number] or null; `first`: this is the
                  element's first process. The answer may be delayed; the element sends no heartbeats until then
      back        {epoch, line, newest, target}: roll back to there, in the same process, as this epoch
      line        a number: continue, under this recovery line
      said        a message to the element's protocol, from the director
      delete      [[unit, epoch, number], …]: no rollback will need these checkpoints
      book        {PE: [location, epoch] or null}: changes of the address book; the first has all addresses, and `left`
      left        [PE, …]: of the elements without an address, those that had a process before
      issued      {PE: epoch}: the newest epochs; the first message has all. Messages of higher epochs are refused
      terms       {PE: term}: the same for elements of groups, which open channels under their terms
      stop        true: end
      fenced      text: a newer incarnation has taken over; end at once
      gone        true: the coordinator ends

A broken call means that the process is dead; this is noticed within milliseconds. An element that is silent for
`silence` seconds hangs: `on_hang` is called to kill it, repeatedly while the process exists. The same applies to an
element that has not registered for `start` seconds: its process may hang before it registers.

The coordinator hosts the protocol's director (`director_host.py`). Its durable decisions are in `director.jsonl`, one
line each, synced before any element is informed. A truncated last line is ignored.

Epochs are stored in `epochs.json` in the run's directory and written (temporary file, fsync, rename) before an element
gets one. So they also grow over a restart of the driver. Only one coordinator at a time works on a directory.
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
from riprap.runtime.story import DIRECTOR, Story, story_path
from riprap.runtime.wire import Address, Guard, Server, location, server_arguments
from riprap.streams.stream_files import LocalFiles

OnHang = Callable[[str, int, int], None]  # element, epoch, process id

_log = logging.getLogger(__name__)

_CHECKS = 10  # checks for hanging elements within `silence`
STARTS = 10.0  # multiple of `silence` that a process has to register: it is forked, or imports everything first
_MISSED_BEATS = 2.5  # heartbeats that may be missing before the director is informed; nothing is killed for that
_TICK = 0.1  # seconds: the longest interval between two ticks of the director
_HANG_UP = 5.0  # seconds that elements have to hang up when the coordinator closes
_OF_ANY_EPOCH = ("failed", "took")  # valid even from before a rollback; a checkpoint carries its own recovery line


class _Call:
    """The connection of one process of an element. Any thread may `send`, also after the call has ended."""

    def __init__(self, writer: flight.MetadataRecordBatchWriter) -> None:
        self._writer: flight.MetadataRecordBatchWriter | None = writer
        self._lock = Lock()
        self.epoch = 0  # of the current incarnation

    def send(self, **message: Any) -> None:
        with self._lock:
            if self._writer is not None:
                try:
                    self._writer.write_metadata(json.dumps(message).encode())
                except (flight.FlightError, pa.ArrowException, OSError):
                    self._writer = None  # broken: the thread that serves the call notices it, too

    def over(self) -> None:
        with self._lock:
            self._writer = None


class Coordinator:
    """`host`: the address to bind to. `silence`: seconds without a heartbeat after which an element hangs.

    `start`: seconds without a registered process after which a started one hangs (default: `STARTS` times `silence`).
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
        self._patience = _MISSED_BEATS * heartbeat
        self._on_hang = on_hang
        self._roster = Roster((pe.id for pe in layout.pes), _read_epochs(self._epochs_file))
        self.placement = Placement(
            ElementPlace(pe.id, COPIES if pe.fragment.copied else pe.fragment.group, pe.replica) for pe in layout.pes
        )
        self._calls: dict[str, _Call] = {}
        self._terms: Mapping[str, int] = {}  # announced terms
        self._waiting: dict[str, _Call] = {}  # registered, without an assignment yet
        self._to_end: list[str] = []  # elements whose process is to be ended
        self._changed = Condition(RLock())  # guards all attributes
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
            Story(DIRECTOR, 1, path=story_path(run_directory, DIRECTOR)),
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
        """Inform all connected elements that the run is over, and free the port."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            calls = list(self._calls.values())
            if self._roster.error is None:
                self._director_host.story.remove()
            self._changed.notify_all()
        for call in calls:
            call.send(gone=True)
        if self._server is not None:
            self._watcher.join()
            # The server waits for its calls. If a hanging element does not hang up, the port is freed with the process.
            closing = Thread(target=self._server.shutdown, name="coordinator: closing", daemon=True)
            closing.start()
            closing.join(_HANG_UP)

    def stop(self) -> None:
        """Ask every element to end, including those that register later."""
        with self._changed:
            self._roster.stop(self._clock.now())
            calls = list(self._calls.values())
            self._changed.notify_all()
        for call in calls:
            call.send(stop=True)

    def wait(self, timeout: float) -> bool:
        """Wait until the run has ended or failed; False: not within `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._roster.final, timeout)

    def find(self, pe: str, newer_than: int, timeout: float) -> Address | None:
        """The address of the element's current incarnation if that is newer; waits up to `timeout` seconds."""

        def newer() -> Address | None:
            address = self._roster.address(pe)
            return address if address is not None and address.epoch > newer_than else None

        with self._changed:
            return self._changed.wait_for(newer, timeout)

    def report_killed(self, pe: str, at: float) -> None:
        """The element's process was killed at that instant of the clock's `monotonic`."""
        with self._changed:
            self._roster.killed(pe, at)

    def failed(self, pe: str, text: str) -> None:
        """End the run with this error of an element that cannot report it itself."""
        with self._changed:
            self._roster.fail(pe, text, self._clock.now())
        self.stop()

    def table(self) -> list[PeStatus]:
        with self._changed:
            return self._roster.table(self._clock.monotonic())

    def report(self) -> Mapping[str, Any]:
        """The director's report."""
        with self._changed:
            return self._director_host.report()

    @property
    def state(self) -> SystemState:
        return self._roster.system

    @property
    def error(self) -> str | None:
        """The error that ended the run."""
        return self._roster.error

    @property
    def error_code(self) -> int:
        """The exit code that belongs to `error`."""
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
        """Serve one process of an element until the call ends or breaks."""
        registration = json.loads(descriptor.command)
        if "claim" in registration:
            with self._changed:
                claimed = self.placement.claim(registration["claim"], registration["executor"])
            writer.write_metadata(json.dumps({"pe": claimed}).encode())
            return
        pe = self._layout.pe(registration["pe"]).id
        call = _Call(writer)
        self._register(call, **registration)
        try:
            while (message := _read(reader)) is not None:
                try:
                    self._handle(pe, call, message)
                except ElementFenced as error:
                    _log.warning("%s", error)
                    call.send(fenced=str(error))
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
            self._assign_waiting()
            self._changed.notify_all()
        if older is not None:
            older.send(fenced=f"{pe} was replaced by its epoch {epoch}")
        self._publish(pe)

    def _assign_waiting(self) -> None:
        """Send each registered element its assignment, if that is known; under the lock."""
        for pe, call in list(self._waiting.items()):
            assignment = self._director_host.begins(pe, call.epoch)
            if assignment is None:
                self._roster.sign(pe, call.epoch, self._clock.monotonic(), self._clock.now())
                continue
            del self._waiting[pe]
            call.send(registered=_assigned(call.epoch, assignment) | {"first": self._roster.first(pe)})
            book = {other.id: self._roster.address(other.id) for other in self._layout.pes}
            call.send(
                book=book, left=self._roster.left(), issued=self._roster.epochs(), terms=self._director_host.terms()
            )
            if self._roster.stopping or self._roster.final:
                call.send(stop=True)

    def _write_epochs(self) -> None:
        epochs = json.dumps(self._roster.epochs()).encode()
        LocalFiles(self._epochs_file.parent).put(self._epochs_file.name, epochs)

    def _handle(self, pe: str, call: _Call, message: Mapping[str, Any]) -> None:
        (what, content), *_ = message.items()
        at, wall = self._clock.monotonic(), self._clock.now()
        with self._changed:
            epoch = call.epoch  # under the lock: a rollback changes it
            if message["epoch"] < epoch and what not in _OF_ANY_EPOCH:
                what = "outdated"
            match what:
                case "outdated":
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
                    self._assign_waiting()
                case "told":
                    self._director_host.tick(wall)
                    self._director_host.heard(pe, epoch, content)
                case _:
                    raise ValueError(f"{pe} sent a message of the unknown kind {what}")
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
                call.send(terms=terms)
        if pe in self._calls:
            self._calls[pe].send(said=dict(message))

    def go_back(self, pe: str, assignment: Assignment) -> None:
        call = self._calls.get(pe)
        if call is not None and not self._roster.final:
            call.epoch = self._roster.renew(pe, call.epoch, self._clock.now())
            self._write_epochs()
            call.send(back=_assigned(call.epoch, assignment))
            self._publish(pe)

    def work_under(self, pe: str, line: int) -> None:
        if pe in self._calls:
            self._calls[pe].send(line=line)

    def end(self, pe: str) -> None:
        self._to_end.append(pe)  # later: `on_hang` may need this lock

    def delete(self, pe: str, ids: tuple[CheckpointId, ...], *, void: bool = False) -> None:
        if pe in self._calls:
            self._calls[pe].send(delete=[id_[1:] for id_ in ids], void=void)

    def _publish(self, pe: str) -> None:
        """Send the address of this element to all. The lock keeps two changes of one element in order."""
        with self._changed:
            for call in self._calls.values():
                call.send(book={pe: self._roster.address(pe)}, issued={pe: self._roster.epochs()[pe]})

    def _watch(self) -> None:
        interval = min(self._silence / _CHECKS, _TICK)
        checked = self._clock.monotonic()
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: self._closed, interval):
                    return
                checked, before = self._clock.monotonic(), checked
                if checked - before > 3 * interval:  # the machine or this process was stalled, not the elements
                    self._roster.excuse(checked - before)
                again = self._roster.still_there(self._silence, checked)
                absent = self._roster.absent_for(self._start, checked)
                silent = self._roster.silent_for(self._silence, checked, self._clock.now())
                self._director_host.tick(self._clock.now())
                for status in self._roster.table(checked):
                    if status.silent > self._patience and status.state in ALIVE:
                        self._director_host.silent(status.pe, status.epoch)
                for status in silent:
                    self._director_host.lost(status.pe, status.epoch)
                self._assign_waiting()
                to_end = [status for status in self._roster.table(checked) if status.pe in self._to_end]
                self._to_end = []
                self._changed.notify_all()
            for status in silent:
                _log.warning("killing %s: its last heartbeat was %.1f s ago", status.pe, status.silent)
            for status in to_end:
                _log.warning("killing %s: its replicas need it to restart", status.pe)
            for status in absent:
                _log.warning("%s has not registered: killing the process that was started for it", status.pe)
            for status in (*silent, *again, *absent, *to_end):
                if self._on_hang is not None:
                    try:
                        self._on_hang(status.pe, status.epoch, status.pid)
                    except OSError:  # it cannot be killed, or is gone already; keep watching the others
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


def _checkpoints(pe: str, entries: Sequence[Sequence[Any]]) -> dict[CheckpointId, Cut]:
    return {CheckpointId(pe, unit, epoch, number): Cut.from_json(cut) for unit, epoch, number, cut in entries}


def _read_epochs(path: Path) -> dict[str, int]:
    """The last epoch of each element. With a lower one, a new incarnation would be fenced as outdated."""
    try:
        epochs = json.loads(files.read_text(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError):
        epochs = None
    if not isinstance(epochs, dict) or not all(type(epoch) is int and epoch >= 0 for epoch in epochs.values()):
        raise DataError(f"{path} is damaged, and the run cannot continue without it: restore it, or start another run")
    return epochs
