"""How fast an operator with continuous checkpoints recovers: never published, so measured.

An element stops at a random turn as if killed (what is not in its log is lost), and another incarnation starts on the
same log. The time until it has processed the input of the first one is that of reading records, rebuilding windows and
replaying input; detection, restart and imports are not included.
"""

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from riprap.base.clock import SYSTEM_CLOCK
from riprap.base.quantities import Duration
from riprap.base.randomness import generator
from riprap.graph.annotations import Annotations, Continuous
from riprap.graph.graph import Graph
from riprap_papers.experiments.window_records import WindowScenario, annotations, build, prices, started

ESTIMATE = WindowScenario("estimate", 10_000, 100, 0, "90 MB replayed, 10 KB of state")


@dataclass(frozen=True)
class WindowReturn:
    """One recovery."""

    scenario: str
    every: int  # T = H, microseconds; 0: no checks, or as the goal has it
    goal: float  # seconds; 0: none
    seconds: float
    worked: float  # seconds of CPU
    records: int  # read
    windows: int  # open
    replayed: int  # rows
    replayed_bytes: int  # of input, counted as published: 100 bytes each
    state_bytes: int  # in the records that were needed


def returns(
    scenario: WindowScenario,
    rows: int,
    every: int,
    kills: int,
    directory: Path,
    *,
    goal: float = 0.0,
    batch_rows: int = 1024,
) -> list[WindowReturn]:
    """Kill an element several times, each time at a random position in the second half of its input."""
    table = prices(scenario, rows)
    protect = annotations("checks" if every else "disk", every, 64)
    if goal:
        protect = Annotations(continuous=Continuous(Duration(round(goal * 1e6)), None, None, None))
    graph, found = build(scenario.window, protect), []
    moments = generator(2, "kills", scenario.name).integers(rows // 2, rows, kills)
    for number, moment in enumerate(np.sort(moments).tolist()):
        found.append(_return(scenario, graph, table, int(moment), directory / str(number), every, goal, batch_rows))
    return found


def _return(
    scenario: WindowScenario, graph: Graph, table: pa.RecordBatch, moment: int, place: Path, every: int, goal: float,
    batch_rows: int,
) -> WindowReturn:  # fmt: skip
    element, host = started(graph, table, place, 1, batch_rows)
    while element.taken("Prices") < moment:
        element.handle()
    taken = element.taken("Prices")
    host.close()
    clock = SYSTEM_CLOCK
    begin, worked = clock.monotonic(), time.process_time()
    again, host = started(graph, table, place, 2, batch_rows)
    recording = again.records
    assert recording is not None
    recovery = recording.recovery
    assert recovery is not None
    while recording.repeating or again.taken("Prices") < taken:
        again.handle()
    seconds, worked = clock.monotonic() - begin, time.process_time() - worked
    host.close()
    shutil.rmtree(place)
    replayed = taken - int(recovery.unsaved.rows.sum())
    state = sum(keys.nbytes + rows.nbytes for part in recovery.parts for keys, rows in part.values())
    return WindowReturn(
        scenario.name,
        every,
        goal,
        seconds,
        worked,
        recovery.records_read,
        recovery.totals.open,
        replayed,
        100 * replayed,
        state,
    )
