"""Scratch directories go with their process; what a killed one left goes with the next command, and nothing else."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from riprap.base import scratch as scratches
from riprap.base.scratch import scratch, scratch_directory, sweep

COMMAND = """
import time
import riprap.cli.commands as commands
from riprap.base.scratch import scratch_directory
from riprap.cli.main import main

def command(**_):
    print(scratch_directory("test"), flush=True)
    time.sleep(1_000_000)

commands.app = command
main()
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@pytest.fixture
def command(place):
    """A command that has a scratch directory and would stay for ever."""
    started = subprocess.Popen(
        [sys.executable, "-c", COMMAND], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored where a suite is in the background
    )  # fmt: skip
    made = Path(started.stdout.readline().decode().strip())
    assert made.parent == place
    yield started, made
    started.kill()
    started.communicate()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_command_that_is_asked_to_end_clears_up(command, how):
    started, made = command
    assert made.stat().st_mode & 0o777 == 0o700
    started.send_signal(how)
    _, told = started.communicate()
    assert (started.returncode, told) == (130, b"riprap: interrupted\n")
    assert not made.exists()


def test_the_next_command_clears_up_behind_one_that_was_killed(command):
    started, made = command
    (made / "deep").mkdir()
    (made / "deep" / "file").write_text("x")
    subprocess.run([sys.executable, "-m", "riprap.cli.main", "--help"], check=True, capture_output=True)
    assert made.exists(), "its process lives"
    started.kill()
    started.wait()
    assert made.exists()
    subprocess.run([sys.executable, "-m", "riprap.cli.main", "--help"], check=True, capture_output=True)
    assert not made.exists()


def test_nothing_else_is_touched(place, monkeypatch):
    gone = subprocess.Popen(["true"])
    gone.wait()
    dead = scratches._prefix("x").replace(f"-{os.getpid():x}.", f"-{gone.pid:x}.")
    reused = scratches._prefix("x").replace(f"-{os.getpid():x}.", "-1.")
    elsewhere = dead.replace(f"{scratches._namespace():x}-", "1-")
    target = place / "target"
    target.mkdir()
    (target / "file").touch()
    kept = [target, place / f"{elsewhere}a", place / "riprap-compiled-x", place / f"not-{dead}a"]
    for path in kept[1:]:
        path.mkdir()
    link, file, mine = place / f"{dead}link", place / f"{dead}file", Path(scratch_directory("x"))
    link.symlink_to(target)
    file.touch()
    removed = [place / f"{dead}a", place / f"{reused}b"]
    for path in removed:
        path.mkdir()
        (path / "link").symlink_to(target)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getuid", lambda: os.geteuid() + 1)
        sweep()
    assert all(path.exists() for path in removed), "they would be another user's"
    with scratch("y") as other:
        sweep()
        assert other.exists()
    assert not any(path.exists() for path in removed)
    assert all(path.exists() for path in (*kept, link, file, mine, target / "file"))
