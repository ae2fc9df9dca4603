"""Processing elements as the long-running tasks of one Spark job: element i of the layout is task i; in a run with
replicas a task claims its element, by where it runs (`replication/placement.py`).

Fault model. A worker process or an executor may die at any moment, any number of times; Spark starts the tasks again,
with a higher attempt. Nothing else is tried again: an exception in an element is the application's, and what repeats is
the same exception. So the task catches it and ends, and a failure that is not a death (no Python or no riprap on an
executor, a function that cannot be unpickled) ends the job.

    body(run, pe_id, attempt, executor_pid)

is called in a worker process; the element ends when it returns. `attempt` counts from 0 within one job; `executor_pid`
is the JVM above the worker. What it raises becomes a `ElementFailure`, besides what it has told the coordinator itself.

Uses two of Spark's internals: the status store (which attempt is where) and `killTaskAttempt`.
"""

import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count, pairwise
from types import TracebackType
from typing import Any, NamedTuple

from py4j.protocol import Py4JError
from pyspark import InheritableThread, TaskContext
from pyspark.sql import SparkSession

from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.base.errors import MissingPrerequisite, UsageError
from riprap.runtime.coordination.client import CoordinatorLost, claimed
from riprap.runtime.run_context import Run
from riprap.spark.executor import executor_pid
from riprap.spark.modules import for_worker
from riprap.spark.session import JVM_GONE
from riprap.spark.slots import check_hosting

Body = Callable[[Run, str, int, int], None]

_NUMBERS = count()  # of the jobs of this driver
_POLL = 0.2  # seconds between looks at the job
# How Spark words a task that failed in another way than by the death of its process or executor.
_NOT_A_DEATH = ("PythonException", "Error from python worker")


class ElementFailure(NamedTuple):
    """What the body of an element raised."""

    pe: str
    attempt: int
    error: str


@dataclass(frozen=True)
class _Attempt:
    """One line of Spark's status store."""

    task_id: int
    index: int
    attempt: int
    status: str  # RUNNING, SUCCESS, FAILED, KILLED
    error: str


def host(spark: SparkSession, run: Run, body: Body, *, clock: Clock = SYSTEM_CLOCK) -> "Hosted":
    """Start every element of the run. Raises if the session cannot hold them; returns without waiting for them.

    Use it in a `with` statement: whatever happens in the driver, the tasks are gone afterwards.
    """
    warnings = check_hosting(spark, len(run.layout.pes), clock)
    return Hosted(spark, run, body, warnings, clock)


