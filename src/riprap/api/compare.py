"""`compare`: workloads under several protocols, hurt and measured in the same way, on one page.

from riprap.api.compare import compare
result = compare(["nexmark-3"], protocols=["coordinated", "uncoordinated"], interval="2s")
result.results        # by case: throughput, latency, checkpoints, recovery, what was lost
result.page           # where the page is

A directory of a comparison has `results.jsonl`, a line per case that is done: a comparison that was interrupted goes on
behind the last of them, and cases that are asked for again are not run again. Delete the directory to begin anew.
"""

import json
import os
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from riprap.api.run import RunResult, run
from riprap.base.clock import SYSTEM_CLOCK
from riprap.base.errors import DataError, UsageError
from riprap.base.quantities import format_duration
from riprap.compare.advice import advice
from riprap.compare.grid import NONE, Case, HostName, Scale, cases
from riprap.compare.measures import Observation, Output, Result, measured
from riprap.compare.oracle import expected, judged, rows
from riprap.compare.simulated_host import inputs_of, laid_out, observed
from riprap.report.comparison import comparison_report
from riprap.runtime.coordination.states import SystemState
from riprap.spark.session import hosting_session
from riprap.streams import Stream
from riprap.streams.shards import shards as streams_of

Tell = Callable[[Case, Result], None]


@dataclass(frozen=True)
class Comparison:
    results: Mapping[Case, Result]
    page: Path

    @property
    def advice(self) -> list[str]:
        return advice(self.results)


def compare(
    workloads: Sequence[str] = (),
    *,
    protocols: Sequence[str] = (),
    interval: str | None = None,
    windows: str | None = None,
    failure: bool | None = None,
    log: str | None = None,
    scope: str | None = None,
    skew: float | None = None,
    kill: str = "",
    rate: float | None = None,
    seconds: float | None = None,
    repetitions: int | None = None,
    shards: int = 1,
    sinks: str | None = None,
    scale: Scale = "small",
    host: HostName | None = None,
    out: Path | str = "comparison",
    master: str | None = None,
    tell: Tell = lambda case, result: None,
    command: str = "",
) -> Comparison:
    """Run every case and write the page. `tell` hears of each case as it is done."""
    host = host or ("spark" if scale == "demo" else "simulated")
    if host not in get_args(HostName):
        raise UsageError(f"--host {host}: expected {' or '.join(get_args(HostName))}")
    if host == "spark" and scale == "paper":
        raise UsageError(
            "--scale paper divides rates by 100, which only the simulated host makes up for: use --scale demo"
        )
    asked = cases(
        scale, workloads=workloads, protocols=protocols, intervals=(interval,) if interval else (), windows=windows,
        failure=failure, log=log, scope=scope, skew=skew, kill=kill, rate=rate, seconds=seconds,
        repetitions=repetitions, shards=shards, sinks=sinks,
    )  # fmt: skip
    for case in asked:
        laid_out(case)  # what cannot be laid out is told before anything starts
    directory = Path(out)
    directory.mkdir(parents=True, exist_ok=True)
    done = _Done(directory / "results.jsonl", host)
    run_case = observed if host == "simulated" else _OnSpark(asked, master)
    for case in asked:
        if case not in done.results:
            done.add(case, measured(run_case(case)))
        tell(case, done.results[case])
    results = {case: done.results[case] for case in asked}
    page = directory / "comparison.html"
    page.write_text(comparison_report(results, host=_said(host, asked), command=command))
    return Comparison(results, page)


def _said(host: HostName, asked: Sequence[Case]) -> str:
    divided = max(case.divided for case in asked)
    if host == "spark":
        return f"Real processes on Spark, and a real SIGKILL of a real element. {_elements(asked)}"
    scaled = f" Rates are divided by {divided:g}, and a row costs {divided:g} times as much." if divided > 1 else ""
    return (
        "The simulated host: the real elements and directors on a virtual clock. What rows, messages, checkpoints, "
        "restarts and restores cost are round figures, of the order that runs on two cores show: compare protocols "
        f"with them, not machines. {_elements(asked)}{scaled}"
    )


def _elements(asked: Sequence[Case]) -> str:
    most = max(case.shards for case in asked)
    return "One element per operator." if most == 1 else f"Up to {most} elements per operator, as published."


class _Done:
    """Results that are on disk, by case."""

    def __init__(self, path: Path, host: str) -> None:
        self._path, self._host = path, host
        self.results: dict[Case, Result] = {}
        for line in path.read_text().splitlines() if path.exists() else ():
            try:
                entry = json.loads(line)
                if entry["host"] == host:
                    self.results[Case(**entry["case"])] = Result.from_json(entry["result"])
            except (ValueError, KeyError, TypeError):
                raise DataError(f"{path} is damaged, or of another version: delete it, and compare again") from None

    def add(self, case: Case, result: Result) -> None:
        self.results[case] = result
        with self._path.open("a") as file:
            file.write(json.dumps({"host": self._host, "case": vars(case), "result": result.as_json()}) + "\n")


