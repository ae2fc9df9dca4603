"""Scenarios of hosted elements, in a process with a Spark session of its own. Not a test: `test_host.py` talks to it.

    python hosting.py MASTER DIRECTORY

reads names of scenarios, a line each, and answers each with a line of JSON: null, or the traceback of what failed.
The body of the elements writes a file PE.ATTEMPT with its process ids, and goes on until a file `stop` appears.
"""

import json
import os
import signal
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

import pytest

from riprap.base.clock import SYSTEM_CLOCK
from riprap.base.errors import MissingPrerequisite, UsageError
from riprap.graph.builder import App
from riprap.runtime.layout import arrange
from riprap.runtime.run_context import Run
from riprap.spark.element_tasks import host
from riprap.spark.session import hosting_session
from riprap.spark.slots import check_executor_kill, check_hosting

ANSWER = "scenario: "
PATIENCE = 300  # seconds; only how long a test that fails takes


def layout():
    app = App("three")
    app.source("In", "x long").filter("x > 0", name="Middle").sink("Out")
    return arrange(app.build(), "none")


def body(run, pe, attempt, executor):
    place = run.directory / f"{pe}.{attempt}"
    (run.directory / "new").mkdir(exist_ok=True)
    draft = run.directory / "new" / place.name
    draft.write_text(json.dumps([os.getpid(), executor]))
    draft.rename(place)
    while not (run.directory / "stop").exists():
        time.sleep(0.01)


def middle_raises(run, pe, attempt, executor):
    if pe == "Middle":
        (run.directory / f"raised.{attempt}").touch()
        raise ValueError("the middle is not sound")
    body(run, pe, attempt, executor)


class NotThere:
    """A body that no worker can unpickle."""

    def __reduce__(self):
        return __import__, ("no_such_module",)

    def __call__(self, *_):
        pass


