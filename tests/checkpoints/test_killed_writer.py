"""A process killed in the middle of checkpoints leaves one that loads, no older than the last that it announced."""

import signal
import subprocess
import sys
import time
from pathlib import Path

from checkpoint_apps import rows_of, windows
from killed import ROWS, graph, groups_of

from riprap.base.randomness import generator
from riprap.checkpoints.load import load
from riprap.checkpoints.storage import LocalStorage
from riprap.engine.engine import Engine

SCRIPT = Path(__file__).parent / "killed.py"


def test_kill_9_leaves_a_checkpoint(tmp_path):
    chance, storage = generator(3, "kills"), LocalStorage(tmp_path)
    reached = 0
    for epoch in range(1, 4):
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(tmp_path), str(epoch)], stdout=subprocess.PIPE, text=True
        )
        announced = -1
        for _ in range(3 + int(chance.integers(0, 6))):
            announced = int(process.stdout.readline())
        time.sleep(float(chance.uniform(0, 0.02)))
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        process.stdout.close()
        loaded = load(storage, "PE/0", "all", 0)
        assert loaded.epoch == epoch
        assert loaded.warnings == ()
        at = loaded.positions["at"]
        assert at >= announced > reached
        reached = at
        expected, engine = Engine(graph()), Engine(graph())
        expected.end("S2")
        for number in range(at):
            expected.push("S1", rows_of(groups_of(number), number * ROWS))
        loaded.into(engine)
        assert windows(engine, "J") == windows(expected, "J")
