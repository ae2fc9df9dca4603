"""Runs of real processes on Spark: exact without faults, going on through kills, with counts that are true."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cluster import standalone
from drivers import environment, player

from riprap.apps.catalogue import load_app
from riprap.apps.samples import cache_directory, sample_inputs
from riprap.base.errors import UsageError
from riprap.base.owner import owned
from riprap.protocols.registry import REGISTRY

APP = "bargain-discovery"
PATIENCE = 300  # seconds; only how long a test that fails takes

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    with player("run_scenes.py", tmp_path_factory.mktemp("local")) as play:
        yield play


@pytest.mark.parametrize(
    "scene",
    [
        "bad_input_is_refused_in_a_sentence",
        "one_element_per_operator",
        "fused_chains",
        "all_in_one",
        "in_shards",
        "killed_elements_come_back_alone",
        "a_stopped_element_is_replaced",
        "killed_sources_lose_nothing_uncounted",
        "live_inputs_are_followed",
        "random_kills_and_true_counts",
        "a_checkpoint_in_the_plan_saves_the_state",
        "the_command_tells_what_became_of_the_run",
        "an_exception_of_an_operator_ends_the_run",
        "an_exception_in_the_driver_leaves_no_process",
    ],
)
def test_local(local, scene):
    local(scene)


@pytest.mark.parametrize("protocol", [name for name in REGISTRY if name != "partial"])
def test_kills_under_a_protocol(local, protocol):
    local("kills_under_a_protocol", protocol)


@pytest.fixture(scope="module")
def executors(tmp_path_factory):
    with player("run_scenes.py", tmp_path_factory.mktemp("executors"), "local-cluster[2,4,1024]") as play:
        yield play


@pytest.mark.parametrize(
    "scene", ["elements_of_a_killed_executor_move", "a_replaced_element_that_goes_on_ends_by_itself"]
)
def test_executors(executors, scene):
    executors(scene)


@pytest.mark.soak
def test_standalone(tmp_path):
    with standalone(tmp_path) as url, player("run_scenes.py", tmp_path, url) as play:
        play("elements_of_a_killed_executor_move")


@pytest.mark.soak
def test_five_minutes_of_kills(local):
    local("five_minutes_of_kills")


@pytest.mark.soak
def test_fifty_kills_of_sources(local):
    local("fifty_kills_of_sources")


# The command as a process of its own ----------------------------------------------------------------------------------


def test_an_interrupted_and_killed_run_is_resumed_and_loses_nothing(local, tmp_path):
    graph = load_app(APP)
    source = sample_inputs(graph, 300_000, 1, cache_directory())["Source"]
    plan, out = tmp_path / "plan.toml", tmp_path / "run"
    protection = [
        f"[operators.{spec.name}]\nbackup = true\n" + ("checkpoint = '300ms'\n" if any(spec.stateful) else "")
        for spec in graph.operators
        if spec.outputs
    ]
    plan.write_text(f"app = '{APP}'\n" + "".join(protection))

    # 15 s of input: however busy the machine is, there is some left to interrupt, and some left to kill
    interrupted = start(APP, "--input", source, "--plan", plan, "--rate", 20_000, "--out", out)
    wait_until_running(out, interrupted)
    with pytest.raises(UsageError, match=f"in use by process {interrupted.pid}"), owned(out, "run"):
        pass
    os.kill(interrupted.pid, signal.SIGINT)
    code, err = end(interrupted)
    assert code == 130, err
    assert f"riprap run --resume {out}" in err.replace("\n", "")

    with owned(out, "run"):
        for again in (["--resume", out], [APP, "--input", source, "--out", out]):
            code, err = end(start(*again))
            assert code == 2, err
            assert f"in use by process {os.getpid()}" in err.replace("\n", " "), err

    orphaned = start("--resume", out)
    wait_until_running(out, orphaned)
    for pid in processes_of(orphaned.pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended since
            if os.path.basename(os.path.realpath(f"/proc/{pid}/exe")) == "java":
                os.kill(pid, signal.SIGKILL)
    code, err = end(orphaned)
    assert code == 3, err
    assert "its JVM has died, killed by somebody or for want of memory; go on with: riprap run --resume" in err
    assert "Traceback" not in err

    code, err = end(start("--resume", out, "--kill", "driver@2s"))
    assert code == -signal.SIGKILL, err
    assert not (out / "summary.json").exists()

    local("the_resumed_run_is_exact", out, source)


def start(*arguments):
    command = [sys.executable, "-m", "riprap.cli.main", "run", *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment(), start_new_session=True)


def end(process):
    _, err = process.communicate(timeout=PATIENCE)
    deadline = time.monotonic() + PATIENCE
    while left := processes_of(process.pid):
        assert time.monotonic() < deadline, f"processes are left: {left}"
        time.sleep(0.1)
    return process.returncode, err


def processes_of(session: int) -> list[int]:
    """All processes, dead ones aside, that descend from one that began a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, of = path.read_text().rpartition(")")[2].split()[:4]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(of) == session and state != "Z":
            found.append(int(path.parent.name))
    return found


def wait_until_running(directory: Path, process) -> None:
    """Until the newest line of the live table says so."""
    deadline = time.monotonic() + PATIENCE
    seen = len(metrics(directory))
    while not any(line["run"] == "running" for line in metrics(directory)[seen:]):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)


def metrics(directory: Path) -> list[dict]:
    path = directory / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]
