"""The thesis's recovery figure again: a consumer is killed, is back after 34 s of stream time, catches up, goes live.

    python -m benchmarks.recovery_figure OUT.html [--speed 10]

Two processes stand for two processing elements. A appends to a persistent stream at an even rate. B follows the stream,
hands each batch on to the receiver (this process) and registers how far it is. At 52 s of stream time B is killed with
SIGKILL, A goes on; at 86 s B is started again, asks for everything since its last registered position, and goes live
when it has caught up. Stream time runs `speed` times as fast as the clock. Prints a table, writes a page.
"""

import argparse
import html
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from riprap.base.randomness import generator
from riprap.streams import PersistentStream

KILLED, BACK, END = 52, 86, 165  # seconds of stream time, as in the thesis
RATE = 2_600_000  # bytes per second of stream time: a tenth of the thesis's
ROWS, WIDTH = 184, 1024 - 16
SCHEMA = pa.schema([("_ts", pa.timestamp("us", "UTC")), ("_seq", pa.int64()), ("payload", pa.binary(WIDTH))])


def produce(path: str, speed: float) -> None:
    """Process A: batches at an even rate, stamped with stream time, until END."""
    data = generator(1, "payload").bytes(ROWS * WIDTH)
    payload = pa.Array.from_buffers(pa.binary(WIDTH), ROWS, [None, pa.py_buffer(data)])
    start, number, step = time.monotonic(), 0, ROWS * 1024 / RATE
    with PersistentStream.open(path).writer(producer="a") as writer:
        print("ready", flush=True)
        while number * step < END:
            time.sleep(max(0.0, start + number * step / speed - time.monotonic()))
            seq = np.arange(number * ROWS, (number + 1) * ROWS)
            ts = np.full(ROWS, int(number * step * 1e6))
            writer.append(pa.record_batch([pa.array(ts, SCHEMA.field(0).type), pa.array(seq), payload], schema=SCHEMA))
            number += 1
        last = [pa.array([END * 10**6], SCHEMA.field(0).type), pa.array([number * ROWS]), payload[:1]]
        writer.append(pa.record_batch(last, schema=SCHEMA))  # by which B knows that it is over


def consume(path: str) -> None:
    """Process B: from its last registered position on; hands on (first position, next position, time)."""
    stream = PersistentStream.open(path)
    for item in stream.read(from_position=stream.readers()["b"], follow=True, to_ts=END * 10**6):
        print(item.header.position, item.next_position, item.header.min_ts, flush=True)
        if item.next_position // ROWS % 8 == 0:  # a registration is synced: not for every batch
            stream.register_reader("b", item.next_position)


@dataclass
class Receiver:
    """What arrived, by the second of stream time in which it arrived."""

    started: float
    speed: float
    rows: np.ndarray = field(default_factory=lambda: np.zeros(END + 60))
    delay: np.ndarray = field(default_factory=lambda: np.zeros(END + 60))  # stream time behind the producer, in seconds
    next_position: int = 0
    repeated: int = 0
    lost: int = 0

    def now(self) -> float:
        return (time.monotonic() - self.started) * self.speed

    def receive(self, process: subprocess.Popen) -> None:
        for line in process.stdout:
            first, last, ts = map(int, line.split())
            self.lost += max(0, first - self.next_position)
            self.repeated += max(0, min(self.next_position, last) - first)
            second = min(int(self.now()), len(self.rows) - 1)
            self.rows[second] += max(0, last - max(first, self.next_position))
            self.delay[second] = max(self.delay[second], self.now() - ts / 1e6)
            self.next_position = max(self.next_position, last)


