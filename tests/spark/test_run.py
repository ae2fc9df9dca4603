"""Runs of real processes on Spark: exact without faults, going on through kills, with counts that are true."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from drivers import environment, player
from scene_inputs import BARGAINS, market_table
from supply import Supply

from riprap.apps.catalogue import load_app
from riprap.base.errors import UsageError
from riprap.base.owner import owned
from riprap.protocols.registry import REGISTRY

PATIENCE = 600  # seconds; only how long a test that fails takes

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
        "in_shards",
        "killed_elements_come_back_alone",
        "a_stopped_element_is_replaced",
        "elements_that_stop_while_they_start_are_replaced",
        "killed_sources_lose_nothing_uncounted",
        "random_kills_and_true_counts",
        "a_checkpoint_in_the_plan_saves_the_state",
        "copies_die_in_turn",
        "live_inputs_are_followed",
        "the_command_tells_what_became_of_the_run",
        "an_exception_of_an_operator_ends_the_run",
        "an_exception_in_the_driver_leaves_no_process",
    ],
)
def test_local(local, scene):
    local(scene)


@pytest.mark.parametrize("app", [BARGAINS, "sensor-fleet"])
def test_a_plan_for_a_budget_runs(local, app):
    local("a_plan_for_a_budget_runs", app)


@pytest.mark.soak
@pytest.mark.parametrize("scene", ["fused_chains", "all_in_one", "five_minutes_of_kills", "fifty_kills_of_sources"])
def test_longer(local, scene):
    local(scene)


@pytest.mark.parametrize("protocol", [name for name in REGISTRY if name != "partial"])
def test_kills_under_a_protocol(local, protocol):
    local("kills_under_a_protocol", protocol)


@pytest.mark.parametrize("protocol", ["coordinated", "uncoordinated", "hybrid"])
def test_kills_in_a_cycle(local, protocol):
    local("kills_in_a_cycle", protocol)


# The command as a process of its own ----------------------------------------------------------------------------------


def test_an_interrupted_and_killed_run_is_resumed_and_loses_nothing(local, tmp_path):
    """Its input has no end before all of that has happened."""
    plan, out = tmp_path / "plan.toml", tmp_path / "run"
    protection = [
        f"[operators.{spec.name}]\nbackup = true\n" + ("checkpoint = '300ms'\n" if any(spec.stateful) else "")
        for spec in load_app(BARGAINS).operators
        if spec.outputs
    ]
    plan.write_text(f"app = '{BARGAINS}'\n" + "".join(protection))
    supply = Supply(tmp_path / "in", market_table(60_000), at_once=30_000)  # seconds of input, at its rate
    source = ["--input", f"stream:{supply.path}", "--follow"]

    supply.more()
    interrupted = start(BARGAINS, *source, "--plan", plan, "--rate", 10_000, "--out", out)
    wait_until_running(out, interrupted)
    with pytest.raises(UsageError, match=f"in use by process {interrupted.pid}"), owned(out, "run"):
        pass
    os.kill(interrupted.pid, signal.SIGINT)
    code, err = end(interrupted)
    assert code == 130, err
    assert f"riprap run --resume {out}" in err.replace("\n", "")

    supply.more()
    code, err = end(start("--resume", out, "--kill", "driver@1s"))
    assert code == -signal.SIGKILL, err
    assert not (out / "summary.json").exists()

    supply.more(10_000)
    supply.end()
    local("the_resumed_run_is_exact", out, supply.path)


def test_a_killed_jvm_ends_the_run_with_a_sentence(local):
    """The last one that needs the session."""
    local("a_killed_jvm_ends_the_run_with_a_sentence")


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
    """Until the newest line of the live table says so; its input has no end yet."""
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
