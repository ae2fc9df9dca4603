"""A run on Spark: the coordinator in the driver, the elements as tasks, scheduled kills, and a clean end.

However it ends (end of the input, Ctrl-C, an exception), the tasks are gone afterwards, and the counts are in the run's
directory.
"""

import os
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.base.errors import CheckFailed, DataError, MissingPrerequisite, RiprapError, UsageError
from riprap.base.phases import Phases
from riprap.base.randomness import secret_token
from riprap.engine.engine import Engine
from riprap.graph.annotations import Stability
from riprap.runtime.coordination.coordinator import Coordinator
from riprap.runtime.coordination.element_states import SystemState
from riprap.runtime.coordination.metrics_file import MetricsFile
from riprap.runtime.coordination.replica_groups import active_elements, tainted, with_kills
from riprap.runtime.coordination.roster import PeStatus
from riprap.runtime.coordination.run_summary import MetricsByIncarnation, positions, read_ledgers, summary
from riprap.runtime.corruption import Corruption, corruptions_done, not_done, request_corruption
from riprap.runtime.host import Rates
from riprap.runtime.input_hold import release_inputs
from riprap.runtime.kills import Kill, Kills, signal_to
from riprap.runtime.layout import Layout
from riprap.runtime.run_context import Run
from riprap.runtime.tls import generate_tls
from riprap.spark.element_tasks import Hosted, host
from riprap.spark.launching import launched
from riprap.spark.session import hosting_session
from riprap.spark.slots import check_executor_kill, check_hosting
from riprap.spark.task import run_element

_LOOK = 0.05  # seconds between checks of the run
_KINDS: dict[int, type[RiprapError]] = {kind.exit_code: kind for kind in (CheckFailed, DataError, MissingPrerequisite)}

# Called with the table of elements at every check.
Watch = Callable[[SystemState, Sequence[PeStatus]], None]
# Called with the newest lines of `metrics.jsonl`, one per element.
Show = Callable[[SystemState, Sequence[dict[str, Any]]], None]


def ready_session(
    layout: Layout,
    kills: Sequence[Kill] = (),
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    phases: Phases,
    clock: Clock = SYSTEM_CLOCK,
) -> SparkSession:
    """A session that can host the run; raises if there is none, before the run writes anything.

    Meanwhile each fragment is compiled once, rather than by every element.
    """
    for members, taps in dict.fromkeys((frozenset(pe.fragment.members), layout.taps(pe)) for pe in layout.pes):
        Engine(layout.graph, members, taps=taps, wanted=layout.wanted).compile_first()
    phases.done("compiling")
    launched()
    phases.done("jvm")
    spark = hosting_session(len(layout.pes), spark, master=master)
    phases.done("session")
    check_hosting(spark, len(layout.pes), clock)
    if any(kill.what == "executor" for kill in kills):
        check_executor_kill(spark)
    return spark


def run_on_spark(
    spark: SparkSession,
    layout: Layout,
    inputs: Mapping[str, str],
    directory: Path,
    *,
    rate: Rates = None,
    seconds: float | None = None,
    kills: Sequence[Kill] = (),
    corruptions: Sequence[Corruption] = (),
    tls: bool = False,
    stability: Stability = "async",
    follow: bool = False,
    idle: int | None = None,
    silence: float = 3.0,
    phases: Phases,
    watch: Watch = lambda state, table: None,
    show: Show = lambda state, lines: None,
    warn: Callable[[str], None] = lambda text: None,
    clock: Clock = SYSTEM_CLOCK,
) -> dict[str, Any]:
    """Run until the inputs end, or for some seconds; returns the summary. Raises the error of a failed element.

    `spark` is a `ready_session`. `silence`: seconds without a heartbeat after which an element is replaced.
    """
    address = str(spark.sparkContext.getConf().get("spark.driver.host", "127.0.0.1"))
    certificate = generate_tls([address]) if tls else None
    token, before = secret_token(), positions(layout, read_ledgers(directory, layout))
    with ExitStack() as stack:
        hosts: list[Hosted] = []

        def on_hang(pe: str, epoch: int, pid: int) -> None:
            for status in coordinator.table():
                if (status.pe, status.epoch) == (pe, epoch) and hosts:  # not a newer incarnation
                    hosts[0].kill_attempt(pe, status.attempt if status.connected else None)

        coordinator = Coordinator(
            directory, layout, token, certificate, address, clock, silence=silence, on_hang=on_hang
        )
        coordinator.start()
        stack.callback(coordinator.close)
        loopback = address in ("127.0.0.1", "localhost")
        run = Run(
            directory, layout, inputs, coordinator.location, token, address if loopback else "", certificate, rate,
            stability=stability, begun_at=clock.now(), follow=follow, idle=idle,
        )  # fmt: skip
        hosted = stack.enter_context(host(spark, run, run_element, clock=clock))
        hosts.append(hosted)
        if any(pe.fragment.replicas > 1 for pe in layout.pes):
            hosted.tasks_of = coordinator.placement.tasks
        for text in hosted.warnings:
            warn(text)
        metrics = MetricsFile(directory, clock)
        driver = _Driver(coordinator, hosted, address, kills, seconds, watch, show, metrics, phases, clock, warn)
        driver.corruptions, driver.directory = deque(corruptions), directory
        driver.drive()
        phases.done("work")
        coordinator.close()
        hosted.wait(30.0)
        table, events, history = coordinator.table(), coordinator.events, coordinator.history
        result = summary(directory, layout, table, driver.incarnation_metrics, events, history, before, rate)
        report = coordinator.report()
        result["corruptions"] = corruptions_done(directory)
        result["not_injected"] = driver.not_injected(result["corruptions"])
        if not driver.stopped and coordinator.error is None:
            release_inputs(directory, inputs)
        result["groups"], result["copies"] = with_kills(report, driver.killed), report.get("copies", {})
        result["warnings"] += tainted(report)
    if coordinator.error is not None:
        raise _KINDS.get(coordinator.error_code, CheckFailed)(f"the run has failed: {coordinator.error}")
    phases.done("end")
    return {**result, "phases": phases.seconds}


