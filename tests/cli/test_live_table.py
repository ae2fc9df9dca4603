"""The lines that a run leaves in `metrics.jsonl`, and the table that shows them."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from riprap.base import files
from riprap.base.clock import SYSTEM_CLOCK
from riprap.cli.live_table import LiveTable, _table, waiting
from riprap.runtime.coordination.metrics import Metrics
from riprap.runtime.coordination.metrics_file import MetricsFile
from riprap.runtime.coordination.roster import PeStatus
from riprap.runtime.coordination.states import WorkerState
from riprap.runtime.element.latency import Latencies, format_latency


def status(epoch, latencies):
    metrics = Metrics(latency=latencies.counts).as_json()
    return PeStatus("Sink", WorkerState.RUNNING, epoch, 0, "h", 1, 2, 0, 0.0, metrics, ())


def test_latency_is_that_of_the_last_second(tmp_path):
    class Clock:
        at = 100.0

        def monotonic(self):
            return self.at

        def now(self):
            return SYSTEM_CLOCK.now()

    clock = Clock()
    metrics, latencies = MetricsFile(tmp_path, clock), Latencies()
    for epoch, milliseconds, tuples in ((1, 1, 10_000), (1, 50, 10), (1, 50, 0), (2, 2, 10_000), (2, 400, 1)):
        if epoch == 2 and milliseconds == 2:
            latencies = Latencies()  # a new life counts from 0
        latencies.add(milliseconds * 1000, tuples)
        clock.at += 1.5
        metrics.note("running", [status(epoch, latencies)])
    lines = [json.loads(line)["latency"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines[:2] == [pytest.approx(1, rel=0.06), pytest.approx(50, rel=0.06)]
    assert lines[2] is None
    assert lines[3:] == [pytest.approx(2, rel=0.06), pytest.approx(400, rel=0.06)]


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0.0123, "0.012 ms"), (1.234, "1.2 ms"), (12.34, "12 ms"), (99.7, "100 ms"), (123.4, "120 ms"), (1234, "1.2 s"),
     (12_345, "12 s"), (123_456, "123 s")],
)  # fmt: skip
def test_latencies_are_shown_to_the_digits_that_are_known(milliseconds, text):
    assert format_latency(milliseconds) == text


def test_a_full_disk_leaves_lines_out_whole(tmp_path, monkeypatch):
    """A part of a line that had room is taken back, and the run goes on."""

    class Half:
        def __init__(self, file):
            self._file = file

        def __getattr__(self, name):
            return getattr(self._file, name)

        def write(self, data):
            return self._file.write(data[: len(data) // 2])

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self._file.close()

    metrics = MetricsFile(tmp_path, SYSTEM_CLOCK)
    metrics.note("ended", [status(1, Latencies())])
    opened = files.open_file
    monkeypatch.setattr(files, "open_file", lambda *arguments, **options: Half(opened(*arguments, **options)))
    metrics.note("ended", [status(1, Latencies())])
    monkeypatch.undo()
    metrics.note("ended", [status(1, Latencies())])
    assert [json.loads(line)["pe"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()] == [
        "Sink",
        "Sink",
    ]


def test_the_table_shows_the_lines_of_the_last_second(tmp_path):
    metrics, out = MetricsFile(tmp_path, SYSTEM_CLOCK), io.StringIO()
    metrics.note("running", [status(1, Latencies({100: 5}))])
    with LiveTable(Console(file=out, force_terminal=True, width=120), show=True) as table:
        table("running", metrics.lines)
    assert "run is running" in out.getvalue()
    assert "Sink" in out.getvalue()


def test_a_run_that_does_not_come_to_start_says_what_it_waits_for():
    def lines(**states):
        return [
            {"pe": pe, "state": state, "in": 0, "out": 0, "rate": None, "latency": None, "lost": 0, "restarts": 0}
            | {"checkpoint_age": None, "checkpoint_bytes": None}
            for pe, state in states.items()
        ]

    assert waiting("running", lines(A="starting")) == ""
    assert waiting("starting", lines(A="running", B="catching_up", C="starting")).startswith("waiting for C to get a")
    assert waiting("starting", lines(A="running", B="restoring")) == (
        "waiting for B to read their state and compile their operators"
    )
    many = waiting("starting", lines(A="starting", B="starting", C="starting", D="starting", E="starting"))
    assert many.startswith("waiting for A, B, C and 2 more to get a process")
    console = Console(file=io.StringIO(), width=200)
    with LiveTable(console, show=True) as table:
        for _ in range(20):
            table("starting", lines(A="starting"))
        table("starting", lines(A="restoring"))
    said = console.file.getvalue()
    assert said.count("waiting for A to get a process") == 1
    assert "waiting for A to read" in said


def test_a_replica_that_took_over_says_how(tmp_path):
    replicas = [{"elements": [f"Sink#{number}"], "state": "full"} for number in (1, 2)]
    failover = {"at": 1, "lost": "Sink#1", "from": 1, "to": 2, "seconds": 0.173, "dropped": 12, "doubled": 3}
    group = {"active": 2, "tainted": False, "replicas": replicas, "failovers": [failover, failover]}
    told = [replace(status(1, Latencies()), pe=f"Sink#{number}") for number in (1, 2)]
    metrics = MetricsFile(tmp_path, SYSTEM_CLOCK)
    metrics.note("running", told, {"groups": {"g": group}})
    shown = io.StringIO()
    Console(file=shown, width=250).print(_table("running", metrics.lines))
    first, second = (line for line in shown.getvalue().splitlines() if "Sink#" in line)
    assert "running, backup " in first
    assert "running, active, 2 fail-overs, the last in 0.17 s: 12 dropped, 3 doubled" in second
