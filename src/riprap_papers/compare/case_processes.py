"""Simulates cases in several processes, with results in the order of the cases.

A process reads a case from its standard input and writes the result to its standard output, as a line of JSON each, one
at a time; it ends with its input, so none outlives its parent. A simulated case is a pure function, so it does not
matter which process runs it.

Failures: a case that does not end, or a process that dies during one, fails the comparison with the name of the case.
Only this process handles Ctrl-C: the others are in separate sessions and are killed.
"""

import json
import os
import selectors
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from riprap.base.errors import CheckFailed, RiprapError
from riprap_papers.compare.grid import ComparedCase
from riprap_papers.compare.maximum import at_rate, maximum
from riprap_papers.compare.measures import Result, measured
from riprap_papers.compare.simulated_host import observed

_Process = subprocess.Popen[str]


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def results_of(cases: Sequence[ComparedCase], processes: int) -> Generator[Result, None, None]:
    """The result of each case, in order. With one process, cases run in this one. Closing it ends the others."""
    if min(processes, len(cases)) <= 1:
        yield from map(_result, cases)
    else:
        with closing(_in_order("result", cases, processes)) as answers:
            for answer in answers:
                yield Result.from_json(answer["result"])


def maxima_of(cases: Sequence[ComparedCase], processes: int) -> Generator[float, None, None]:
    """The maximum rate of each case, in order."""
    if min(processes, len(cases)) <= 1:
        yield from map(maximum, cases)
    else:
        with closing(_in_order("maximum", cases, processes)) as answers:
            for answer in answers:
                yield float(answer["maximum"])


def _result(case: ComparedCase) -> Result:
    if case.load is not None:
        case = at_rate(case, case.load * maximum(case))
    return replace(measured(observed(case)), rate=case.rate * case.divided)


def _in_order(asked: str, cases: Sequence[ComparedCase], processes: int) -> Generator[dict[str, Any], None, None]:
    started = [_started() for _ in range(min(processes, len(cases)))]
    try:
        yield from _shared_out(asked, cases, started)
    finally:
        for process in started:
            process.kill()
            process.communicate()


def _started() -> _Process:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "riprap_papers.compare.case_processes"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def _shared_out(asked: str, cases: Sequence[ComparedCase], processes: Sequence[_Process]) -> Iterator[dict[str, Any]]:
    waiting = deque(enumerate(cases))
    busy: dict[_Process, int] = {}
    done: dict[int, dict[str, Any]] = {}

    def give(process: _Process) -> None:
        if waiting:
            busy[process], case = waiting.popleft()
            assert process.stdin is not None
            process.stdin.write(json.dumps({"asked": asked, "case": vars(case)}) + "\n")
            process.stdin.flush()

    with selectors.DefaultSelector() as selector:
        for process in processes:
            assert process.stdout is not None
            selector.register(process.stdout, selectors.EVENT_READ, process)
            give(process)
        for number in range(len(cases)):
            while number not in done:
                for key, _ in selector.select():
                    index = busy.pop(key.data)
                    done[index] = _read(key.data, cases[index])
                    give(key.data)
            yield done.pop(number)


def _read(process: _Process, case: ComparedCase) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()  # one line per case
    if not line.endswith("\n"):
        raise CheckFailed(f"{case.title} under {case.label}: the process that ran it died with code {process.wait()}")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise CheckFailed(answer["error"])
    return answer


def main() -> None:
    """The main loop of a child process."""
    for line in sys.stdin:
        asked = json.loads(line)
        case, answer = ComparedCase(**asked["case"]), dict[str, Any]()
        try:
            if asked["asked"] == "maximum":
                answer["maximum"] = maximum(case)
            else:
                answer["result"] = _result(case).as_json()
        except RiprapError as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
