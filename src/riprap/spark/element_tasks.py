"""Processing elements as the long-running tasks of one Spark job: element i of the layout is task i; in a run with
replicas a task claims its element, depending on its executor (`replication/placement.py`).

Fault model. A worker process or an executor may die at any moment, any number of times; Spark restarts the tasks, with
a higher attempt number. Nothing else is retried: an exception in an element is the application's, and a retry would
raise it again. So the task catches it and ends. A failure other than a death (no Python or no riprap on an executor, a
function that cannot be unpickled) ends the job.

    body(run, pe_id, attempt, executor_pid)

is called in a worker process; the element ends when it returns. `attempt` counts from 0 within one job; `executor_pid`
is the JVM above the worker. What it raises becomes an `ElementFailure`, apart from what it reports to the coordinator.

Uses two of Spark's internals: the status store (attempts and their states) and `killTaskAttempt`.
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
_POLL = 0.2  # seconds between checks of the job
# How Spark describes a task failure that is not the death of its process or executor.
_NOT_A_DEATH = ("PythonException", "Error from python worker")


class ElementFailure(NamedTuple):
    """The exception that ended the body of an element."""

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
    """Start every element of the run without waiting for them. Raises if the session has no room for them.

    Use it in a `with` statement: the tasks are gone afterwards, whatever happens in the driver.
    """
    warnings = check_hosting(spark, len(run.layout.pes), clock)
    return Hosted(spark, run, body, warnings, clock)


class Hosted:
    """The running job. Its methods may be called from any thread."""

    def __init__(self, spark: SparkSession, run: Run, body: Body, warnings: tuple[str, ...], clock: Clock) -> None:
        self.warnings = warnings  # sentences for the user
        self.failures: tuple[ElementFailure, ...] = ()  # set when the job has ended
        self._pes = [pe.id for pe in run.layout.pes]
        # The tasks that run, or may run, an element. Replaced if tasks claim their elements.
        self.tasks_of: Callable[[str], set[int]] = lambda pe: {self._pes.index(pe)}
        self._clock = clock
        self._directory = run.directory
        self._context = spark.sparkContext
        self._group = f"riprap-host-{next(_NUMBERS)}"
        self._error: str | None = None  # why the job failed
        self._cancelled = False
        self._stage: int | None = None
        # Not a DataFrame: planning and code generation would delay the first run of a session by seconds.
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
                f"Spark could not continue to host the processing elements: {self._error}; "
                f"continue with: riprap run --resume {self._directory}"
            )
        return True

    def kill_attempt(self, pe: str, attempt: int | None = None) -> bool:
        """Have Spark kill and restart the task of a hanging element; whether there was one to kill.

        With `attempt`, only that one, so that a late decision does not hit its successor.
        """
        if pe not in self._pes:
            raise UsageError(f"no processing element is called {pe}; there are {', '.join(self._pes)}")
        tasks, killed = self.tasks_of(pe), False
        for task in self._attempts("RUNNING"):
            if task.index in tasks and attempt in (None, task.attempt):
                killed |= bool(self._context._jsc.sc().killTaskAttempt(task.task_id, True, f"{pe} hangs"))
        return killed

    def cancel(self, timeout: float = 30.0) -> None:
        """End the job and wait until its tasks and their processes are gone. Harmless if it has ended."""
        self._cancelled = self._cancelled or not self._ended.is_set()
        deadline = self._clock.monotonic() + timeout
        while not self._ended.is_set() and self._clock.monotonic() < deadline:
            with suppress(*JVM_GONE):
                self._context.cancelJobGroup(
                    self._group
                )  # repeatedly: a job that is still being submitted is not found
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
            self._error = self._error or "its JVM has died: it was killed, or ran out of memory"
        except Exception as error:
            self._error = self._error or _reason(str(error))
        finally:
            self._ended.set()

    def _watch_failures(self) -> None:
        """Spark retries every failed task; end the job if the failure was not the death of a process."""
        while not self._ended.wait(_POLL):
            for task in self._attempts("FAILED"):
                if any(mark in task.error for mark in _NOT_A_DEATH):
                    self._error = f"{self._pes[task.index]} failed ({_reason(task.error)}){_advice(task.error)}"
                    with suppress(*JVM_GONE):
                        self._context.cancelJobGroup(self._group)
                    return

    def _attempts(self, status: str) -> list[_Attempt]:
        """The latest attempts with that status, newest first. Empty if the session or its JVM is gone."""
        context, jvm = self._context._jsc, self._context._jvm
        if context is None:
            return []
        try:
            self._stage = self._find_stage() if self._stage is None else self._stage
            if self._stage is None:  # the job is still being submitted
                return []
            statuses = jvm.java.util.ArrayList()
            statuses.add(jvm.org.apache.spark.status.api.v1.TaskStatus.valueOf(status))
            store, most = context.sc().statusStore(), 4 * len(self._pes)
            tasks = store.taskList(self._stage, 0, 0, most, jvm.scala.Option.empty(), False, statuses)
            return [_attempt(tasks.apply(number)) for number in range(tasks.size())]
        except (*JVM_GONE, Py4JError, TypeError):  # the latter two: it died between two calls
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
    """The line with the reason: the last of a Python traceback; the first if Python did not start."""
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
        except BaseException:  # also exit(): a retry would exit again
            yield ElementFailure(pe, attempt, traceback.format_exc())
