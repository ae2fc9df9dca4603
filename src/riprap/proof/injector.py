"""Injects the faults of a schedule into a running app, and observes the recoveries from outside.

It is the `watch` of a run: called about twenty times a second with the table of elements. It writes its observations to
a file, one JSON object per line, flushed at once, so that the next driver knows them if this one is killed.

    {"what": "began", "fault": 3, "at": …}        seconds of the wall clock
    {"what": "restored", "fault": 3, "at": …}     every killed element has restored its state
    {"what": "running", "fault": 3, "at": …}      every target is running again; after a kill of the driver, all PEs
    {"what": "not injected", "fault": 3, "why": …}  it was not injected, or not completely
"""

import json
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from riprap.base import files
from riprap.base.clock import Clock
from riprap.base.errors import UsageError
from riprap.proof.fault_kinds import DONE, KINDS, Action, Wait, is_down
from riprap.proof.schedule import ScheduledFault
from riprap.runtime.coordination.element_states import SystemState, WorkerState

OBSERVATIONS = "faults.jsonl"
RUN = "run"  # the run's directory in that of the proof
_HAS_STATE = (WorkerState.CATCHING_UP, WorkerState.RUNNING, WorkerState.ENDED)
_TAKEN = ("began", "not injected")
_OVER = "the run was over before it: let it run longer"
_LOCAL = ("127.0.0.1", "localhost", "::1", "")


