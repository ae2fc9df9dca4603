"""A directory has one owner at a time; when it dies, however it dies, another can take its place."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from riprap.base.errors import UsageError
from riprap.base.owner import OWNER, is_empty, owned

HOLD = """
import sys
from pathlib import Path
from riprap.base.owner import owned
with owned(Path(sys.argv[1]), "run"):
    print("held", flush=True)
    sys.stdin.read()
"""


def hold(path: Path) -> subprocess.Popen:
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdin=pipe, stdout=pipe, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def end(process: subprocess.Popen) -> None:
    process.stdin.close()
    process.stdout.close()
    process.wait(60)


def test_a_second_process_is_refused_and_told_who_is_there(tmp_path):
    path = tmp_path / "out"
    process = hold(path)
    try:
        with pytest.raises(UsageError, match=rf"out is in use by process {process.pid}: another run is running there"):
            owned(path, "run").__enter__()
    finally:
        end(process)
    assert not path.exists(), "nothing was put into it"
    with owned(path, "run"):
        assert is_empty(path)
        (path / "run.json").write_text("{}")
    assert {file.name for file in path.iterdir()} == {"run.json", OWNER}


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM])
def test_what_a_dead_process_left_is_taken_over(tmp_path, kill):
    process = hold(tmp_path)
    process.send_signal(kill)
    end(process)
    assert str(process.pid) in (tmp_path / OWNER).read_text()
    with owned(tmp_path, "run"):
        assert str(os.getpid()) in (tmp_path / OWNER).read_text()


def test_a_stopped_process_still_is_the_owner(tmp_path):
    process = hold(tmp_path)
    process.send_signal(signal.SIGSTOP)
    with pytest.raises(UsageError, match=f"process {process.pid}"), owned(tmp_path, "run"):
        pass
    process.send_signal(signal.SIGCONT)
    end(process)


def test_children_do_not_inherit_it(tmp_path):
    with owned(tmp_path, "run"):
        child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    with owned(tmp_path, "run"):
        pass
    child.stdin.close()
    child.wait(60)


def test_twice_in_one_process_and_from_many_threads(tmp_path):
    with owned(tmp_path, "run"), pytest.raises(UsageError, match=f"process {os.getpid()}"), owned(tmp_path, "run"):
        pass
    inside, most, refused = [], [], []

    def work() -> None:
        for _ in range(50):
            try:
                with owned(tmp_path / "new", "run"):
                    inside.append(1)
                    most.append(len(inside))
                    inside.pop()
            except UsageError:
                refused.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1
    assert len(most) + len(refused) == 200


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b"[" * 4000, b'{"pid": "x"}'])
def test_a_name_that_cannot_be_read_is_no_obstacle(tmp_path, content):
    (tmp_path / OWNER).write_bytes(content)
    with owned(tmp_path, "run"):
        (tmp_path / OWNER).write_bytes(content)
        with pytest.raises(UsageError, match="in use by another process"), owned(tmp_path, "run"):
            pass


def test_a_place_that_cannot_be_one_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UsageError, match="cannot be written"), owned(path, "run"):
            pass


def test_a_directory_that_was_removed_does_not_hide_what_went_wrong(tmp_path):
    def removed():
        with owned(tmp_path / "run", "run"):
            shutil.rmtree(tmp_path / "run")
            raise ValueError("the reason")

    with pytest.raises(ValueError, match="the reason"):
        removed()
