"""The driver of a streaming query is killed with SIGKILL at random moments: nothing is lost, nothing is there twice."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from stream_query import run_query

from riprap.base.randomness import generator
from riprap.streams import PersistentStream

SCRIPT = Path(__file__).parent / "stream_query.py"
SCHEMA = pa.schema([("_ts", pa.timestamp("us", "UTC")), ("_seq", pa.int64())])
SEED = 4


def start(*arguments: object) -> subprocess.Popen:
    """In a session of its own, so that the JVM and its Python workers can be killed with it."""
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        env={**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},  # starts sooner
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def rows(path: Path) -> list[int]:
    try:
        return [seq for item in PersistentStream.open(path).read() for seq in item.batch["_seq"].to_pylist()]
    except Exception:  # not created yet
        return []


def run_with_kills(spark, directory: Path, kills: int, rows_per_kill: int) -> None:
    source, target, checkpoint = directory / "in", directory / "out", directory / "checkpoint"
    numbers = np.arange((kills + 1) * rows_per_kill)
    with PersistentStream.create(source, SCHEMA, segment_bytes=4096).writer() as writer:
        for part in np.array_split(numbers, len(numbers) // 20):
            writer.append(pa.record_batch([pa.array(part * 1000, SCHEMA.field(0).type), pa.array(part)], schema=SCHEMA))
    chance = generator(SEED, "kills", kills)
    for _ in range(kills):
        before, deadline = len(rows(target)), time.monotonic() + 300
        query = start(source, target, checkpoint)
        # Let it get somewhere, then kill it at any point of its next two micro-batches.
        while len(rows(target)) == before and time.monotonic() < deadline:
            assert query.poll() is None, query.stderr.read().decode()
            time.sleep(0.02)
        time.sleep(float(chance.uniform(0, 0.6)))
        os.killpg(query.pid, signal.SIGKILL)
        query.wait()
        query.stderr.close()
    run_query(spark, str(source), str(target), str(checkpoint), to_the_end=True)
    assert rows(target) == [int(number) for number in numbers if number % 7 != 3]


def test_a_kill(spark, tmp_path):
    run_with_kills(spark, tmp_path, kills=1, rows_per_kill=80)


@pytest.mark.soak
def test_fifty_kills(spark, tmp_path):
    run_with_kills(spark, tmp_path, kills=50, rows_per_kill=120)
