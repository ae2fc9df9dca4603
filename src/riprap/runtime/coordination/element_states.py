"""The states of a processing element and of the whole run, and the legal transitions. Any other is a bug.

An element:

    starting     waits for its first process, or has one that is setting up
    restoring    reads its checkpoints
    catching_up  has restored its state, and processes the backlog
    running      processes its input as it arrives
    hanging      its process has sent no heartbeat for the heartbeat timeout
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
_LOST = {_W.HANGING, _W.DOWN, _W.ENDED, _W.FAILED}  # possible at any time

WORKER_TRANSITIONS: dict[WorkerState, set[WorkerState]] = {
    _W.STARTING: {_W.RESTORING, _W.CATCHING_UP, _W.RUNNING, *_LOST},
    _W.RESTORING: {_W.CATCHING_UP, _W.RUNNING, *_LOST},
    _W.CATCHING_UP: {_W.RUNNING, *_LOST},
    _W.RUNNING: {_W.CATCHING_UP, *_LOST},
    # A late heartbeat may arrive before the process is killed: then it returns to its previous state.
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
    """A bug in the runtime, or in the code that reports states to it."""


def check_worker(pe: str, now: WorkerState, then: WorkerState) -> None:
    if then not in WORKER_TRANSITIONS[now]:
        raise IllegalTransition(f"{pe} is {now} and cannot become {then}")


def next_system(now: SystemState, workers: Iterable[WorkerState], *, stopping: bool) -> SystemState:
    """The state of the run that follows from the states of its elements; it may be unchanged."""
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
