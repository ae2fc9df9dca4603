"""The injector does what a schedule says to the elements of a table, and notes when they are back."""

import subprocess
from dataclasses import dataclass

import pytest

from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.proof.injector import Injector, read_observations
from riprap.proof.schedule import Fault
from riprap.runtime.coordination.states import SystemState, WorkerState


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
    injector = Injector([Fault(2_000_000, "checkpoint-cut", ("A",), seed=3)], tmp_path, Ticking())
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
    injector = Injector([Fault(0, "kill", ("A",))], tmp_path, SYSTEM_CLOCK)
    status = Status("A", sleeper.pid, WorkerState.STARTING)
    for _ in range(3):
        injector(SystemState.RUNNING, [status])
    assert sleeper.poll() is None
    status.state = WorkerState.RUNNING
    injector(SystemState.RUNNING, [status])
    assert sleeper.wait() == -9
    injector.close()
