"""The command as a process: killed with all of its elements and resumed, interrupted and resumed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from drivers import environment

from riprap.apps.catalogue import load_app
from riprap.apps.samples import cache_directory, sample_inputs
from riprap.engine.engine import Engine
from riprap.engine.inputs import keyed, read_file
from riprap.streams import Stream

APP = "bargain-discovery"
PATIENCE = 120  # seconds

pytestmark = pytest.mark.xdist_group("spark")


def start(*arguments):
    command = [sys.executable, "-m", "riprap.cli.main", "run", *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment(), start_new_session=True)


def end(process):
    out, err = process.communicate(timeout=PATIENCE)
    deadline = time.monotonic() + PATIENCE
    while left := processes_of(process.pid):
        assert time.monotonic() < deadline, f"processes are left: {left}"
        time.sleep(0.1)
    return process.returncode, out, err


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


def wait_for_running(directory: Path, process) -> None:
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


def bounded(inputs) -> list[dict]:
    graph = load_app(APP)
    batches = {name: keyed(read_file(path), graph[name]) for name, path in inputs.items()}
    return [row for _, batch in Engine(graph).run(batches) for row in batch.to_pylist()]


def test_a_killed_and_interrupted_run_is_resumed_and_loses_nothing(tmp_path):
    graph = load_app(APP)
    inputs = sample_inputs(graph, 200_000, 1, cache_directory())
    plan = tmp_path / "plan.toml"
    protection = "".join(
        f"[operators.{spec.name}]\nbackup = true\n" + ("checkpoint = '300ms'\n" if any(spec.stateful) else "")
        for spec in graph.operators
        if spec.outputs
    )
    plan.write_text(f"app = '{APP}'\n{protection}")
    out = tmp_path / "run"

    killed = start(
        APP, "--input", inputs["Source"], "--plan", plan, "--rate", 25_000, "--kill", "driver@3s", "--out", out
    )
    code, _, _ = end(killed)
    assert code == -signal.SIGKILL

    interrupted = start("--resume", out)
    wait_for_running(out, interrupted)
    os.kill(interrupted.pid, signal.SIGINT)
    code, _, err = end(interrupted)
    assert code == 130, err
    assert f"riprap run --resume {out}" in err.replace("\n", "")

    code, told, err = end(start("--resume", out, "--json"))
    assert code == 0, err
    summary = json.loads(told)
    for name, stream in summary["streams"].items():
        assert stream["recovery"] == "replay", name
        assert stream["sent"] == stream["received"], name
        assert stream["lost"] == stream["repeated"] == 0, name
    assert [row for item in Stream.open(out / "sinks" / "Sink").read() for row in item.batch.to_pylist()] == bounded(
        inputs
    )
