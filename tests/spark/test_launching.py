"""What starts before a session: a nursery whose fork is Spark's daemon, and an archive of the JVM's classes."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from riprap.spark import warm_server as nursery
from riprap.spark.class_archive import ClassArchive


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def number(file) -> int:
    return int.from_bytes(file.read(4), "big")


def listening(path):
    """Wait until somebody listens there: the JVM takes longer to ask than a nursery to listen, a test does not."""
    deadline = time.monotonic() + 300
    while True:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            if connection.connect_ex(path) == 0:
                return
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_daemon_is_a_fork_of_the_nursery_and_ends_with_whoever_asked(tmp_path):
    path = str(tmp_path / "nursery")
    keeper = nursery.begin(path)
    listening(path)
    try:
        asked = subprocess.Popen(  # as the JVM does
            [sys.executable, "-m", "riprap.spark.daemon", "pyspark.worker"],
            env={**os.environ, nursery.SOCKET: path, "PYTHON_WORKER_FACTORY_SECRET": "s", "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        with socket.create_connection(("127.0.0.1", number(asked.stdout))) as worker, worker.makefile("rb") as told:
            pid = number(told)  # of the worker that the daemon forks
            daemon = parent(pid)
            assert parent(daemon) == keeper.pid
        asked.stdin.close()
        assert asked.wait(300) == 0
        deadline = time.monotonic() + 300
        while Path(f"/proc/{daemon}").exists():  # it closes its files a moment before it is gone
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert keeper.poll() is None
    finally:
        keeper.stdin.close()
        assert keeper.wait(300) == 0


def test_a_jvm_that_nobody_waited_for_ends_with_its_process():
    told = subprocess.run(
        [sys.executable, "-c", "from riprap.spark import launching; launching.launch('local[2]')\n"
         "print(launching._launch.jvm.pid, launching._launch._scratch)"],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    pid, scratch = told.stdout.split()
    deadline = time.monotonic() + 300
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, "it is left behind"
        time.sleep(0.05)
    assert not Path(scratch).exists()


def test_without_a_nursery_the_daemon_is_on_its_own(tmp_path, monkeypatch):
    assert not nursery.served_by_warm_server()
    monkeypatch.setenv(nursery.SOCKET, str(tmp_path / "nobody"))
    assert not nursery.served_by_warm_server()
    monkeypatch.setenv(nursery.SOCKET, str(tmp_path / ("long" * 50)))
    assert not nursery.served_by_warm_server()


def test_an_archive_is_written_once_and_used_from_then_on(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    java, spark = tmp_path / "java", tmp_path / "spark"
    java.touch()
    (spark / "jars").mkdir(parents=True)
    (spark / "jars" / "one.jar").touch()

    def archive(options="-XX:+A", scratch=tmp_path):
        return ClassArchive(str(java), str(spark), options, scratch)

    assert archive(scratch=None).options == ""
    first = archive()
    assert f"-XX:ArchiveClassesAtExit={first.draft}" in first.options
    first.keep()  # the JVM wrote none
    assert archive().draft is not None
    first.draft.write_bytes(b"classes")
    first.keep()
    later = archive()
    assert later.draft is None
    [kept] = (tmp_path / "cache" / "riprap" / "classes").iterdir()
    assert later.options.endswith(f"-XX:SharedArchiveFile={kept}")
    assert kept.read_bytes() == b"classes"
    assert archive("-XX:+B").draft is not None  # another JVM
    (spark / "jars" / "two.jar").touch()
    assert archive().draft is not None  # another Spark
    kept.parent.chmod(0o777)
    assert archive().options == ""  # what is in it is executed
    assert ClassArchive(None, str(spark), "", tmp_path).options == ""


def test_a_driver_does_not_load_what_only_elements_run():
    heavy = "{'riprap.expressions.scalars', 'pandas'}"
    code = f"import sys, riprap.api.run; print(*{heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
