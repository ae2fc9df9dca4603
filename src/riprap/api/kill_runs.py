"""Runs of an app under a plan in which elements are killed: how long each recovery took, and what its output suffered.

The runs share one Spark session. A kill starts to count at the event time that the sources had reached, and what is
wrong from there to the next kill is its damage.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from riprap.api.replayed_inputs import ReplayedInputs
from riprap.api.run import run
from riprap.base import files
from riprap.base.clock import SYSTEM_CLOCK
from riprap.base.quantities import Duration
from riprap.faults.scoring import Score
from riprap.graph.graph import Graph
from riprap.graph.order_keys import TS
from riprap.graph.plan_file import Plan, write_plan
from riprap.planner.sink_effects import SinkEffect
from riprap.planner.slo import PPM
from riprap.proof.injector import RUN, Injector, read_observations
from riprap.proof.kill_outcomes import KillOutcome
from riprap.proof.oracle import Differing, SinkRows, difference, expected_rows, found_rows
from riprap.proof.schedule import ScheduledFault
from riprap.proof.verdict import results
from riprap.runtime.coordination.run_summary import read_ledgers
from riprap.runtime.fusion import Fuse
from riprap.runtime.layout import Layout
from riprap.runtime.planned import planned_layout
from riprap.spark.running import Watch

FUSE: Fuse = "none"  # every operator has an element of its own: what is measured of one is not that of its neighbours
_BEFORE = 0.3  # seconds: rows that were in flight when an element died


@dataclass(frozen=True)
class PlannedKill:
    operator: str
    at: float  # seconds of the run
    late: bool = False  # when the next checkpoint is almost due


@dataclass(frozen=True)
class KillRun:
    outcomes: tuple[KillOutcome, ...]
    summary: Mapping[str, Any]
    layout: Layout


@dataclass(frozen=True)
class Counting:
    """How the output is compared. `due`: by sink, the event times of all rows of a run without faults."""

    windows: Mapping[str, Duration]
    due: Mapping[str, np.ndarray]
    scores: Mapping[str, Score] = field(default_factory=dict)


def run_with_kills(
    graph: Graph, plan: Plan, replay: ReplayedInputs, kills: Sequence[PlannedKill], directory: Path, counting: Counting,
    *, spark: Any, expected: Mapping[str, pa.Table] | None = None, seconds: float | None = None,
    warn: Callable[[str], None] = lambda text: None,
    watch: Watch = lambda state, table: None,
) -> KillRun:  # fmt: skip
    """`directory` must not exist; the data of the run is removed at the end. `expected`: the output without faults, if
    it is known; empty: it is not compared. `seconds`: when to stop, if not at the end of the input."""
    layout = planned_layout(graph, plan, FUSE)
    files.make(directory)
    files.write_text(directory / "plan.toml", write_plan(plan))
    schedule = tuple(
        ScheduledFault(
            Duration(round(kill.at * 1e6)),
            "kill-late" if kill.late and layout.plan(layout.hosting(kill.operator)[0]).units else "kill",
            (layout.hosting(kill.operator)[0].id,),
        )
        for kill in sorted(kills, key=_when)
    )
    injector = Injector(schedule, directory, SYSTEM_CLOCK)

    def both(state: Any, table: Any) -> None:
        injector(state, table)
        watch(state, table)

    try:
        result = run(
            graph, replay.run, out=directory / RUN, plan=directory / "plan.toml", fuse=FUSE, rate=dict(replay.rates),
            seconds=seconds, spark=spark, watch=both, warn=warn,
        )  # fmt: skip
    finally:
        injector.close()
    found = results(schedule, read_observations(directory))
    summary = result.summary
    began = _began(directory / RUN, layout)
    expected = expected_rows(layout.graph, replay.run) if expected is None else expected
    compared = {
        name: _compared(rows, found_rows(directory / RUN / "sinks" / name, rows.schema))
        for name, rows in expected.items()
    }
    outcomes = []
    struck = [None if one.began is None or one.not_injected else _event(replay, began, one.began) for one in found]
    last = max(int(times[-1]) for times in replay.times.values())
    seen: dict[str, int] = {}
    for number, (kill, one) in enumerate(zip(sorted(kills, key=_when), found, strict=True)):
        at = struck[number]
        if at is None:
            outcomes.append(KillOutcome(kill.operator, kill.late, None, missed=one.not_injected or "no process"))
            continue
        following = next((other for other in struck[number + 1 :] if other is not None), None)
        pe = one.fault.targets[0]
        index = seen[pe] = seen.get(pe, -1) + 1
        recoveries = summary["pes"][pe]["recoveries"]
        parts = recoveries[index] if index < len(recoveries) else {}
        known = {name: float(parts.get(name) or 0.0) for name in ("restart", "restore", "catch_up")}
        total = one.latency
        since = at - round(_BEFORE * replay.speed * 1e6)
        until = None if following is None else following - round(_BEFORE * replay.speed * 1e6)
        damage = {}
        for name, (where, rows, right) in compared.items():
            if name not in graph.reachable(kill.operator):
                continue
            hurt = _damage(where, since, at, until, counting, name, rows, right)
            if hurt != SinkEffect():
                damage[name] = hurt
        outcomes.append(
            KillOutcome(
                kill.operator, one.fault.kind == "kill-late", total,
                max((total or 0.0) - sum(known.values()), 0.0), known["restart"], known["restore"],
                known["catch_up"], damage,
                watched=((following or last) - at) / 1e6,
            )
        )  # fmt: skip
    for name in ("sinks", "streams", "checkpoints", "ledgers"):
        files.remove_tree(directory / RUN / name)
    return KillRun(tuple(outcomes), summary, layout)


def _when(kill: PlannedKill) -> float:
    return kill.at


def _began(directory: Path, layout: Layout) -> dict[str, float]:
    """By source: when its first row was due, in seconds of the wall clock."""
    found: dict[str, float] = {}
    for ledger in read_ledgers(directory, layout).values():
        for name, source in ledger.sources.items():
            if source.started_at:
                found[name] = min(found.get(name, float("inf")), source.started_at / 1e6)
    return found


def _event(replay: ReplayedInputs, began: Mapping[str, float], at: float) -> int:
    return replay.event_time({name: at - began.get(name, at) for name in replay.times})


_Compared = tuple[Differing, pa.Table, pa.Table]  # where they differ, the found rows, the expected rows


def _compared(expected: pa.Table, found: SinkRows) -> _Compared:
    return difference(expected, found)[1], found.rows, expected


def _damage(
    where: Differing, since: int, at: int, until: int | None, counting: Counting, sink: str, found: pa.Table,
    expected: pa.Table,
) -> SinkEffect:  # fmt: skip
    over = at + counting.windows[sink]
    due = counting.due[sink]
    total = max(int(((due >= since) & (due <= over)).sum()), 1)
    hurt = np.concatenate([_between(times, since, until) for times in (where.lost, where.wrong)])
    wrong = int((hurt <= over).sum())
    lasts = max(int(hurt.max()) - at, 0) if len(hurt) else 0
    score = PPM
    if sink in counting.scores and len(hurt):
        function, end = counting.scores[sink], over if until is None else min(over, until)
        right, now = (_score(function, rows, since, end) for rows in (expected, found))
        score = PPM if now == right else max(round(PPM * (1 - abs(now - right) / abs(right))), 0) if right else 0
    return SinkEffect(min(-(-wrong * PPM // total), PPM), lasts, score)


def _between(times: np.ndarray, since: int, until: int | None) -> np.ndarray:
    found: np.ndarray = times[(times >= since) & (times < (until if until is not None else np.iinfo(np.int64).max))]
    return found


def _score(function: Score, rows: pa.Table, since: int, until: int) -> float:
    times = rows.column(TS).cast(pa.int64()).to_numpy()
    chosen = rows.filter(pa.array((times >= since) & (times <= until))).combine_chunks().to_batches()
    return function.over(function.values(chosen[0]) if chosen else function.nothing)