# The largest rate -----------------------------------------------------------------------------------------------------

_ROWS = 1_000.0  # a second on the simulated host, whatever the rate: the rest is in what a row costs
_STEPS = 6  # of the search, each of which halves the doubt


def find_maximum(
    workload: str,
    *,
    protocols: Sequence[str] = (),
    interval: str | None = None,
    windows: str | None = None,
    seconds: float | None = None,
    tell: Callable[[Case, float], None] = lambda case, rate: None,
) -> dict[Case, float]:
    """Events/s of all sources that a workload sustains under each protocol: the input is worked off as it comes.

    On the simulated host, with its costs: what one core per element would take.
    """
    found = {}
    for case in cases("small", workloads=[workload], protocols=protocols, intervals=(interval,) if interval else (),
                      windows=windows, failure=False, seconds=seconds):  # fmt: skip
        low, high = 0.0, 10_000.0
        while _sustained(case, high):
            low, high = high, high * 4
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if _sustained(case, middle) else (low, middle)
        found[case] = low
        tell(case, low)
    return found


def _sustained(case: Case, rate: float) -> bool:
    divided = max(rate / _ROWS, 1.0)
    seen = observed(replace(case, rate=rate / divided, divided=divided))
    return seen.seconds <= case.seconds * 1.05 + 1.0


# On Spark -------------------------------------------------------------------------------------------------------------


class _OnSpark:
    """Runs cases one after the other on one session."""

    def __init__(self, asked: Sequence[Case], master: str | None) -> None:
        self._slots = max(len(laid_out(case).pes) for case in asked)
        self._master = master
        self._session: Any = None

    def __call__(self, case: Case) -> Observation:
        if self._session is None:
            self._session = hosting_session(self._slots, master=self._master)
        with tempfile.TemporaryDirectory(prefix="riprap-compare-") as place:
            return self._observed(case, Path(place))

    def _observed(self, case: Case, place: Path) -> Observation:
        layout, inputs = laid_out(case), inputs_of(case)
        paths = {}
        for name, batch in inputs.items():
            paths[name] = place / f"{name}.parquet"
            pq.write_table(pa.Table.from_batches([batch]), paths[name])
        killer = _Killer([pe.id for pe in layout.hosting(case.victim)][:1] if case.failure else [], case.killed_at)
        protected: dict[str, Any] = {}
        if case.protocol != NONE:
            protected = {"protocol": case.protocol, "interval": format_duration(case.interval)}
            protected |= {"log": case.log, "scope": case.scope, "sinks": case.sinks}
        result = run(
            case.of.graph(case.windows), paths, out=place / "run", fuse="none",
            rate={name: batch.num_rows / case.seconds for name, batch in inputs.items()},
            parallelism={spec.name: spec.parallelism for spec in layout.graph}, watch=killer, spark=self._session,
            **protected,
        )  # fmt: skip
        return _seen(case, result, inputs, killer)


class _Killer:
    """Watches a run, and kills an element of it when its time has come."""

    def __init__(self, victims: Sequence[str], after: float) -> None:
        self._victims, self._after = list(victims), after
        self._since: float | None = None
        self.at: float | None = None  # wall clock, seconds

    def __call__(self, state: SystemState, table: Sequence[Any]) -> None:
        if self._since is None and state is SystemState.RUNNING:
            self._since = SYSTEM_CLOCK.monotonic()
        if self._victims and self._since is not None and SYSTEM_CLOCK.monotonic() - self._since >= self._after:
            pids = [status.pid for status in table if status.pe in self._victims]
            self._victims = []
            self.at = SYSTEM_CLOCK.now() / 1e6
            for pid in pids:
                os.kill(pid, signal.SIGKILL)


def _seen(case: Case, result: RunResult, inputs: Mapping[str, pa.RecordBatch], killer: _Killer) -> Observation:
    summary, graph = result.summary, case.of.graph(case.windows)
    outputs, found = [], {}
    for sink in graph.sinks:
        paths = streams_of(summary["sinks"][sink.name]["path"])
        items = [item for path in paths for item in Stream.open(path).read()]
        found[sink.name] = rows(item.batch for item in items)
        outputs += [(item.header.written_at / 1e6, item.batch.num_rows, item.header.born / 1e6) for item in items]
    lost, repeated = judged(expected(graph, inputs), found)
    began = min((born for _, _, born in outputs if born), default=0.0)
    recoveries = [recovery for pe in summary["pes"].values() for recovery in pe["recoveries"]]
    noted = summary["protocol"]

    def longest(part: str) -> float:
        return max((recovery[part] or 0.0 for recovery in recoveries), default=0.0)

    return Observation(
        [Output(at - began, count, at - born) for at, count, born in sorted(outputs) if born],
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
        lost,
        repeated,
    )
