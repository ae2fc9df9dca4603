"""Processes that serve a run: they end with it, and nobody but its user makes them fork."""

import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from riprap.base import scratch
from riprap.spark import settings

BUSY_NURSERY = """
import sys, time

class Slow:
    def find_spec(self, name, *_):
        if name == "riprap.spark.warm":
            print("importing", flush=True)
            time.sleep(1_000_000)

sys.meta_path.insert(0, Slow())
from riprap.spark import warm_server as nursery
nursery.main(sys.argv[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a signal at the end of a pipe")
def test_a_nursery_that_still_imports_ends_with_its_driver(tmp_path):
    command = [sys.executable, "-c", BUSY_NURSERY, str(tmp_path / "nursery")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as nursery:
        try:
            assert nursery.stdout.readline() == b"importing\n"
            nursery.stdin.close()
            assert nursery.wait(300) == -signal.SIGIO
        finally:
            nursery.kill()


def listening(pid):
    """The TCP ports and the Unix sockets with files that a process listens on."""
    places = [os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")]
    own = {place[8:-1] for place in places if place.startswith("socket:[")}
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    ports = [row[1] for row in rows if row[9] in own and row[3] == "0A"]
    names = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return ports, [Path(row[7]) for row in names if row[6] in own and len(row) > 7 and row[3] == "00010000"]


def private(path):
    return stat.S_IMODE(path.parent.stat().st_mode) == 0o700 and path.parent.stat().st_uid == os.getuid()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_of_a_session_are_behind_no_port(spark):
    """Spark's daemon forks for whoever connects to its port, and asks for the secret then."""
    from pyspark.sql.functions import udf

    [(daemon,)] = spark.range(1).select(udf(os.getppid, "long")()).collect()
    ports, sockets = listening(daemon)
    assert ports == []
    assert len(sockets) == 1
    assert private(sockets[0])


def test_what_a_killed_jvm_leaves_is_in_a_directory_that_the_next_command_removes(spark):
    place = Path(spark._jvm.java.lang.System.getProperty("java.io.tmpdir"))
    assert scratch._NAME.fullmatch(place.name)
    assert [path for path in place.iterdir() if path.name.startswith("blockmgr-")]
    assert [path for path in place.iterdir() if path.name.startswith("spark-")]


def test_our_own_daemon_listens_where_only_its_user_may_go(tmp_path):
    """Also where the directory that the driver named is everybody's."""
    tmp_path.chmod(0o777)
    environment = {"PYTHON_UNIX_DOMAIN_ENABLED": "true", "PYTHON_WORKER_FACTORY_SOCK_DIR": str(tmp_path)}
    daemon = subprocess.Popen(
        [sys.executable, "-m", settings.DAEMON, "pyspark.worker"],
        env={**os.environ, **environment, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        length = int.from_bytes(daemon.stdout.read(4), "big")
        path = Path(daemon.stdout.read(length).decode())
        assert path.parent != tmp_path
        assert private(path)
        assert listening(daemon.pid) == ([], [path])
        with socket.socket(socket.AF_UNIX) as worker:
            worker.connect(str(path))
            assert len(worker.recv(4)) == 4, "the worker's number"
        daemon.stdin.close()
        daemon.wait(300)
        assert not path.parent.exists()
    finally:
        daemon.kill()
        daemon.stdout.close()


def test_which_sessions_have_such_sockets():
    assert settings._unix_sockets("/tmp/x")["spark.python.unix.domain.socket.dir"] == "/tmp/x"
    assert settings._unix_sockets("/tmp/" + "x" * settings.MOST_SOCKET_DIRECTORY) == {}, "too long for a socket"
    cases = [  # loopback, same user, with our daemon
        (True, True, False, True),
        (True, False, False, False),
        (True, False, True, True),
        (False, False, True, False),
    ]
    for loopback, same_user, hosting, used in cases:
        conf = settings.hosting() if hosting else {}
        found = settings.settings(loopback=loopback, same_user=same_user, conf=conf)
        assert ("spark.python.unix.domain.socket.enabled" in found) == used