def start(role: str, path: Path, speed: float) -> subprocess.Popen:
    command = [sys.executable, "-m", "benchmarks.recovery_figure", "--role", role, str(path), "--speed", str(speed)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def measure(path: Path, speed: float) -> Receiver:
    stream = PersistentStream.create(path, SCHEMA)
    stream.register_reader("b", 0)
    producer = start("produce", path, speed)
    producer.stdout.readline()
    receiver = Receiver(time.monotonic(), speed)
    for kill_at, start_at in ((KILLED, 0), (None, BACK)):
        time.sleep(max(0.0, start_at - receiver.now()) / speed)
        consumer = start("consume", path, speed)
        thread = threading.Thread(target=receiver.receive, args=(consumer,))
        thread.start()
        if kill_at is not None:
            time.sleep(max(0.0, kill_at - receiver.now()) / speed)
            consumer.send_signal(signal.SIGKILL)
        consumer.wait()
        thread.join()
        consumer.stdout.close()
    producer.wait()
    producer.stdout.close()
    return receiver


def figure(rate: np.ndarray, rows: list[tuple[str, str]]) -> str:
    """A page of its own: the throughput that the receiver sees, and the table below it."""
    top = max(rate) * 1.05
    x, y = [60 + 6 * at for at in range(len(rate))], [260 - 230 * value / top for value in rate]
    line = " ".join(f"{px},{py:.1f}" for px, py in zip(x, y, strict=True))
    marks = "".join(
        f'<line x1="{60 + 6 * at}" y1="30" x2="{60 + 6 * at}" y2="260" stroke="#a33" stroke-dasharray="4"/>'
        f'<text x="{64 + 6 * at}" y="42" fill="#a33">{text}</text>'
        for at, text in ((KILLED, "B is killed"), (BACK, "B is back"))
    )
    ticks = "".join(f'<text x="{54 + 6 * at}" y="278">{at}</text>' for at in range(0, END + 1, 20))
    scale = "".join(
        f'<text x="52" y="{264 - 230 * part / 4:.0f}" text-anchor="end">{top * part / 4:.1f}</text>'
        for part in range(5)
    )
    cells = "".join(f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>" for name, value in rows)
    return (
        '<!doctype html><meta charset="utf-8"><title>Recovery from a persistent stream</title>'
        "<style>body{font:14px sans-serif;max-width:75em;margin:2em auto}"
        "text{font:12px sans-serif}td{padding:.2em 1em}</style>"
        "<h1>Recovery from a persistent stream</h1><p>MB per second of stream time that reach the receiver.</p>"
        f'<svg viewBox="0 0 {80 + 6 * len(rate)} 300" role="img">{scale}{ticks}{marks}'
        f'<text x="{60 + 3 * len(rate)}" y="296">stream time, s</text>'
        f'<polyline points="{line}" fill="none" stroke="#247" stroke-width="1.5"/></svg><table>{cells}</table>\n'
    )


def summary(receiver: Receiver) -> tuple[np.ndarray, list[tuple[str, str]]]:
    rate = receiver.rows[: END + 1] * 1024 / 1e6
    flowing = next((at for at in range(BACK, END) if rate[at] > 0), END)
    behind = [at for at in range(flowing, END) if receiver.delay[at] > 2]
    live = behind[-1] + 1 if behind else flowing
    before, after = rate[20 : KILLED - 1].mean(), rate[live + 1 : END - 1].mean()
    return rate, [
        ("rate before the failure", f"{before:.2f} MB/s"),
        ("B is killed, B is started again", f"{KILLED} s, {BACK} s"),
        ("first tuple after it is back", f"{flowing} s"),
        ("peak while it catches up", f"{rate[BACK:END].max():.1f} MB/s"),
        ("caught up, live again", f"{live} s"),
        ("rate afterwards", f"{after:.2f} MB/s"),
        ("rows lost", f"{receiver.lost}"),
        ("rows repeated at the seam, known by their positions", f"{receiver.repeated}"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="the page to write")
    parser.add_argument("--speed", type=float, default=10.0, help="seconds of stream time per second")
    parser.add_argument("--role", choices=("produce", "consume"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.role == "produce":
        produce(str(given.path), given.speed)
    elif given.role == "consume":
        consume(str(given.path))
    else:
        with tempfile.TemporaryDirectory(prefix="riprap-recovery-") as scratch:
            rate, rows = summary(measure(Path(scratch) / "s", given.speed))
        table = Table("recovery from a persistent stream", "")
        for row in rows:
            table.add_row(*row)
        Console().print(table)
        given.path.write_text(figure(rate, rows))


if __name__ == "__main__":
    main()
