"""Processing elements as the long-running tasks of one Spark job: element i of the layout is task i.

Fault model. A worker process or an executor may die at any moment, any number of times; Spark starts the tasks again,
with a higher attempt. Nothing else is tried again: an exception in an element is the application's, and what repeats is
the same exception. So the task catches it and ends, and a failure that is not a death (no Python or no riprap on an
executor, a function that cannot be unpickled) ends the job.

    body(run, pe_id, attempt, executor_pid)

is called in a worker process; the element ends when it returns. `attempt` counts from 0 within one job; `executor_pid`
is the JVM above the worker. What it raises becomes a `Failure`, besides what it has told the coordinator itself.

Uses two of Spark's internals: the status store (which attempt is where) and `killTaskAttempt`.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import InheritableThread, cloudpickle
from pyspark.sql import SparkSession

from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.base.errors import MissingPrerequisite, UsageError
from riprap.runtime.run import Run
from riprap.spark.slots import check_hosting

Body = Callable[[Run, str, int, int], None]

_POLL = 0.2  # seconds between looks at the job
_SCHEMA = "pe string, attempt int, error string"  # what a task gives out when its body raised
# How Spark words a task that failed in another way than by the death of its process or executor.
_NOT_A_DEATH = ("PythonException", "Error from python worker", "PYTHON_WORKER_START", "NotSerializableException")


class Failure(NamedTuple):
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
        self.failures: tuple[Failure, ...] = ()  # known when the job has ended
        self._pes = [pe.id for pe in run.layout.pes]
        self._clock = clock
        self._context = spark.sparkContext
        self._group = f"riprap-{id(self)}"
        self._error: str | None = None  # why the job ended, if it did not end well
        self._cancelled = False
        self._stage: int | None = None
        task = _task(cloudpickle.dumps((run, body)), self._pes)
        count = len(self._pes)
        self._frame = spark.range(0, count, 1, count).mapInArrow(task, _SCHEMA)
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
            raise MissingPrerequisite(f"Spark could not go on hosting the processing elements: {self._error}")
        return True

    def kill_attempt(self, pe: str, attempt: int | None = None) -> bool:
        """Have Spark kill the task of an element that hangs and start it again; whether there was one to kill.

        With `attempt`, only that one, so that its successor is not hit by a late decision.
        """
        if pe not in self._pes:
            raise UsageError(f"no processing element is called {pe}; there are {', '.join(self._pes)}")
        for task in self._attempts("RUNNING"):
            if task.index == self._pes.index(pe) and attempt in (None, task.attempt):
                return bool(self._context._jsc.sc().killTaskAttempt(task.task_id, True, f"{pe} hangs"))
        return False

    def cancel(self, timeout: float = 30.0) -> None:
        """End the job and wait until its tasks, and with them their processes, are gone. Harmless when it has ended."""
        self._cancelled = self._cancelled or not self._ended.is_set()
        deadline = self._clock.monotonic() + timeout
        while not self._ended.is_set() and self._clock.monotonic() < deadline:
            self._context.cancelJobGroup(self._group)  # again: a job that is only being submitted is not found
            self._ended.wait(_POLL)
        self._watch.join(timeout)
        while self._attempts("RUNNING") and self._clock.monotonic() < deadline:
            self._clock.sleep(_POLL / 4)

    # The job ----------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._context.setJobGroup(self._group, "riprap: processing elements", interruptOnCancel=True)
            rows = self._frame.collect()
            self.failures = tuple(Failure(row.pe, row.attempt, row.error) for row in rows)
        except Exception as error:
            self._error = self._error or _first_line(str(error))
        finally:
            self._ended.set()

    def _watch_failures(self) -> None:
        """Spark tries every failed task again; end the job when what failed was not a process that died."""
        while not self._ended.wait(_POLL):
            for task in self._attempts("FAILED"):
                if any(mark in task.error for mark in _NOT_A_DEATH):
                    self._error = f"{self._pes[task.index]} failed to start ({_last_line(task.error)})"
                    self._context.cancelJobGroup(self._group)
                    return

    def _attempts(self, status: str) -> list[_Attempt]:
        """The latest attempts with that status, newest first."""
        if self._stage is None:
            self._stage = self._find_stage()
        context = self._context._jsc
        if self._stage is None or context is None:  # not submitted yet; or the session is stopped, and all is gone
            return []
        jvm = self._context._jvm
        statuses = jvm.java.util.ArrayList()
        statuses.add(jvm.org.apache.spark.status.api.v1.TaskStatus.valueOf(status))
        most = 4 * len(self._pes)
        newest = context.sc().statusStore().taskList(
            self._stage, 0, 0, most, jvm.scala.Option.empty(), False, statuses
        )  # fmt: skip
        return [_attempt(newest.apply(number)) for number in range(newest.size())]

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


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    informative = [line for line in lines if "Exception" in line or "Error" in line]
    return (informative or lines or ["no reason was given"])[0]


def _last_line(text: str) -> str:
    """The exception itself: a Python traceback, cut off where the JVM's begins, ends with it."""
    python = text.split("\n\tat ")[0]
    lines = [line.strip() for line in python.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason was given"


# In the worker --------------------------------------------------------------------------------------------------------


def _task(payload: bytes, pes: list[str]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark runs. Nested, so that it is pickled by value: whatever an executor's Python lacks is then
    found inside of its `try`, and reported, instead of being tried again for ever.
    """

    def task(ids: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pickle
        import traceback

        import pyarrow as pa
        from pyspark import TaskContext

        for batch in ids:
            for index in batch.column(0).to_pylist():
                attempt = TaskContext.get().attemptNumber()
                try:
                    from riprap.spark.executor import executor_pid

                    run, body = pickle.loads(payload)
                    body(run, pes[index], attempt, executor_pid())
                except Exception:
                    row = {"pe": pes[index], "attempt": attempt, "error": traceback.format_exc()}
                    schema = pa.schema([("pe", pa.string()), ("attempt", pa.int32()), ("error", pa.string())])
                    yield pa.RecordBatch.from_pylist([row], schema=schema)

    return task
