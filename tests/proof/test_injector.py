"""The injector does what a schedule says to the elements of a table, and notes when they are back."""

import subprocess
from dataclasses import dataclass

import pytest

from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.proof.injector import Injector, read_observations
from riprap.proof.schedule import ScheduledFault
from riprap.runtime.coordination.element_states import SystemState, WorkerState


@dataclass
class Status:
    """A line of the table."""

    pe: str
    pid: int
    state: WorkerState = WorkerState.RUNNING
    epoch: int = 1
    executor_pid: int = 0
    host: str = "localhost"


class Ticking(Clock):
    """A second passes at each look."""

    def __init__(self) -> None:
        self.time = 0.0

    def monotonic(self) -> float:
        self.time += 1.0
        return self.time

    def now(self) -> int:
        return int(self.time * 1e6)

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody waits here")


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_a_checkpoint_of_the_run_is_damaged_and_its_element_killed(sleeper, tmp_path):
    folder = tmp_path / "run" / "checkpoints" / "A" / "fragment"
    folder.mkdir(parents=True)
    for number in (1, 2):
        for kind in ("manifest", "part"):
            (folder / f"0000000001-000000000{number}.{kind}").write_bytes(b"whatever" * 10)
    injector = Injector([ScheduledFault(2_000_000, "checkpoint-cut", ("A",), seed=3)], tmp_path, Ticking())
    status = Status("A", sleeper.pid)
    injector(SystemState.STARTING, [status])
    injector(SystemState.RUNNING, [status])  # from here on it runs
    injector(SystemState.RUNNING, [status])
    assert sleeper.poll() is None
    assert read_observations(tmp_path) == []
    injector(SystemState.RUNNING, [status])
    sleeper.wait()
    whole = {path.name for path in folder.iterdir() if len(path.read_bytes()) == 80}
    assert len(whole) == 3
    assert {"0000000001-0000000001.manifest", "0000000001-0000000001.part"} <= whole
    for state, epoch in (
        (WorkerState.DOWN, 1), (WorkerState.RESTORING, 2), (WorkerState.CATCHING_UP, 2), (WorkerState.RUNNING, 2)
    ):  # fmt: skip
        status.state, status.epoch = state, epoch
        injector(SystemState.RUNNING, [status])
    injector.close()
    noted = [(entry["what"], entry["ran"]) for entry in read_observations(tmp_path)]
    assert noted == [("began", 2.0), ("restored", 5.0), ("running", 6.0)]


def test_a_fault_of_an_element_that_is_down_waits_for_it(sleeper, tmp_path):
    injector = Injector([ScheduledFault(0, "kill", ("A",))], tmp_path, SYSTEM_CLOCK)
    status = Status("A", sleeper.pid, WorkerState.STARTING)
    for _ in range(3):
        injector(SystemState.RUNNING, [status])
    assert sleeper.poll() is None
    status.state = WorkerState.RUNNING
    injector(SystemState.RUNNING, [status])
    assert sleeper.wait() == -9
    injector.close()


def missed(directory):
    return {e["fault"]: e["why"] for e in read_observations(directory) if e["what"] == "not injected"}


def test_what_could_not_be_done_is_noted_with_why(sleeper, tmp_path):
    """Gone, ended, down until the end, without a checkpoint, and behind the end of the run."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    schedule = [
        ScheduledFault(0, "kill", ("Gone",)),
        ScheduledFault(0, "kill", ("Ended",)),
        ScheduledFault(0, "checkpoint-cut", ("A",)),
        ScheduledFault(900_000_000, "kill", ("A",)),
    ]
    table = [Status("Gone", gone.pid), Status("Ended", sleeper.pid, WorkerState.ENDED), Status("A", sleeper.pid)]
    injector = Injector(schedule, tmp_path, Ticking())
    for _ in range(5):
        injector(SystemState.RUNNING, table)
    assert set(missed(tmp_path)) == {0, 1}
    injector.close()
    told = missed(tmp_path)
    assert "Gone had no process any more" in told[0]
    assert "Ended had ended" in told[1]
    assert "A had no checkpoint" in told[2]
    assert "the run was over" in told[3]
    assert sleeper.poll() is None


def test_one_that_is_down_until_the_end_was_not_hit(sleeper, tmp_path):
    injector = Injector([ScheduledFault(0, "kill", ("A",))], tmp_path, Ticking())
    injector(SystemState.RUNNING, [Status("A", sleeper.pid, WorkerState.DOWN)])
    injector.close()
    assert "no process until the run was over" in missed(tmp_path)[0]


def test_a_kill_that_was_done_is_not_noted_as_missed_when_the_run_ends_at_once(sleeper, tmp_path):
    injector = Injector(
        [ScheduledFault(0, "kill", ("A",)), ScheduledFault(0, "kill-again", ("B",))], tmp_path, Ticking()
    )
    table = [Status("A", sleeper.pid), Status("B", subprocess.Popen(["sleep", "600"]).pid)]
    injector(SystemState.RUNNING, table)
    injector(SystemState.RUNNING, table)
    injector.close()
    assert set(missed(tmp_path)) == {1}  # it was killed once
    assert "before it was completed" in missed(tmp_path)[1]
