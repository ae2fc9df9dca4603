"""`riprap run`: what it refuses and tells; interrupted, orphaned and killed it leaves a run that can be resumed."""

import contextlib
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

PATIENCE = 600  # seconds; only how long a test that fails takes

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    with player("command_scenes.py", tmp_path_factory.mktemp("local")) as play:
        yield play


@pytest.mark.parametrize("scene", ["bad_input_is_refused_in_a_sentence", "the_command_tells_what_became_of_the_run"])
def test_command(local, scene):
    local(scene)


# As a process of its own ----------------------------------------------------------------------------------------------


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

    with owned(out, "run"):
        for again in (["--resume", out], [BARGAINS, *source, "--out", out]):
            code, err = end(start(*again))
            assert code == 2, err
            assert f"in use by process {os.getpid()}" in err.replace("\n", " "), err

    supply.more()
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

    supply.more()
    code, err = end(start("--resume", out, "--kill", "driver@1s"))
    assert code == -signal.SIGKILL, err
    assert not (out / "summary.json").exists()

    supply.more(10_000)
    supply.end()
    local("the_resumed_run_is_exact", out, supply.path)


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
