"""Cases of a comparison on Spark, with real processes and SIGKILL, in one session."""

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from riprap.api.run import RunResult, run
from riprap.base.clock import SYSTEM_CLOCK
from riprap.base.quantities import format_duration
from riprap.base.scratch import scratch
from riprap.runtime.coordination.element_states import SystemState
from riprap.runtime.kills import signal_to
from riprap.spark.session import hosting_session
from riprap.streams import PersistentStream
from riprap.streams.shards import shards as streams_of
from riprap.streams.stream_files import LocalFiles
from riprap_papers.compare.grid import MICRO_BATCHES, NONE, ComparedCase
from riprap_papers.compare.measures import Observation, SinkOutput
from riprap_papers.compare.simulated_host import inputs_of, laid_out
from riprap_papers.compare.workload_oracle import expected, judged, rows
from riprap_papers.peers import micro_batches

_SLICES = 20  # of the output of a micro-batch, each with its own latency


class OnSpark:
    """Runs cases one after the other on one session."""

    def __init__(self, asked: Sequence[ComparedCase], master: str | None) -> None:
        self._slots = max(len(laid_out(case).pes) for case in asked)
        self._master = master
        self._session: Any = None

    def __call__(self, case: ComparedCase) -> Observation:
        if self._session is None:
            self._session = hosting_session(self._slots, master=self._master)
        with scratch("compare") as place:
            if case.protocol == MICRO_BATCHES:
                return _micro_batched(case, self._session, place)
            return self._observed(case, place)

    def _observed(self, case: ComparedCase, place: Path) -> Observation:
        layout, inputs = laid_out(case), inputs_of(case)
        paths = {}
        for name, batch in inputs.items():
            paths[name] = place / f"{name}.parquet"
            pq.write_table(pa.Table.from_batches([batch]), paths[name])
        killer = _Killer([pe.id for pe in layout.hosting(case.victim)][:1] if case.failure else [], case.killed_at)
        protected: dict[str, Any] = {}
        if case.protocol != NONE:
            protected = {"protocol": case.protocol, "interval": format_duration(case.interval)}
            protected |= {"log": case.log, "scope": case.scope, "rule": case.rule, "sinks": case.sinks}
            protected["virtual"] = case.virtual
        result = run(
            case.of.graph(case.windows), paths, out=place / "run", fuse="none",
            rate={name: batch.num_rows / case.seconds for name, batch in inputs.items()},
            parallelism={spec.name: spec.parallelism for spec in layout.graph}, watch=killer, spark=self._session,
            **protected,
        )  # fmt: skip
        return _seen(case, result, inputs, killer)


class _Killer:
    """Watches a run and kills an element at the set time."""

    def __init__(self, victims: Sequence[str], after: float) -> None:
        self._victims, self._after = list(victims), after
        self._since: float | None = None
        self.at: float | None = None  # wall clock, seconds

    def __call__(self, state: SystemState, table: Sequence[Any]) -> None:
        if self._since is None and state is SystemState.RUNNING:
            self._since = SYSTEM_CLOCK.monotonic()
        if self._victims and self._since is not None and SYSTEM_CLOCK.monotonic() - self._since >= self._after:
            at = SYSTEM_CLOCK.now() / 1e6
            connected = [status for status in table if status.pe in self._victims and status.connected]
            killed = [status.pe for status in connected if signal_to(status.pid, signal.SIGKILL)]
            self._victims = [pe for pe in self._victims if pe not in killed]  # an element that is down is killed later
            if killed and self.at is None:
                self.at = at


def _seen(case: ComparedCase, result: RunResult, inputs: Mapping[str, pa.RecordBatch], killer: _Killer) -> Observation:
    summary, graph = result.summary, case.of.graph(case.windows)
    outputs, found = [], {}
    for sink in graph.sinks:
        paths = streams_of(summary["sinks"][sink.name]["path"])
        items = [item for path in paths for item in PersistentStream.open(LocalFiles(path)).read()]
        found[sink.name] = rows(item.batch for item in items)
        outputs += [(item.header.written_at / 1e6, item.batch.num_rows, item.header.born / 1e6) for item in items]
    began = min((born for _, _, born in outputs if born), default=0.0)
    recoveries = [recovery for pe in summary["pes"].values() for recovery in pe["recoveries"]]
    noted = summary["protocol"]

    def longest(part: str) -> float:
        return max((recovery[part] or 0.0 for recovery in recoveries), default=0.0)

    return Observation(
        [SinkOutput(at - began, count, at - born) for at, count, born in sorted(outputs) if born],
        summary["tuples"],
        summary["seconds"],
        None if killer.at is None else killer.at - began,
        longest("detect"),
        longest("restart"),
        longest("restore"),
        noted["checkpoints"],
        noted["forced"],
        noted["bytes"],
        noted["take_ms"],
        max((line["rollback"] for line in noted["lines"]), default=0.0),
        sum(pe["went_back"] for pe in summary["pes"].values()),
        judged(expected(graph, inputs), found),
        sum(counts["lost"] for counts in summary["streams"].values()),
    )


def _micro_batched(case: ComparedCase, session: Any, place: Path) -> Observation:
    """The same on Structured Streaming."""
    inputs, written = inputs_of(case), case.of.query
    assert written is not None
    after, pace = case.killed_at if case.failure else None, case.compressed * case.hurried
    carried = written.carried
    kept = None if carried is None else (carried.keeps, carried.by, carried.value)
    asked = micro_batches.MicroBatchQuery(written.sql(case.windows), kept, closes=written.closes, pace=pace)
    worked = micro_batches.work(session, asked, inputs, place, kill_after=after)
    [sink] = case.of.graph(case.windows).sinks
    items = list(PersistentStream.open(LocalFiles(place / "Sink")).read())
    verdict = judged(expected(case.of.graph(case.windows), inputs), {sink.name: rows(i.batch for i in items)})
    first = min(int(batch.column("_ts").cast(pa.int64())[0].as_py()) for batch in inputs.values())
    sooner = first + written.sooner.get(case.windows, 0.0) * 1e6
    outputs = []
    for item in items:
        at = item.header.written_at / 1e6 - worked.began
        due = (np.sort(item.batch.column("_ts").cast(pa.int64()).to_numpy()) - sooner) / 1e6 / pace
        due = np.minimum(due, case.seconds)  # open windows close at the end of the input
        outputs += [
            SinkOutput(at, len(part), at - float(part.mean())) for part in np.array_split(due, _SLICES) if len(part)
        ]
    outputs = sorted(output for output in outputs if output.at > 0)  # without the row that starts the query
    return Observation(
        outputs, sum(batch.num_rows for batch in inputs.values()), worked.ended - worked.began,
        None if worked.killed_at is None else worked.killed_at - worked.began, 0.0, 0.0, 0.0,
        worked.batches, 0, 0, worked.commit_ms, 0.0, 0, verdict,
    )  # fmt: skip
