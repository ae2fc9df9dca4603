"""Fail-overs of an HA group in one real run: the active replica is killed, and again when all replicas are full.

Some are stopped instead (SIGSTOP), which looks like a hang, and go on when another replica has taken over. Input comes
as long as the story lasts, and the oracle compares what reached the sink with what should have.
"""

import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from riprap.api.run import run as run_app
from riprap.apps.catalogue import load_app
from riprap.proof.oracle import SinkVerdict, compare, expected_rows
from riprap.runtime.coordination.element_states import SystemState
from riprap.runtime.coordination.roster import PeStatus
from riprap.streams import PersistentStream

_AT_ONCE = 0.05  # seconds of input that are written at a look
_SETTLED = 1.0  # seconds for which all replicas have been full when the next one is struck
_GO_ON = 0.5  # seconds after the fail-over at which a stopped process goes on


@dataclass
class InjectedFault:
    pe: str
    pid: int
    at: int  # µs, wall clock
    hang: bool
    seconds: float | None = None  # until the first tuple of the replica that took over


@dataclass
class Story:
    """What happens to a run, look by look."""

    operator: str
    kills: int
    hangs: int
    rows: pa.Table
    rate: float
    writer: Any
    struck: list[InjectedFault] = field(default_factory=list)
    given: int = 0
    over: bool = False
    _lines: Sequence[Mapping[str, Any]] = ()
    _roles: Mapping[str, str] = field(default_factory=dict)
    _full_since: float | None = None
    _stopped: tuple[InjectedFault, float] | None = None

    def show(self, state: SystemState, lines: Sequence[Mapping[str, Any]]) -> None:
        if lines is not self._lines:  # they are made anew every second
            self._lines, self._roles = lines, {line["pe"]: line["role"] for line in lines if line["role"]}

    def watch(self, state: SystemState, table: Sequence[PeStatus]) -> None:
        if self.over:
            return
        self._supply(table)
        if state is not SystemState.RUNNING or not self._roles:
            self._full_since = None
            return
        now = time.monotonic()
        if self._stopped is not None:
            struck, since = self._stopped
            if not self._roles.get(struck.pe, "").startswith("active") and now - since > _GO_ON:
                os.kill(struck.pid, signal.SIGCONT)
                self._stopped = None
            return
        full = all(role in ("active", "backup") for role in self._roles.values())
        self._full_since = (self._full_since or now) if full else None
        if self._full_since is None or now - self._full_since < _SETTLED:
            return
        if len(self.struck) == self.kills + self.hangs:
            self._end()
        else:
            self._strike(table, now)

    def _strike(self, table: Sequence[PeStatus], now: float) -> None:
        [active] = [s for s in table if s.pe.startswith(self.operator) and self._roles.get(s.pe) == "active"]
        hang = len(self.struck) >= self.kills
        struck = InjectedFault(active.pe, active.pid, time.time_ns() // 1_000, hang)
        self.struck.append(struck)
        os.kill(active.pid, signal.SIGSTOP if hang else signal.SIGKILL)
        self._full_since = None
        self._roles = {}  # what was told before does not count
        if hang:
            self._stopped = struck, now

    def _supply(self, table: Sequence[PeStatus]) -> None:
        """As much as is due, and never far ahead of who reads it."""
        taken = max((s.metrics.get("received", 0) for s in table if s.pe.startswith("Source")), default=0)
        if self.given >= self.rows.num_rows:
            self._end()
        elif self.given <= taken + self.rate:
            for batch in self.rows.slice(self.given, int(self.rate * _AT_ONCE)).to_batches():
                self.writer.append(batch)
                self.given += batch.num_rows

    def _end(self) -> None:
        self.over = True
        if self._stopped is not None:
            os.kill(self._stopped[0].pid, signal.SIGCONT)
        self.writer.mark(None, kind="end")
        self.writer.close()


def fail_over(
    app: str, plan: Path, group: str, operator: str, market: Path, folder: Path, *, kills: int, hangs: int,
    rate: float, spark: Any,
) -> tuple[list[InjectedFault], SinkVerdict, dict[str, Any]]:  # fmt: skip
    """What was struck, with how long each fail-over took; the oracle's verdict; the summary of the run."""
    table = pq.read_table(market)
    columns = [c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in table.columns]
    table = pa.table(columns, table.schema.names).combine_chunks()
    live = folder / "live"
    story = Story(operator, kills, hangs, table, rate, PersistentStream.create(live, table.schema).writer())
    graph = load_app(app)
    [source], [sink] = graph.sources, graph.sinks
    result = run_app(
        graph, {source.name: live}, out=folder / "failovers", plan=plan, spark=spark, fuse="none", follow=True,
        watch=story.watch, show=story.show,
    )  # fmt: skip
    given = folder / "given.parquet"
    pq.write_table(table.slice(0, story.given), given)
    verdict = compare(expected_rows(graph, {source.name: given})[sink.name], result.sink(sink.name))
    summary = dict(result.summary)
    failovers = list(summary["groups"][group]["failovers"])
    for struck in story.struck:
        after = [f for f in failovers if f["at"] >= struck.at and f["lost"] == struck.pe]
        if after and after[0]["seconds"] is not None:
            struck.seconds = after[0]["seconds"] + (after[0]["at"] - struck.at) / 1e6
    return story.struck, verdict, summary