class Hosted:
    """The running job. Its methods may be called from any thread."""

    def __init__(self, spark: SparkSession, run: Run, body: Body, warnings: tuple[str, ...], clock: Clock) -> None:
        self.warnings = warnings  # what a user should know before something dies; sentences
        self.failures: tuple[ElementFailure, ...] = ()  # known when the job has ended
        self._pes = [pe.id for pe in run.layout.pes]
        # Which tasks are, or may become, an element. May be replaced: where tasks claim their element.
        self.tasks_of: Callable[[str], set[int]] = lambda pe: {self._pes.index(pe)}
        self._clock = clock
        self._directory = run.directory
        self._context = spark.sparkContext
        self._group = f"riprap-host-{next(_NUMBERS)}"
        self._error: str | None = None  # why the job ended, if it did not end well
        self._cancelled = False
        self._stage: int | None = None
        # Not a DataFrame: planning and compiling nothing delays the first run of a session by seconds.
        indices = self._context.parallelize(range(len(self._pes)), len(self._pes))
        self._tasks = indices.mapPartitions(for_worker(partial(_element, run, body)))
        self._job = InheritableThread(target=self._run, daemon=True, name="riprap-host")
        self._watch = InheritableThread(target=self._watch_failures, daemon=True, name="riprap-host-watch")
        self._ended = threading.Event()
        self._job.start()
        self._watch.start()

    def __enter__(self) -> "Hosted":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.cancel()

    def wait(self, timeout: float | None = None) -> bool:
        """Whether every element has ended, after at most `timeout` seconds. Raises if Spark ended the job instead."""
        if not self._ended.wait(timeout):
            return False
        if self._error is not None and not self._cancelled:
            raise MissingPrerequisite(
                f"Spark could not go on hosting the processing elements: {self._error}; "
                f"go on with: riprap run --resume {self._directory}"
            )
        return True

    def kill_attempt(self, pe: str, attempt: int | None = None) -> bool:
        """Have Spark kill the task of an element that hangs and start it again; whether there was one to kill.

        With `attempt`, only that one, so that its successor is not hit by a late decision.
        """
        if pe not in self._pes:
            raise UsageError(f"no processing element is called {pe}; there are {', '.join(self._pes)}")
        tasks, killed = self.tasks_of(pe), False
        for task in self._attempts("RUNNING"):
            if task.index in tasks and attempt in (None, task.attempt):
                killed |= bool(self._context._jsc.sc().killTaskAttempt(task.task_id, True, f"{pe} hangs"))
        return killed

    def cancel(self, timeout: float = 30.0) -> None:
        """End the job and wait until its tasks, and with them their processes, are gone. Harmless when it has ended."""
        self._cancelled = self._cancelled or not self._ended.is_set()
        deadline = self._clock.monotonic() + timeout
        while not self._ended.is_set() and self._clock.monotonic() < deadline:
            with suppress(*JVM_GONE):
                self._context.cancelJobGroup(self._group)  # again: a job that is only being submitted is not found
            self._ended.wait(_POLL)
        self._watch.join(timeout)
        while self._attempts("RUNNING") and self._clock.monotonic() < deadline:
            self._clock.sleep(_POLL / 4)

    # The job ----------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._context.setJobGroup(self._group, "riprap: processing elements", interruptOnCancel=True)
            self.failures = tuple(self._tasks.collect())
        except JVM_GONE:
            self._error = self._error or "its JVM has died, killed by somebody or for want of memory"
        except Exception as error:
            self._error = self._error or _reason(str(error))
        finally:
            self._ended.set()

    def _watch_failures(self) -> None:
        """Spark tries every failed task again; end the job when what failed was not a process that died."""
        while not self._ended.wait(_POLL):
            for task in self._attempts("FAILED"):
                if any(mark in task.error for mark in _NOT_A_DEATH):
                    self._error = f"{self._pes[task.index]} failed ({_reason(task.error)}){_advice(task.error)}"
                    with suppress(*JVM_GONE):
                        self._context.cancelJobGroup(self._group)
                    return

    def _attempts(self, status: str) -> list[_Attempt]:
        """The latest attempts with that status, newest first. None when the session or its JVM is gone: so are they."""
        context, jvm = self._context._jsc, self._context._jvm
        if context is None:
            return []
        try:
            self._stage = self._find_stage() if self._stage is None else self._stage
            if self._stage is None:  # the job is only being submitted
                return []
            statuses = jvm.java.util.ArrayList()
            statuses.add(jvm.org.apache.spark.status.api.v1.TaskStatus.valueOf(status))
            store, most = context.sc().statusStore(), 4 * len(self._pes)
            found = store.taskList(self._stage, 0, 0, most, jvm.scala.Option.empty(), False, statuses)
            return [_attempt(found.apply(number)) for number in range(found.size())]
        except (*JVM_GONE, Py4JError, TypeError):  # the latter two: it died between two calls of one question
            return []

    def _find_stage(self) -> int | None:
        tracker = self._context.statusTracker()
        for job in tracker.getJobIdsForGroup(self._group):
            info = tracker.getJobInfo(job)
            if info is not None and info.stageIds:
                return int(info.stageIds[0])
        return None


def _attempt(task: Any) -> _Attempt:
    error = task.errorMessage()
    return _Attempt(
        task.taskId(), task.index(), task.attempt(), task.status(), error.get() if error.isDefined() else ""
    )


def _reason(error: str) -> str:
    """The one line that says it. A Python traceback ends with it; a Python that did not start said it first."""
    python = error.split("\n\tat ")[0]
    lines = [line.strip() for line in python.splitlines() if line.strip() and not line.startswith(" SQLSTATE")]
    for line, following in pairwise(lines):
        if line == "Error from python worker:":
            return following
    return lines[-1] if lines else "no reason was given"


def _advice(error: str) -> str:
    if "ModuleNotFoundError" not in error:
        return ""
    return "; install riprap and the app's modules for the executors' Python, or ship them (docs/how-to/deploy.md)"


# In the worker --------------------------------------------------------------------------------------------------------


def _element(run: Run, body: Body, indices: Iterable[int]) -> Iterator[ElementFailure]:
    """The task of one element."""
    context = TaskContext.get()
    assert context is not None
    attempt = context.attemptNumber()
    for index in indices:
        try:
            pe = claimed(run, index, executor_pid())
        except CoordinatorLost:
            return  # the run is over
        try:
            body(run, pe, attempt, executor_pid())
        except BaseException:  # also exit(): what ends by itself would end by itself again
            yield ElementFailure(pe, attempt, traceback.format_exc())
