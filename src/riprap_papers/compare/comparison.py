"""`compare`: runs workloads under several protocols with the same fault and compares what is measured.

from riprap_papers.compare.comparison import compare
result = compare(["nexmark-3"], protocols=["coordinated", "uncoordinated"], interval="2s")
result.results        # by case: throughput, latency, checkpoints, recovery, lost rows
result.page           # the path of the report

The directory of a comparison has `results.jsonl`, a line per finished case: an interrupted comparison resumes after the
last one, and finished cases are not run again. Delete the directory to start over.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

from riprap.base import files
from riprap.base.documents import parse_json, read_text
from riprap.base.errors import DataError, UsageError
from riprap.base.owner import owned
from riprap.base.quantities import format_duration
from riprap.base.shapes import shaped
from riprap.planner.json_input import as_object
from riprap_papers.compare.advice import advice
from riprap_papers.compare.case_processes import cores, maxima_of, results_of
from riprap_papers.compare.cycle import Fall, Falling, falls
from riprap_papers.compare.grid import MICRO_BATCHES, ComparedCase, HostName, Scale, cases, micro_batch_notes
from riprap_papers.compare.measures import Result, measured
from riprap_papers.compare.simulated_costs import profiles, said
from riprap_papers.compare.simulated_host import laid_out
from riprap_papers.compare.spark_cases import OnSpark
from riprap_papers.report.comparison_page import comparison_report
from riprap_papers.workloads.workload_catalogue import WORKLOADS

Tell = Callable[[ComparedCase, Result], None]


@dataclass(frozen=True)
class Comparison:
    results: Mapping[ComparedCase, Result]
    page: Path
    falls: Mapping[Falling, Fall] = field(default_factory=dict)  # of a cycle of elements, if nhop is compared

    @property
    def advice(self) -> list[str]:
        return advice(self.results, self.falls)


def compare(
    workloads: Sequence[str] = (),
    *,
    protocols: Sequence[str] = (),
    interval: str | None = None,
    windows: str | None = None,
    failure: bool | None = None,
    log: str | None = None,
    scope: str | None = None,
    rule: str | None = None,
    skew: float | None = None,
    kill: str = "",
    rate: float | None = None,
    load: float | None = None,
    seconds: float | None = None,
    repetitions: int | None = None,
    shards: int | None = None,
    sinks: str | None = None,
    virtual: bool = False,
    scale: Scale = "small",
    host: HostName | None = None,
    out: Path | str = "comparison",
    master: str | None = None,
    processes: int | None = None,
    profile: Sequence[Path | str] = (),
    tell: Tell = lambda case, result: None,
    command: str = "",
) -> Comparison:
    """Run every case and write the report. `tell` is called with each finished case, in order.

    `profile`: files of `riprap profile` with the costs for the simulated host.
    Simulated cases run in `processes`, by default one per core; results do not depend on their number.
    """
    host = host or ("spark" if scale == "demo" else "simulated")
    if host not in get_args(HostName):
        raise UsageError(f"--host {host}: expected {' or '.join(get_args(HostName))}")
    if host == "simulated" and MICRO_BATCHES in protocols:
        raise UsageError(f"{MICRO_BATCHES} is part of Spark and runs only there: add --host spark, or leave it out")
    if host == "spark" and load is not None:
        raise UsageError("--load needs the maximum rate, which is found on the simulated host: give --rate on Spark")
    asked = cases(
        scale, host=host, workloads=workloads, protocols=protocols, intervals=(interval,) if interval else (),
        windows=windows, failure=failure, log=log, scope=scope, rule=rule, skew=skew, kill=kill, rate=rate,
        load=load, seconds=seconds, repetitions=repetitions, shards=shards, sinks=sinks, virtual=virtual,
    )  # fmt: skip
    if profile and host == "spark":
        raise UsageError("--profile sets the costs of the simulated host and has no effect on Spark: leave it out")
    if master is not None and host != "spark":
        raise UsageError("--master is for Spark, not for the simulated host: add --host spark, or leave it out")
    measured_costs = profiles(profile)
    asked = [replace(case, costs=measured_costs.get(case.workload, "")) for case in asked]
    for case in asked:
        laid_out(case)  # raises before anything starts
    directory = files.real(out)
    with owned(directory, "comparison"):
        return _compared(asked, directory, host, master=master, processes=processes, tell=tell, command=command)


def _compared(
    asked: Sequence[ComparedCase], directory: Path, host: HostName, *, master: str | None, processes: int | None, tell:
    Tell,
    command: str,
) -> Comparison:  # fmt: skip
    done = _Done(directory / "results.jsonl", host)
    left = [case for case in asked if case not in done.results]
    on_spark = OnSpark(asked, master)
    simulated = results_of(left, processes or cores())
    with closing(simulated if host == "simulated" else (measured(on_spark(case)) for case in left)) as found:
        for case in asked:
            if case not in done.results:
                done.add(case, next(found))
            tell(case, done.results[case])
    results = {case: done.results[case] for case in asked}
    page = directory / "comparison.html"
    turning = [case for case in asked if case.of.cyclic]
    fallen = falls((case.protocol for case in turning), (format_duration(case.interval) for case in turning))
    notes = micro_batch_notes(asked)
    text = comparison_report(results, host=_said(host, asked), command=command, notes=notes, falls=fallen)
    files.write_text(page, text)
    return Comparison(results, page, fallen)


def _said(host: HostName, asked: Sequence[ComparedCase]) -> str:
    divided = max(case.divided for case in asked)
    if host == "spark":
        batched = any(case.protocol == MICRO_BATCHES for case in asked)
        micro = " Structured Streaming: the same input; Python workers are killed." if batched else ""
        times = max(case.compressed for case in asked)
        faster = (
            f" Time is compressed by {times:g}: an interval of 1 s stands for {times:g} s, and {times:g} s of event "
            "time pass in a second."
        )
        text = f"Processes on Spark; an element is killed with SIGKILL. {_elements(asked)}{micro}"
        return text + (faster if times > 1 else "") + _hurried(asked)
    scaled = f" Rates are divided by {divided:g}, and a row costs {divided:g} times as much." if divided > 1 else ""
    return (
        f"The simulated host: the real elements and directors on a virtual clock. {said(asked)} "
        f"{_elements(asked)}{scaled}{_hurried(asked)}"
    )


def _hurried(asked: Sequence[ComparedCase]) -> str:
    found = dict.fromkeys(f"{case.hurried:g} times as fast in {case.title}" for case in asked if case.hurried > 1)
    return f" Event time passes {', '.join(found)}, so that windows close before the kill." if found else ""


def _elements(asked: Sequence[ComparedCase]) -> str:
    most = max(case.shards for case in asked)
    return "One element per operator." if most == 1 else f"Up to {most} elements per operator, as published."


class _Done:
    """The results on disk, by case."""

    def __init__(self, path: Path, host: str) -> None:
        self._path, self._host = path, host
        self.results: dict[ComparedCase, Result] = {}
        for number, line in enumerate(self._lines(), 1):
            where = f"{path}: line {number}"
            try:
                entry = as_object(parse_json(line, where), where)
                if entry.get("host") == host:
                    case = shaped(ComparedCase, entry.get("case"), where)
                    if case.workload not in WORKLOADS:
                        raise DataError(f"{where}: workload {case.workload} is unknown")
                    self.results[case] = Result.from_json(entry.get("result", {}), where)
            except DataError as error:
                raise DataError(f"{error}: delete {path.name}, and compare again") from None

    def _lines(self) -> list[str]:
        """The complete lines. A killed comparison may leave an incomplete line: that case is run again."""
        if not files.exists(self._path):
            return []
        text = read_text(self._path, "the results in", own=True)
        whole, newline, torn = text.rpartition("\n")
        if torn:
            files.write_text(self._path, whole + newline)
        return whole.splitlines()

    def add(self, case: ComparedCase, result: Result) -> None:
        self.results[case] = result
        with files.open_file(self._path, "a") as file:
            file.write(json.dumps({"host": self._host, "case": vars(case), "result": result.as_json()}) + "\n")


# The maximum rate -----------------------------------------------------------------------------------------------------


def find_maximum(
    workload: str,
    *,
    protocols: Sequence[str] = (),
    interval: str | None = None,
    windows: str | None = None,
    seconds: float | None = None,
    skew: float | None = None,
    shards: int | None = None,
    processes: int | None = None,
    tell: Callable[[ComparedCase, float], None] = lambda case, rate: None,
) -> dict[ComparedCase, float]:
    """The maximum rate that a workload sustains under each protocol, in events/s of all sources.

    Measured on the simulated host with its costs, as with one core per element.
    """
    if MICRO_BATCHES in protocols:
        raise UsageError(f"the maximum rate is searched on the simulated host, where {MICRO_BATCHES} does not run")
    asked = cases(
        "small", workloads=[workload], protocols=protocols, intervals=(interval,) if interval else (), windows=windows,
        failure=False, seconds=seconds, skew=skew, shards=shards,
    )  # fmt: skip
    found = {}
    with closing(maxima_of(asked, processes or cores())) as rates:
        for case, rate in zip(asked, rates, strict=True):
            found[case] = rate
            tell(case, rate)
    return found