class Injector:
    """Continues after the observations of an earlier driver in the directory."""

    def __init__(self, schedule: Sequence[ScheduledFault], directory: Path, clock: Clock) -> None:
        self.directory = directory / RUN
        self._schedule, self._clock = schedule, clock
        past = read_observations(directory)
        self._next = 1 + max((entry["fault"] for entry in past if entry["what"] in _TAKEN), default=-1)
        self._offset = max(
            (entry["ran"] for entry in past), default=0.0
        )  # seconds that the run had been running before
        self._path = directory / OBSERVATIONS
        self._file: IO[str] | None = None  # created with the first line, so not by a run that never started
        self._table: Mapping[str, Any] = {}
        self._since: float | None = None
        self._under_way: list[tuple[int, Action, Wait, float]] = []
        self._ran = 0.0
        self._hit: dict[int, dict[str, int]] = {}  # fault → element → its epoch when it was hit
        self._restored = {entry["fault"] for entry in past if entry["what"] == "restored"}
        for number in range(self._next):
            if not any(entry["fault"] == number and entry["what"] in ("running", "not injected") for entry in past):
                self._hit[number] = {}

    # The processes, for the faults ------------------------------------------------------------------------------------

    def pid(self, pe: str) -> int:
        return int(self._table[pe].pid)

    def state(self, pe: str) -> WorkerState:
        return self._table[pe].state  # type: ignore[no-any-return]

    def epoch(self, pe: str) -> int:
        return int(self._table[pe].epoch)

    def executor(self, pe: str) -> int:
        return int(self._table[pe].executor_pid)

    def pids(self) -> list[int]:
        return [int(status.pid) for status in self._table.values()]

    # Observing the run ------------------------------------------------------------------------------------------------

    def __call__(self, state: SystemState, table: Sequence[Any]) -> None:
        now = self._clock.monotonic()
        self._table = {status.pe: status for status in table}
        if self._since is None:
            if state is SystemState.STARTING:
                return
            self._since = now
        ran = self._ran = self._offset + now - self._since
        self._observe(ran)
        self._continue(now)
        while self._next < len(self._schedule) and self._schedule[self._next].at / 1e6 <= ran:
            number, fault = self._next, self._schedule[self._next]
            if fault.targets and all(self.state(pe) is WorkerState.ENDED for pe in fault.targets):
                self._next += 1
                self._miss(number, f"{', '.join(fault.targets)} had ended before it")
                continue
            if self._waits_for(fault):
                return
            self._next += 1
            self._check_local(fault)
            self._hit[number] = {pe: self.epoch(pe) for pe in fault.targets}
            self._note("began", number, ran)
            self._start(number, KINDS[fault.kind].action(self, fault), now)

    def _waits_for(self, fault: ScheduledFault) -> str:
        """Why a due fault has to wait: it cannot hit an element that is down. "": it need not."""
        down = [pe for pe in fault.targets if is_down(self.state(pe))]
        if down:
            return f"{', '.join(down)} had no process until the run was over"
        kind = KINDS[fault.kind]
        return "" if kind.ready(self, fault) else f"{', '.join(fault.targets)} {kind.waits}"

    def _miss(self, number: int, why: str) -> None:
        self._hit.pop(number, None)
        self._note("not injected", number, self._ran, why=why)

    def _check_local(self, fault: ScheduledFault) -> None:
        for pe in fault.targets:
            host = self._table[pe].host
            if host not in _LOCAL and host not in (socket.gethostname(), os.environ.get("SPARK_LOCAL_IP", "")):
                raise UsageError(
                    f"{pe} runs on {host}, and faults can only be injected into processes of this machine: "
                    "prove it locally"
                )

    def _observe(self, ran: float) -> None:
        for number in list(self._hit):
            fatal = KINDS[self._schedule[number].kind].fatal
            back = all(
                self.state(pe) in (WorkerState.RUNNING, WorkerState.ENDED) and (self.epoch(pe) > epoch or not fatal)
                for pe, epoch in self._hit[number].items()
            )
            has_state = all(
                self.state(pe) in _HAS_STATE and self.epoch(pe) > epoch for pe, epoch in self._hit[number].items()
            )
            if fatal and self._hit[number] and has_state and number not in self._restored:
                self._restored.add(number)
                self._note("restored", number, ran)
            if back and (self._hit[number] or self._all_run()):
                del self._hit[number]
                self._note("running", number, ran)

    def _all_run(self) -> bool:
        return all(status.state in (WorkerState.RUNNING, WorkerState.ENDED) for status in self._table.values())

    def _start(self, number: int, action: Action, now: float) -> None:
        try:
            self._under_way.append((number, action, next(action), now))
        except StopIteration as ended:
            if ended.value != DONE:
                self._miss(number, ended.value)

    def _continue(self, now: float) -> None:
        waiting, self._under_way = self._under_way, []
        for number, action, wait, since in waiting:
            if wait() if callable(wait) else now - since >= wait:
                self._start(number, action, now)
            else:
                self._under_way.append((number, action, wait, since))

    def _note(self, what: str, number: int, ran: float, **more: str) -> None:
        entry = {"what": what, "fault": number, "at": self._clock.now() / 1e6, "ran": ran, **more}
        if self._file is None:
            self._file = files.open_file(self._path, "a")
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()

    def close(self) -> None:
        """End lasting faults, such as a stopped process, and record faults that were not injected."""
        for number, action, wait, _ in self._under_way:
            if callable(wait):
                self._miss(number, "the run was over before it was completed: let it run longer")
            elif wait == 0.0:  # it has ended, and only its result is missing
                self._start(number, action, 0.0)
            action.close()
        self._under_way = []
        for number in range(self._next, len(self._schedule)) if self._since is not None else ():
            fault = self._schedule[number]
            due = number == self._next and fault.at / 1e6 <= self._ran
            self._miss(number, (self._waits_for(fault) if due else "") or _OVER)
        self._next = len(self._schedule)
        if self._file is not None:
            self._file.close()


def read_observations(directory: Path) -> list[dict[str, Any]]:
    """The observations, oldest first; a kill may have truncated the last line."""
    try:
        lines = files.read_text(directory / OBSERVATIONS).splitlines()
    except FileNotFoundError:
        return []
    observations = []
    for line in lines:
        try:
            observations.append(json.loads(line))
        except ValueError:
            break
    return observations
