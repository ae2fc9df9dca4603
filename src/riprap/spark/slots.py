"""Checks whether a session can host a run: kind, failure limit, task slots. Without the check the run would hang."""

import re
from dataclasses import dataclass

from pyspark.sql import SparkSession

from riprap.base.clock import Clock
from riprap.base.errors import MissingPrerequisite, UsageError
from riprap.spark.settings import DAEMON, FAILURES

FEWEST_FAILURES = 1_000  # a session with a lower limit may give up in the middle of a run
_FIRST = 60.0  # seconds to wait for the first executor of a cluster
_SETTLED = 2.0  # seconds without a new executor after which no more are expected
_VACATED = 10.0  # seconds to wait for occupied slots: Spark lists tasks for a while after they have ended
_POLL = 0.1  # seconds


@dataclass(frozen=True)
class Slots:
    """Task slots of a session. `executors`: the slots of each, without the driver if it runs no tasks."""

    executors: tuple[int, ...]
    busy: int

    @property
    def free(self) -> int:
        return sum(self.executors) - self.busy

    @property
    def spare(self) -> int:
        """Free slots after the loss of the largest executor."""
        return max(self.free - max(self.executors, default=0), 0)


def check_hosting(spark: SparkSession, elements: int, clock: Clock) -> tuple[str, ...]:
    """Raise if the session cannot host that many elements; else return warnings about its recoveries."""
    if not hasattr(spark, "_jsc"):
        raise UsageError(
            "a Spark Connect session cannot host processing elements, which need the driver's SparkContext: "
            "pass a classic session, or a cluster's URL as `master`"
        )
    _check_failure_limit(spark)
    if _setting(spark, "spark.speculation", "false") == "true":
        raise UsageError(
            "spark.speculation=true would run an element twice at once: start the session with spark.speculation=false"
        )
    local = is_local(spark)
    slots = _vacated_slots(spark, elements, clock, _slots(spark) if local else _settled_slots(spark, elements, clock))
    if slots.free < elements:
        raise MissingPrerequisite(_too_few(spark, slots, elements, local))
    return (*_about_spare_slots(slots, elements, local), *_about_the_daemon(spark))


def can_host(spark: SparkSession, elements: int) -> bool:
    """Whether a local session has the failure limit and the slots for that many elements."""
    limit = failure_limit(spark.sparkContext.master, "1")
    return limit >= FEWEST_FAILURES and sum(_slots(spark).executors) >= elements


def check_executor_kill(spark: SparkSession) -> None:
    """Raise if killing an executor would kill the driver."""
    if is_local(spark):
        raise UsageError(
            f"executor@ in `kill`: on master {spark.sparkContext.master} the executor is the driver; "
            "use driver@, or a cluster, for example `master=local-cluster[2,4,1024]`"
        )


def is_local(spark: SparkSession) -> bool:
    return bool(spark.sparkContext._jsc.sc().isLocal())


def failure_limit(master: str, setting: str) -> int:
    """How many failures of one task end its job: local mode reads it from the master and ignores the setting."""
    if master == "local" or master.startswith("local["):
        match = re.fullmatch(r"local\[[^,]+,\s*(\d+)\s*\]", master)
        return int(match.group(1)) if match else 1
    return int(setting)


def _check_failure_limit(spark: SparkSession) -> None:
    master = spark.sparkContext.master
    limit = failure_limit(master, _setting(spark, "spark.task.maxFailures", "4"))
    if limit >= FEWEST_FAILURES:
        return
    remedy = (
        f"use master local[SLOTS,{FAILURES}], or leave out `master`"
        if is_local(spark)
        else f"start it with spark.task.maxFailures={FAILURES}"
    )
    raise UsageError(
        f"the Spark session on {master} gives up at failure {limit} of a task, and every death of a "
        f"processing element counts as one (at least {FEWEST_FAILURES} are needed): {remedy}"
    )


def _slots(spark: SparkSession) -> Slots:
    local = is_local(spark)
    listed = spark.sparkContext._jsc.sc().statusStore().executorList(True)  # only active ones
    executors = [listed.apply(number) for number in range(listed.size())]
    working = [executor for executor in executors if local or executor.id() != "driver"]
    cores = int(_setting(spark, "spark.task.cpus", "1"))
    # Not `maxTasks`: it follows spark.executor.cores even if the master overrides it.
    slots = tuple(executor.totalCores() // cores for executor in working)
    return Slots(slots, sum(executor.activeTasks() for executor in working))


def _settled_slots(spark: SparkSession, elements: int, clock: Clock) -> Slots:
    """Executors of a cluster register one after another: wait for enough slots, with spare ones, or until no more
    register."""
    slots = _slots(spark)
    since = clock.monotonic()
    while slots.spare < elements and clock.monotonic() - since < (_SETTLED if slots.executors else _FIRST):
        clock.sleep(_POLL)
        latest = _slots(spark)
        if latest.free > slots.free:
            since = clock.monotonic()
        slots = latest
    return slots


def _vacated_slots(spark: SparkSession, elements: int, clock: Clock, slots: Slots) -> Slots:
    """If there are enough slots but some are occupied, perhaps by a run that has just ended, wait for them."""
    since = clock.monotonic()
    while slots.free < elements <= sum(slots.executors) and clock.monotonic() - since < _VACATED:
        clock.sleep(_POLL)
        slots = _slots(spark)
    return slots


def _too_few(spark: SparkSession, slots: Slots, elements: int, local: bool) -> str:
    if local:
        where = ""
        remedy = f"use master local[{elements + slots.busy},{FAILURES}], or give neither a session nor `master`"
    else:
        where = f" on {len(slots.executors)} executors"
        remedy = "add workers or cores (spark.executor.instances, spark.executor.cores, spark.cores.max)"
    return (
        f"{elements} processing elements need as many task slots at once, and {spark.sparkContext.master} has "
        f"{slots.free} free of {sum(slots.executors)}{where}: {remedy}, or fuse operators with `fuse=auto` or all"
    )


def _about_spare_slots(slots: Slots, elements: int, local: bool) -> tuple[str, ...]:
    if local:  # the driver is the executor
        return ()
    if slots.spare >= elements:
        return ()
    return (
        f"when an executor with {max(slots.executors)} task slots is lost, {slots.spare} are left for {elements} "
        f"processing elements, so recovery will wait for a new executor: "
        f"add {elements - slots.spare} slots on other executors",
    )


def _about_the_daemon(spark: SparkSession) -> tuple[str, ...]:
    if _setting(spark, "spark.python.daemon.module", "") == DAEMON:
        return ()
    return (
        "a restarted element will import its libraries again, which takes seconds: "
        f"start the session with spark.python.daemon.module={DAEMON}",
    )


def _setting(spark: SparkSession, key: str, default: str) -> str:
    return str(spark.sparkContext.getConf().get(key, default)).lower()