@dataclass
class Place:
    """A run of three elements, and what its elements wrote."""

    spark: object
    run: Run

    def host(self, body=body):
        return host(self.spark, self.run, body)

    def process(self, pe: str, attempt: int = 0) -> tuple[int, int]:
        """Process ids of an attempt and of its executor, as soon as it runs."""
        path = self.run.directory / f"{pe}.{attempt}"
        self.until(path.exists, path.name)
        return tuple(json.loads(path.read_text()))

    def all_processes(self) -> dict[str, tuple[int, int]]:
        return {pe.id: self.process(pe.id) for pe in self.run.layout.pes}

    def attempts(self) -> set[str]:
        return {path.name for path in self.run.directory.iterdir() if path.name not in ("new", "stop")}

    def stop(self) -> None:
        (self.run.directory / "stop").touch()

    @staticmethod
    def until(ready, what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not ready():
            assert time.monotonic() < deadline, f"waited in vain for {what}"
            time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(pids) -> bool:
    return not any(alive(pid) for pid in pids)


# Scenarios ------------------------------------------------------------------------------------------------------------


def elements_run_at_once_and_end_by_returning(place):
    with place.host() as hosted:
        processes = place.all_processes()  # nobody returns before the stop, so all of them run at this moment
        assert len({pid for pid, _ in processes.values()}) == 3
        assert not hosted.wait(0)
        for _, executor in processes.values():
            assert b"java" in Path(f"/proc/{executor}/cmdline").read_bytes()
        place.stop()
        assert hosted.wait(PATIENCE)
        assert hosted.failures == ()
    assert place.attempts() == {"In.0", "Middle.0", "Out.0"}


def a_killed_element_comes_back_alone(place):
    with place.host() as hosted:
        processes = place.all_processes()
        for attempt in range(6):  # more often than Spark's own limit of four
            os.kill(place.process("Middle", attempt)[0], signal.SIGKILL)
        place.process("Middle", 6)
        assert alive(processes["In"][0])
        assert alive(processes["Out"][0])
        place.stop()
        assert hosted.wait(PATIENCE)
    assert place.attempts() == {"In.0", "Out.0", *(f"Middle.{attempt}" for attempt in range(7))}


def an_exception_is_not_tried_again(place):
    with place.host(middle_raises) as hosted:
        place.process("In"), place.process("Out")
        assert not hosted.wait(1)  # the others go on
        place.stop()
        assert hosted.wait(PATIENCE)
        [failure] = hosted.failures
        assert (failure.pe, failure.attempt) == ("Middle", 0)
        assert "ValueError: the middle is not sound" in failure.error
    assert place.attempts() == {"In.0", "Out.0", "raised.0"}


def a_hanging_element_is_replaced(place):
    with place.host() as hosted:
        processes = place.all_processes()
        os.kill(processes["Middle"][0], signal.SIGSTOP)
        assert not hosted.kill_attempt("Middle", 3)
        assert hosted.kill_attempt("Middle", 0)
        place.process("Middle", 1)
        place.until(lambda: gone([processes["Middle"][0]]), "the end of the one that hung")
        with pytest.raises(UsageError, match="no processing element is called Mid; there are In, Middle, Out"):
            hosted.kill_attempt("Mid")
    assert place.attempts() == {"In.0", "Out.0", "Middle.0", "Middle.1"}


def cancelling_leaves_no_process(place):
    hosted = place.host()
    processes = place.all_processes()
    hosted.cancel()
    place.until(lambda: gone(pid for pid, _ in processes.values()), "the end of every process")
    assert hosted.wait(0)
    hosted.cancel()  # harmless


def cancelling_before_the_job_runs_leaves_no_process(place):
    with place.host():
        pass
    time.sleep(0.5)  # whoever is still to come would be seen
    assert gone(place.process(*attempt)[0] for attempt in map(_pe_and_attempt, place.attempts()))


def _pe_and_attempt(name):
    pe, attempt = name.split(".")
    return pe, int(attempt)


def an_exception_in_the_driver_leaves_no_process(place):
    processes = {}

    def drive():
        with place.host():
            processes.update(place.all_processes())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        drive()
    place.until(lambda: gone(pid for pid, _ in processes.values()), "the end of every process")


def an_interrupt_leaves_no_process(place):
    processes = {}

    def interrupt():
        processes.update(place.all_processes())
        os.kill(os.getpid(), signal.SIGINT)

    def drive():
        with place.host() as hosted:
            threading.Thread(target=interrupt).start()
            hosted.wait(PATIENCE)

    with pytest.raises(KeyboardInterrupt):
        drive()
    place.until(lambda: gone(pid for pid, _ in processes.values()), "the end of every process")
    assert len(processes) == 3


def what_is_no_death_ends_the_job(place):
    with place.host(NotThere()) as hosted, pytest.raises(MissingPrerequisite, match="No module named 'no_such_module'"):
        hosted.wait(PATIENCE)


def a_local_session_is_checked(place):
    assert check_hosting(place.spark, 5, SYSTEM_CLOCK) == ()
    with pytest.raises(
        MissingPrerequisite, match=r"6 processing elements .* has 5 free of 5: use master local\[6,1000000000\]"
    ):
        check_hosting(place.spark, 6, SYSTEM_CLOCK)
    with pytest.raises(UsageError, match="the executor is the driver"):
        check_executor_kill(place.spark)


def elements_are_left_running(place):
    place.host()
    processes = place.all_processes()
    (place.run.directory / "all").write_text(json.dumps([pid for pair in processes.values() for pid in pair]))


def a_killed_executor_loses_its_elements_to_others(place):
    with place.host() as hosted:
        assert hosted.warnings == ()
        processes = place.all_processes()
        victim = processes["Middle"][1]
        os.kill(victim, signal.SIGKILL)
        for pe, (pid, executor) in processes.items():
            if executor == victim:
                assert place.process(pe, 1)[1] != victim
            else:
                assert alive(pid)
        place.stop()
        assert hosted.wait(PATIENCE)
    moved = {f"{pe}.1" for pe, (_, executor) in processes.items() if executor == victim}
    assert place.attempts() == {"In.0", "Middle.0", "Out.0"} | moved


def a_cluster_is_checked(place):
    check_executor_kill(place.spark)
    [warning] = check_hosting(place.spark, 5, SYSTEM_CLOCK)
    assert "4 are left for 5 processing elements" in warning
    assert "add 1 slots on other executors" in warning
    with pytest.raises(MissingPrerequisite, match=r"9 processing elements .* has 8 free of 8 on 2 executors: add"):
        check_hosting(place.spark, 9, SYSTEM_CLOCK)


def main(master: str, directory: Path) -> None:
    spark = hosting_session(3, master=None if master == "default" else master)
    for number, line in enumerate(sys.stdin):
        error = None
        place = Place(spark, Run(directory / str(number), layout(), {}, "", "token", "127.0.0.1"))
        place.run.directory.mkdir()
        try:
            globals()[line.strip()](place)
        except BaseException:
            error = traceback.format_exc()
        print(ANSWER + json.dumps(error), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
