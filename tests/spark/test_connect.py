"""The bounded run over Spark Connect: a real server on loopback, a client in a process of its own."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest
from cluster import PATIENCE, QUICK

from riprap.apps import market
from riprap.apps.catalogue import load_app
from riprap.engine.engine import Engine

pytestmark = pytest.mark.xdist_group("spark")

CLIENT = """
import sys
from pyspark.sql import SparkSession
from riprap.apps.catalogue import load_app
from riprap.spark.bounded import run_bounded
from riprap.spark.job_progress import with_progress
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
graph = load_app("bargain-discovery")
from_file = run_bounded(graph, sys.argv[2], spark=spark, partitions=2)["Sink"]
told = []
print(with_progress(spark, from_file.count, lambda done, total: told.append((done, total))))
print(run_bounded(graph, spark.read.parquet(sys.argv[2]), spark=spark, partitions=2)["Sink"].count())
print(len(told) > 0)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = Path(pyspark.__file__).parent
    command = [
        str(home / "bin" / "spark-submit"), "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--master", "local[2]", "--conf", "spark.ui.enabled=false",
        "--conf", "spark.connect.grpc.binding.address=127.0.0.1", "--conf", f"spark.connect.grpc.binding.port={port}",
        "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1",
        "spark-internal",
    ]  # fmt: skip
    log = tmp_path_factory.mktemp("connect") / "server.log"
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(home),
        "JAVA_TOOL_OPTIONS": QUICK,
    }
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True)
    try:
        for _ in range(5 * PATIENCE):
            if process.poll() is not None:
                pytest.fail(f"the Connect server ended: {log.read_text()[-2000:]}")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.2)
        else:
            pytest.fail("the Connect server did not open its port")
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=PATIENCE)


def test_bounded_run_over_connect(server, tmp_path):
    table = market.generate(10_000, seed=5)
    path = tmp_path / "ticks.parquet"
    pq.write_table(table, path)
    engine = Engine(load_app("bargain-discovery"))
    expected = sum(output.event.num_rows for output in engine.run({"Source": table.combine_chunks().to_batches()}))
    client = subprocess.run(
        [sys.executable, "-c", CLIENT, server, str(path)], capture_output=True, text=True, check=False, timeout=300
    )
    assert client.returncode == 0, client.stderr[-3000:]
    assert client.stdout.split() == [str(expected), str(expected), "True"]
