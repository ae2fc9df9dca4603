"""Real processes, killed or stopped: what was acknowledged is there, once, and a fenced writer is harmless."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from producer import append_number
from stream_data import SCHEMA, table

from riprap.base.randomness import generator
from riprap.streams import Busy, PersistentStream
from riprap.streams.verify import verify

SCRIPT = Path(__file__).parent / "producer.py"
SEED = 11


class Producer:
    def __init__(self, path: Path, epoch: int, last: int) -> None:
        self.acknowledged = -1
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(path), str(epoch), str(last)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            if line.strip().isdigit():
                self.acknowledged = max(self.acknowledged, int(line))

    def wait_for(self, sequence: int) -> None:
        while self.acknowledged < sequence and self.process.poll() is None:
            time.sleep(0.002)

    def end(self, kill: int | None = None) -> int:
        if kill is not None:
            self.process.send_signal(kill)
        code = self.process.wait(300)
        self._reading.join()
        self.process.stdout.close()
        self.process.stderr.close()
        return code


def kill_and_come_back(path: Path, kills: int) -> None:
    PersistentStream.create(path, SCHEMA, segment_bytes=300_000)
    chance, acknowledged = generator(SEED, "kills", kills), -1
    for epoch in range(kills):
        producer = Producer(path, epoch, 10**9)
        producer.wait_for(acknowledged + 1 + int(chance.integers(0, 40)))
        time.sleep(float(chance.uniform(0, 0.02)))
        producer.end(signal.SIGKILL)
        acknowledged = max(acknowledged, producer.acknowledged)
        stored = [item.header.sequence for item in PersistentStream.open(path).read()]
        assert stored == list(range(len(stored)))
        assert len(stored) > acknowledged, "what was acknowledged is there"
    last = len(stored) + 20
    final = Producer(path, kills, last)
    assert final.end() == 0
    assert final.acknowledged == last
    assert table(PersistentStream.open(path).read()).equals(
        table([append_number(number) for number in range(last + 1)])
    )
    assert verify(PersistentStream.open(path)).damage == []


def test_a_producer_that_is_killed_three_times(tmp_path):
    kill_and_come_back(tmp_path / "s", 3)


@pytest.mark.soak
def test_a_producer_that_is_killed_fifty_times(tmp_path):
    kill_and_come_back(tmp_path / "s", 50)


def test_a_stopped_writer_is_replaced_and_can_do_no_harm(tmp_path):
    path = tmp_path / "s"
    stream = PersistentStream.create(path, SCHEMA)
    zombie = Producer(path, 1, 10**9)
    zombie.wait_for(30)
    os.kill(zombie.process.pid, signal.SIGSTOP)
    with pytest.raises(Busy, match="epoch 1"):
        stream.writer(producer="p", epoch=1)
    with pytest.raises(Busy, match="producer 'p'"):
        stream.writer(producer="other", epoch=9)
    time.sleep(0.1)  # what it had printed has arrived
    with stream.writer(producer="p", epoch=2) as writer:
        first = writer.last_sequence + 1
        assert first > zombie.acknowledged
        os.kill(zombie.process.pid, signal.SIGCONT)
        for number in range(first, first + 50):
            writer.append(append_number(number), sequence=number).result()
        assert zombie.process.wait(300) != 0, "it ends by itself"
    assert zombie.acknowledged < first
    assert "Fenced" in zombie.process.stderr.read()
    zombie.end()
    assert table(PersistentStream.open(path).read()).equals(
        table([append_number(number) for number in range(first + 50)])
    )
    assert verify(PersistentStream.open(path)).damage == []


def test_a_full_disk_is_an_error_and_loses_nothing(tmp_path):
    """The largest file that the process may write stands in for the disk."""
    script = (
        "import resource, signal, sys\n"
        f"sys.path.insert(0, {str(SCRIPT.parent)!r})\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "from riprap.base import disk\n"
        "disk.PATIENCE = 1.0\n"  # nobody will make room
        "from producer import append_number\n"
        "from riprap.streams import PersistentStream\n"
        f"with PersistentStream.open({str(tmp_path / 's')!r}).writer(producer='p', epoch=1) as writer:\n"
        "    for number in range(10**9):\n"
        "        writer.append(append_number(number), sequence=number).result()\n"
        "        print(number, flush=True)\n"
    )
    stream = PersistentStream.create(tmp_path / "s", SCHEMA)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode != 0
    assert "File too large" in done.stderr
    acknowledged = max(int(line) for line in done.stdout.split() if line.isdigit())
    with stream.writer(producer="p", epoch=2) as writer:
        assert writer.last_sequence >= acknowledged
        last = writer.last_sequence
    assert table(stream.read()).equals(table([append_number(number) for number in range(last + 1)]))
