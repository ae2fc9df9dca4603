"""The progress of a running Spark job: on classic Spark from the status tracker, over Connect from its progress
messages.
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from pyspark.sql import SparkSession

Result = TypeVar("Result")
Tell = Callable[[int, int], None]  # tasks done, tasks in total

_POLL = 0.1  # seconds


def with_progress(spark: SparkSession, action: Callable[[], Result], tell: Tell) -> Result:
    """Run `action`, which starts Spark jobs, and report how many of their tasks are done."""
    return _classic(spark, action, tell) if hasattr(spark, "_jsc") else _connect(spark, action, tell)


def _connect(spark: SparkSession, action: Callable[[], Result], tell: Tell) -> Result:
    def handler(stages: Any, inflight_tasks: int, operation_id: Any, done: bool) -> None:
        stages = list(stages or ())
        tell(sum(stage.num_completed_tasks for stage in stages), sum(stage.num_tasks for stage in stages))

    spark.registerProgressHandler(handler)
    try:
        return action()
    finally:
        spark.removeProgressHandler(handler)


def _classic(spark: SparkSession, action: Callable[[], Result], tell: Tell) -> Result:
    from pyspark import InheritableThread

    context = spark.sparkContext
    group = f"riprap-{id(action)}"
    outcome: dict[str, Any] = {}
    finished = threading.Event()

    def run() -> None:
        try:
            context.setJobGroup(group, "riprap")
            outcome["result"] = action()
        except BaseException as error:  # re-raised in the caller's thread
            outcome["error"] = error
        finally:
            finished.set()

    thread = InheritableThread(target=run, daemon=True)
    thread.start()
    try:
        while not finished.wait(_POLL):
            tell(*_tasks(context, group))
    except KeyboardInterrupt:
        context.cancelJobGroup(group)
        raise
    thread.join()
    if "error" in outcome:
        raise outcome["error"]
    _, total = _tasks(context, group)
    tell(total, total)  # all are done, though Spark's status may lag behind
    result: Result = outcome["result"]
    return result


def _tasks(context: Any, group: str) -> tuple[int, int]:
    tracker = context.statusTracker()
    done = total = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info is not None else ():
            state = tracker.getStageInfo(stage)
            if state is not None:
                done += state.numCompletedTasks
                total += state.numTasks
    return done, total
