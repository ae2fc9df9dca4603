"""Faults are done to real processes of this machine: stopped, slowed, cut off from each other, limited, killed."""

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from riprap.proof.fault_kinds import KINDS, cut_connections
from riprap.proof.schedule import ScheduledFault
from riprap.runtime.coordination.element_states import WorkerState
from riprap.runtime.corruption import CorruptionRequest, take_request

# Listens, tells its port, answers every byte, and says "cut" when the connection ends.
SERVER = """
import socket, sys
server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen()
print(server.getsockname()[1], flush=True)
one, _ = server.accept()
while one.recv(1): one.send(b".")
print("cut", flush=True)
"""
WRITER = """
import sys, time
print("ready", flush=True)
for line in sys.stdin:
    try:
        with open(sys.argv[1], "ab", buffering=0) as file: file.write(b"x" * 4096)
        print("written", flush=True)
    except OSError as error:
        print(error.errno, flush=True)
"""


class One:
    """One process as the only element of a run."""

    def __init__(self, process: subprocess.Popen, directory: Path) -> None:
        self.process, self.directory, self.epochs = process, directory, 1

    def pid(self, pe: str) -> int:
        return self.process.pid

    def state(self, pe: str) -> WorkerState:
        return WorkerState.RUNNING

    def epoch(self, pe: str) -> int:
        return self.epochs

    def executor(self, pe: str) -> int:
        return self.process.pid

    def pids(self) -> list[int]:
        return [self.process.pid]


