"""Elements as tasks: they run at once, restart alone, end with the run; sessions that cannot hold them are refused."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import hosting
import pytest
from cluster import QUICK, standalone

from riprap.base.clock import SYSTEM_CLOCK
from riprap.base.errors import UsageError
from riprap.spark.session import hosting_master
from riprap.spark.slots import Slots, check_hosting, failure_limit

pytestmark = pytest.mark.xdist_group("spark")


class Driver:
    """A process that runs scenarios on a master."""

    def __init__(self, master: str, directory: Path) -> None:
        self.directory = directory
        self.process = subprocess.Popen(
            [sys.executable, hosting.__file__, master, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "JAVA_TOOL_OPTIONS": QUICK},
            text=True,
            start_new_session=True,
        )

    def run(self, scenario: str) -> None:
        self.process.stdin.write(f"{scenario}\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith(hosting.ANSWER):
                error = json.loads(line.removeprefix(hosting.ANSWER))
                assert error is None, error
                return
        pytest.fail(f"the driver ended in {scenario}")


@contextmanager
def driver(master: str, directory: Path):
    made = Driver(master, directory)
    try:
        yield made
    finally:
        made.process.stdin.close()
        try:
            made.process.wait(timeout=300)
        finally:
            made.process.kill()
            made.process.stdout.close()


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    with driver("default", tmp_path_factory.mktemp("local")) as made:
        yield made


@pytest.mark.parametrize(
    "scenario",
    [
        "a_local_session_is_checked",
        "cancelling_before_the_job_runs_leaves_no_process",
        "elements_run_at_once_and_end_by_returning",
        "a_killed_element_comes_back_alone",
        "an_exception_is_not_tried_again",
        "a_hanging_element_is_replaced",
        "cancelling_leaves_no_process",
        "an_exception_in_the_driver_leaves_no_process",
        "an_interrupt_leaves_no_process",
        "what_is_no_death_ends_the_job",
    ],
)
def test_local(local, scenario):
    local.run(scenario)


def test_a_killed_driver_takes_its_elements_along(local):
    local.run("elements_are_left_running")
    [written] = local.directory.glob("*/all")
    local.process.kill()
    local.process.wait()
    pids = json.loads(written.read_text())
    hosting.Place.until(lambda: hosting.gone(pids), "the end of every process")


@pytest.mark.soak
def test_a_standalone_cluster(tmp_path):
    with standalone(tmp_path, workers=2, cores=4) as master, driver(master, tmp_path) as cluster:
        cluster.run("a_cluster_is_checked")
        cluster.run("a_killed_executor_loses_its_elements_to_others")


def test_a_session_that_gives_up_early_is_refused():
    local = SimpleNamespace(sc=lambda: SimpleNamespace(isLocal=lambda: True))
    settings = SimpleNamespace(get=lambda name, default: default)
    spark = SimpleNamespace(
        _jsc=local, sparkContext=SimpleNamespace(master="local[2]", _jsc=local, getConf=lambda: settings)
    )
    with pytest.raises(UsageError, match=r"local\[2\] gives up at failure 1 .*use master local\[SLOTS,1000000000\]"):
        check_hosting(spark, 1, SYSTEM_CLOCK)


def test_connect_is_refused():
    with pytest.raises(UsageError, match=r"Spark Connect session cannot host .* pass a classic session"):
        check_hosting(object(), 1, SYSTEM_CLOCK)


@pytest.mark.parametrize(
    ("master", "setting", "limit"),
    [
        ("local", "99", 1),
        ("local[*]", "99", 1),
        ("local[4]", "99", 1),
        ("local[4, 7]", "99", 7),
        ("local[*,7]", "99", 7),
        ("local-cluster[2,4,1024]", "99", 99),
        ("spark://127.0.0.1:7077", "4", 4),
        ("yarn", "4", 4),
    ],
)
def test_failure_limits(master, setting, limit):
    assert failure_limit(master, setting) == limit


@pytest.mark.parametrize(
    ("given", "used"),
    [
        (None, "local[5,1000000000]"),
        ("local", "local[5,1000000000]"),
        ("local[*]", "local[5,1000000000]"),
        ("local[4]", "local[4,1000000000]"),
        ("local[4,7]", "local[4,7]"),
        ("local-cluster[2,4,1024]", "local-cluster[2,4,1024]"),
        ("spark://127.0.0.1:7077", "spark://127.0.0.1:7077"),
    ],
)
def test_masters(given, used):
    assert hosting_master(3, given) == used


def test_spare_slots():
    assert Slots((4, 4), busy=0).spare == 4
    assert Slots((4, 4), busy=3).spare == 1
    assert Slots((8, 2), busy=4).spare == 0
    assert Slots((), busy=0).spare == 0


def test_the_daemon_has_no_thread_that_a_fork_would_lose():
    """Whoever waits for such a thread after the fork waits for ever; only the allocator looks after its own."""
    script = """
import os, riprap.spark.warm
print(*(open(f"/proc/self/task/{thread}/comm").read().strip() for thread in os.listdir("/proc/self/task")))
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # as Spark sets it
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert len([name for name in ran.stdout.split() if name != "jemalloc_bg_thd"]) == 1