class _Driver:
    """Watches a run from its start to its end."""

    def __init__(
        self,
        coordinator: Coordinator,
        hosted: Hosted,
        address: str,
        kills: Sequence[Kill],
        seconds: float | None,
        watch: Watch,
        show: Show,
        metrics: MetricsFile,
        phases: Phases,
        clock: Clock,
        warn: Callable[[str], None],
    ) -> None:
        self.incarnation_metrics, self._phases = MetricsByIncarnation(), phases
        self.stopped = False  # stopped before the end of its inputs: it may be resumed
        self.killed: dict[str, list[int]] = {}  # by element: when, wall clock
        self.flowed = 0.0  # seconds since all elements were running
        self._coordinator, self._hosted, self._seconds, self._watch = coordinator, hosted, seconds, watch
        self._clock, self._address, self._show, self._metrics = clock, address, show, metrics
        self._kills = Kills(kills, self._kill, self._kill_driver)
        self.corruptions: deque[Corruption] = deque()
        self._requested: list[tuple[Corruption, str]] = []  # with the element
        self.directory = Path()  # of the run, where they are requested
        self._warn = warn

    def drive(self) -> None:
        coordinator, clock = self._coordinator, self._clock
        since: float | None = None
        while not coordinator.wait(_LOOK):
            table = coordinator.table()
            self._report(table)
            if self._hosted.wait(0.0) and not coordinator.wait(1.0):
                raise UsageError("Spark has ended the tasks of the run before its elements had ended")
            if coordinator.error is not None:
                break
            if since is None and coordinator.state is not SystemState.STARTING:
                since = clock.monotonic()
                self._phases.done("elements")
                for text in coordinator.placement.shared():
                    self._warn(text)
            self.flowed = clock.monotonic() - since if since is not None else 0.0
            if since is not None:
                self._kills.look(self.flowed, table, coordinator.report())
                self._corrupt_due()
                if self._seconds is not None and self.flowed >= self._seconds:
                    self.stopped = True
                    coordinator.stop()
        table = coordinator.table()
        self._report(table)

    def _report(self, table: Sequence[PeStatus]) -> None:
        state = self._coordinator.state
        self.incarnation_metrics.note(table)
        self._metrics.note(state, table, self._coordinator.report())
        self._watch(state, table)
        self._show(state, self._metrics.lines)

    def _corrupt_due(self) -> None:
        while self.corruptions and self.corruptions[0].at / 1e6 <= self.flowed:
            due = self.corruptions.popleft()
            pe = (active_elements(self._coordinator.report(), due.pes) or due.pes)[0]
            request_corruption(self.directory, pe, due.what, operator=due.operator, chance=due.chance)
            self._requested.append((due, pe))

    def _kill(self, pid: int, victims: Sequence[PeStatus]) -> bool:
        """Kill a local process that runs these elements. Returns False if it no longer existed."""
        for status in victims:
            if status.host != self._address:  # the process id means nothing here
                raise UsageError(f"`kill`: {status.pe} runs on {status.host}, and only processes here can be killed")
        at, wall = self._clock.monotonic(), self._clock.now()
        if not signal_to(pid, signal.SIGKILL):
            return False
        for status in victims:
            self._coordinator.report_killed(status.pe, at)
            self.killed.setdefault(status.pe, []).append(wall)
        return True

    def _kill_driver(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def not_injected(self, corrupted: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
        """Requested faults that were not injected, and why."""
        return [
            *self._kills.not_injected(self.flowed),
            *not_done(self._requested, self.corruptions, corrupted, self.flowed),
        ]