def start(program: str, *arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.fixture
def sleeper():
    process = start("import time; print('up', flush=True); time.sleep(600)")
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()
    process.stdin.close()


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def until_state(pid: int, wanted: str) -> None:
    for _ in range(30_000):
        if (state_of(pid) == "T") == (wanted == "T"):
            return
        time.sleep(0.01)
    raise AssertionError(f"process {pid} is {state_of(pid)}")


def test_a_kill_is_sigkill(sleeper, tmp_path):
    list(KINDS["kill"].action(One(sleeper, tmp_path), ScheduledFault(0, "kill", ("A",))))
    assert sleeper.wait() == -signal.SIGKILL


@pytest.mark.parametrize("kind", ["hang", "slow"])
def test_who_was_stopped_goes_on(sleeper, tmp_path, kind):
    action = KINDS[kind].action(One(sleeper, tmp_path), ScheduledFault(0, kind, ("A",), 1_000_000))
    next(action)
    until_state(sleeper.pid, "T")
    for _ in action:
        pass
    until_state(sleeper.pid, "S")


def test_a_slow_element_is_let_go_when_the_proof_ends_early(sleeper, tmp_path):
    action = KINDS["slow"].action(One(sleeper, tmp_path), ScheduledFault(0, "slow", ("A",), 60_000_000))
    next(action)
    until_state(sleeper.pid, "T")
    action.close()
    until_state(sleeper.pid, "S")


# A Unix socket has a name that nobody else has, and so has its client, as with the channels of elements.
NAMED = SERVER.replace("socket.socket()", "socket.socket(socket.AF_UNIX)")
NAMED = NAMED.replace('("127.0.0.1", 0)', 'b""').replace("getsockname()[1]", "getsockname()")
TCP_CLIENT = "one = socket.create_connection(('127.0.0.1', {port}))\n"
NAMED_CLIENT = "one = socket.socket(socket.AF_UNIX); one.bind(b''); one.connect({port})\n"


def test_who_ends_while_its_connections_are_looked_at_has_none_left(monkeypatch):
    """As an element that hangs does, when it is replaced just then."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket, sys; one = socket.create_connection(('127.0.0.1', {port})); print(); sys.stdin.read()"
        with subprocess.Popen(
            [sys.executable, "-u", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as client:
            client.stdout.readline()
            looked = os.readlink

            def too_late(path, **options):
                found = looked(path, **options)
                if found.startswith("socket:") and f"/{client.pid}/" in path:
                    client.kill()
                    os.waitid(os.P_PID, client.pid, os.WEXITED | os.WNOWAIT)
                return found

            monkeypatch.setattr(os, "readlink", too_late)
            assert cut_connections(client.pid, [os.getpid()]) == 0


@pytest.mark.parametrize(("listening", "connecting"), [(SERVER, TCP_CLIENT), (NAMED, NAMED_CLIENT)])
def test_connections_are_cut_between_two_that_live(listening, connecting):
    server = start(listening)
    port = server.stdout.readline().strip()
    client = start(
        "import socket, sys\n"
        + connecting.format(port=port)
        + "one.send(b'x'); one.recv(1); print('connected', flush=True)\n"
        "print(repr(one.recv(1)), flush=True)"
    )
    try:
        assert client.stdout.readline().strip() == "connected"
        assert cut_connections(server.pid, [os.getpid()]) == 0  # those with others are left alone
        assert cut_connections(server.pid, [os.getpid(), client.pid]) == 1
        assert server.stdout.readline().strip() == "cut"
        assert client.stdout.readline().strip() == "b''"
    finally:
        for process in (server, client):
            process.kill()
            process.wait()
            process.stdout.close()
            process.stdin.close()


def test_a_full_disk_has_room_again(tmp_path):
    process = start(WRITER, str(tmp_path / "file"))
    try:
        process.stdout.readline()

        def write() -> str:
            process.stdin.write("\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        assert write() == "written"
        action = KINDS["disk-full"].action(One(process, tmp_path), ScheduledFault(0, "disk-full", ("A",), 1_000_000))
        next(action)
        assert write() == str(errno.EFBIG)
        for _ in action:
            pass
        assert write() == "written"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stdin.close()


@pytest.mark.parametrize("kind", ["checkpoint-deleted", "checkpoint-cut", "checkpoint-flipped"])
def test_checkpoints_are_damaged_and_then_their_owner_dies(sleeper, tmp_path, kind):
    folder = tmp_path / "checkpoints" / "A" / "fragment"
    folder.mkdir(parents=True)
    for number in (1, 2):
        (folder / f"0000000001-000000000{number}.manifest").write_bytes(b"manifest" * 10)
        (folder / f"0000000001-000000000{number}.part").write_bytes(b"partpart" * 10)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    list(KINDS[kind].action(One(sleeper, tmp_path), ScheduledFault(0, kind, ("A",), seed=5)))
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    changed = {name for name in before if after.get(name) != before[name]}
    assert len(changed) == 1
    assert changed.pop().startswith("0000000001-0000000002")
    assert sleeper.wait() == -signal.SIGKILL
    assert os.path.isdir(folder)


def test_a_late_kill_waits_for_the_end_of_an_interval(sleeper, tmp_path):
    victims, fault = One(sleeper, tmp_path), ScheduledFault(0, "kill-late", ("A",))
    ready = KINDS["kill-late"].ready
    assert ready(victims, fault)  # no checkpoint yet: there is nothing to wait for
    folder = tmp_path / "checkpoints" / "A" / "fragment"
    folder.mkdir(parents=True)
    now = time.time()
    for number, age in ((1, 2_900.0), (2, 1_900.0)):  # a thousand seconds apart; the third is overdue
        manifest = folder / f"0000000001-000000000{number}.manifest"
        manifest.write_bytes(b"manifest")
        os.utime(manifest, (now - age, now - age))
    assert ready(victims, fault)
    victims.epochs = 2  # it has come back, and has no checkpoints of its own
    assert not ready(victims, fault)
    victims.epochs = 1
    os.utime(manifest, (now - 500, now - 500))  # 2,400 s after the first one
    assert not ready(victims, fault)


@pytest.mark.parametrize("what", ["tuple", "state"])
def test_a_corruption_is_asked_of_the_element_itself(sleeper, tmp_path, what):
    list(KINDS[f"corrupt-{what}"].action(One(sleeper, tmp_path), ScheduledFault(0, f"corrupt-{what}", ("A",), seed=5)))
    assert take_request(tmp_path, "A") == CorruptionRequest("", what, 5)
    assert take_request(tmp_path, "A") is None
    assert sleeper.poll() is None


def ended(kind, victims, **options):
    """What an action returns, with all of it done at once."""
    action = KINDS[kind].action(victims, ScheduledFault(0, kind, ("A",), **options))
    while True:
        try:
            wait = next(action)
            if callable(wait):
                victims.epochs += 1
        except StopIteration as over:
            return over.value


KILLING = {"kill", "kill-again", "kill-late", "several", "all", "group", "hang", "slow", "executor", "disk-full"}
DAMAGING = {"checkpoint-deleted", "checkpoint-cut", "checkpoint-flipped"}


def test_every_kind_is_held_to_say_whether_it_was_done():
    asked_of_the_element = {"corrupt-tuple", "corrupt-state"}  # which says so itself
    assert KILLING | DAMAGING | asked_of_the_element | {"driver", "connection"} == set(KINDS)


@pytest.mark.parametrize("kind", sorted(KILLING))
def test_a_fault_of_a_process_that_is_gone_was_not_done(sleeper, tmp_path, kind):
    sleeper.kill()
    sleeper.wait()
    assert "no process any more" in ended(kind, One(sleeper, tmp_path))


@pytest.mark.parametrize("kind", sorted(KILLING - {"kill-again"}))
def test_a_fault_of_a_process_that_is_there_was_done(sleeper, tmp_path, kind):
    assert ended(kind, One(sleeper, tmp_path)) == ""


def test_a_second_kill_that_hits_nobody_was_not_done(sleeper, tmp_path):
    action = KINDS["kill-again"].action(One(sleeper, tmp_path), ScheduledFault(0, "kill-again", ("A",)))
    next(action)
    sleeper.wait()
    assert callable(next(action))
    with pytest.raises(StopIteration) as over:
        next(action)
    assert "no process any more" in over.value.value


@pytest.mark.parametrize("kind", sorted(DAMAGING))
def test_without_a_checkpoint_nothing_is_damaged(sleeper, tmp_path, kind):
    victims, fault = One(sleeper, tmp_path), ScheduledFault(0, kind, ("A",))
    assert not KINDS[kind].ready(victims, fault)  # it waits for one
    assert "no checkpoint" in ended(kind, victims)
    folder = tmp_path / "checkpoints" / "A" / "fragment"
    folder.mkdir(parents=True)
    (folder / "0000000001-0000000001.manifest").write_bytes(b"manifest")
    assert KINDS[kind].ready(victims, fault)


def test_who_has_no_connections_has_none_cut(sleeper, tmp_path):
    assert "no connections" in ended("connection", One(sleeper, tmp_path))
