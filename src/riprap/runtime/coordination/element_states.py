"""The states of a processing element and of the whole run, and which may follow which. Anything else is a bug.

An element:

    starting     waits for its first process, or has one that is setting up
    restoring    reads its checkpoints
    catching_up  has its state again, and works off what it missed
    running      works on what comes in
    hanging      its process has given no sign of life for some time
    down         its process is gone
    ended        its work is done
    failed       it met an error that a restart would meet again

The run:

    starting     some element has not been running yet
    running      all elements run or have ended
    degraded     some element does neither
    stopping     every element was asked to end
    ended        all have
    failed       one has failed
"""

from collections.abc import Iterable
from enum import StrEnum


class WorkerState(StrEnum):
    STARTING = "starting"
    RESTORING = "restoring"
    CATCHING_UP = "catching_up"
    RUNNING = "running"
    HANGING = "hanging"
    DOWN = "down"
    ENDED = "ended"
    FAILED = "failed"


class SystemState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    DEGRADED = "degraded"
    STOPPING = "stopping"
    ENDED = "ended"
    FAILED = "failed"


_W, _S = WorkerState, SystemState
_LOST = {_W.HANGING, _W.DOWN, _W.ENDED, _W.FAILED}  # what can come over an element at any time

WORKER_TRANSITIONS: dict[WorkerState, set[WorkerState]] = {
    _W.STARTING: {_W.RESTORING, _W.CATCHING_UP, _W.RUNNING, *_LOST},
    _W.RESTORING: {_W.CATCHING_UP, _W.RUNNING, *_LOST},
    _W.CATCHING_UP: {_W.RUNNING, *_LOST},
    _W.RUNNING: {_W.CATCHING_UP, *_LOST},
    # It may speak again before anybody has killed it, and then it is what it was.
    _W.HANGING: {_W.STARTING, _W.RESTORING, _W.CATCHING_UP, _W.RUNNING, _W.DOWN, _W.ENDED, _W.FAILED},
    _W.DOWN: {_W.STARTING, _W.FAILED},
    _W.ENDED: {_W.STARTING},  # it stays until the run is over, and may die while it waits
    _W.FAILED: set(),
}

SYSTEM_TRANSITIONS: dict[SystemState, set[SystemState]] = {
    _S.STARTING: {_S.RUNNING, _S.STOPPING, _S.ENDED, _S.FAILED},
    _S.RUNNING: {_S.DEGRADED, _S.STOPPING, _S.ENDED, _S.FAILED},
    _S.DEGRADED: {_S.RUNNING, _S.STOPPING, _S.ENDED, _S.FAILED},
    _S.STOPPING: {_S.ENDED, _S.FAILED},
    _S.ENDED: set(),
    _S.FAILED: set(),
}

FINAL = frozenset((_S.ENDED, _S.FAILED))


class IllegalTransition(Exception):
    """A bug: of the runtime, or of whoever tells it states."""


def check_worker(pe: str, now: WorkerState, then: WorkerState) -> None:
    if then not in WORKER_TRANSITIONS[now]:
        raise IllegalTransition(f"{pe} is {now} and cannot become {then}")


def next_system(now: SystemState, workers: Iterable[WorkerState], *, stopping: bool) -> SystemState:
    """The state of the run that follows from those of its elements. May be the same one."""
    if now in FINAL:
        return now
    states = set(workers)
    if _W.FAILED in states:
        then = _S.FAILED
    elif states <= {_W.ENDED}:
        then = _S.ENDED
    elif stopping:
        then = _S.STOPPING
    elif states <= {_W.RUNNING, _W.ENDED}:
        then = _S.RUNNING
    else:
        then = _S.STARTING if now is _S.STARTING else _S.DEGRADED
    if then is not now and then not in SYSTEM_TRANSITIONS[now]:
        raise IllegalTransition(f"the run is {now} and cannot become {then}")
    return then
