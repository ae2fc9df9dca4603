"""Bargain Discovery on other stream processors: Flink (Java, SQL, Python) and Bytewax. Nothing here is part of the
product, and this file imports nothing of it: it runs in the interpreter that has the peers.

    PYTHON benchmarks/peers_processors.py has bytewax|flink        exit 0 where it can run
    PYTHON benchmarks/peers_processors.py FORM TICKS TUPLES        prints {"seconds": …, "bargains": …, "gain": …}

FORM is `bytewax`, `flink-java`, `flink-java-apart` (no operator chained to another; `Bargains.java` has it), either of
these with `-written`, `flink-sql` or `pyflink`. TICKS is a file of records of 24 bytes, little-endian: ticker (i32),
whether it is a quote (i32), price (f64), size (i64), in stream order. All forms read it into memory before the clock
starts, work on all cores of the machine, and count bargains and gain; but for those that are `-written`, which put them
into text files, they write them nowhere. All that is in their favour. Seconds are those of a second run in the same
process: starting and warming up are not counted.
"""

import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

WINDOW = 5
_RECORD = struct.Struct("<iidq")

_JAVA = Path(__file__).with_name("Bargains.java")


def _flink_jars() -> str:
    import pyflink

    return str(Path(pyflink.__file__).parent / "lib" / "*")


def flink_java(ticks: Path, tuples: int, chaining: str = "chained", *, written: bool = False) -> None:
    with tempfile.TemporaryDirectory(prefix="riprap-flink-") as directory:
        subprocess.run(["javac", "-nowarn", "-cp", _flink_jars(), "-d", directory, str(_JAVA)], check=True)
        classes = f"{directory}{os.pathsep}{_flink_jars()}"
        opens = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "util", "time", "nio")]
        command = ["java", *opens, "-Xmx4g", "-cp", classes, "Bargains", str(ticks), str(tuples), chaining]
        if written:
            command.append(str(Path(directory) / "found"))
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        print([line for line in done.stdout.splitlines() if line.startswith("{")][-1])


def _table(ticks: Path, tuples: int, directory: str) -> Path:
    """As CSV, which every build of Flink reads."""
    path = Path(directory) / "ticks.csv"
    data = ticks.read_bytes()[: tuples * _RECORD.size]
    with path.open("w") as file:
        for number, row in enumerate(_RECORD.iter_unpack(data)):
            file.write(f"{number},{row[0]},{row[1]},{row[2]!r},{row[3]}\n")
    return path


def flink_sql(ticks: Path, tuples: int) -> None:
    """The query of `bargain_peers`: window functions in the order of event time."""
    from pyflink.table import EnvironmentSettings, TableEnvironment

    with tempfile.TemporaryDirectory(prefix="riprap-flink-") as directory:
        path = _table(ticks, tuples, directory)
        tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        settings = {
            "parallelism.default": str(os.cpu_count()),
            # Without it every bargain changes the count, and every change is a row that Python fetches.
            "table.exec.mini-batch.enabled": "true",
            "table.exec.mini-batch.allow-latency": "2 s",
            "table.exec.mini-batch.size": "500000",
        }
        for name, value in settings.items():
            tables.get_config().set(name, value)
        tables.execute_sql(f"""
            create table ticks (seq bigint, ticker int, quote int, price double, size bigint,
                moment as to_timestamp_ltz(seq, 3), watermark for moment as moment)
            with ('connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'csv')
        """)
        query = f"""
            with averages as (
                select ticker, moment, cast(null as double) as price, cast(null as bigint) as size,
                       sum(price * size) over recent / sum(size) over recent as average
                from ticks where quote = 0
                window recent as (
                    partition by ticker order by moment rows between {WINDOW - 1} preceding and current row)
            ), both_kinds as (
                select * from averages
                union all
                select ticker, moment, price, size, cast(null as double) from ticks where quote = 1
            ), matched as (
                select price, size, last_value(average) over (
                    partition by ticker order by moment rows between unbounded preceding and current row) as average
                from both_kinds
            )
            select count(*), sum(size * (average - price)) from matched where average > price
        """
        seconds = 0.0
        for _ in range(2):
            start = time.perf_counter()
            with tables.execute_sql(query).collect() as rows:
                bargains, gain = list(rows)[-1]  # every change of the result is a row
            seconds = time.perf_counter() - start
        print(json.dumps({"seconds": seconds, "bargains": bargains, "gain": gain}))


def pyflink(ticks: Path, tuples: int) -> None:
    """A keyed process function in Python, by Arrow-less row batches as PyFlink has them."""
    from pyflink.common import Types
    from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
    from pyflink.datastream.state import ValueStateDescriptor

    class Match(KeyedProcessFunction):  # type: ignore[misc]
        def open(self, context):  # type: ignore[no-untyped-def]
            self.recent = context.get_state(ValueStateDescriptor("recent", Types.PICKLED_BYTE_ARRAY()))

        def process_element(self, tick, context):  # type: ignore[no-untyped-def]
            trades = self.recent.value() or []
            if not tick[1]:
                self.recent.update([*trades[1 - WINDOW :], (tick[2] * tick[3], tick[3])])
            elif trades:
                average = sum(worth for worth, _ in trades) / sum(volume for _, volume in trades)
                if average > tick[2]:
                    yield tick[3] * (average - tick[2])

    records = list(_RECORD.iter_unpack(ticks.read_bytes()[: tuples * _RECORD.size]))
    seconds, bargains, gain = 0.0, 0, 0.0
    for _ in range(2):
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(os.cpu_count() or 1)
        env.set_python_executable(sys.executable)
        row = Types.TUPLE([Types.INT(), Types.INT(), Types.DOUBLE(), Types.LONG()])
        found = env.from_collection(records, row).key_by(lambda t: t[0], Types.INT()).process(Match(), Types.DOUBLE())
        start = time.perf_counter()
        with found.execute_and_collect() as gains:
            values = list(gains)
        seconds, bargains, gain = time.perf_counter() - start, len(values), sum(values)
    print(json.dumps({"seconds": seconds, "bargains": bargains, "gain": gain}))


def bytewax(ticks: Path, tuples: int) -> None:
    """`stateful_map` by ticker, in one worker per core; each worker reads the ticks of its own keys."""
    from bytewax import operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.inputs import DynamicSource, StatelessSourcePartition
    from bytewax.outputs import DynamicSink, StatelessSinkPartition
    from bytewax.testing import cluster_main

    records = [(str(r[0]), r[1:]) for r in _RECORD.iter_unpack(ticks.read_bytes()[: tuples * _RECORD.size])]
    gains: list[float] = []

    class Ticks(StatelessSourcePartition):  # type: ignore[misc]
        def __init__(self, part: list[tuple[str, tuple[int, float, int]]]) -> None:
            self.part, self.at = part, 0

        def next_batch(self):  # type: ignore[no-untyped-def]
            if self.at >= len(self.part):
                raise StopIteration
            self.at += 1000
            return self.part[self.at - 1000 : self.at]

    class Source(DynamicSource):  # type: ignore[misc]
        def build(self, step_id, worker_index, worker_count):  # type: ignore[no-untyped-def]
            return Ticks([r for r in records if int(r[0]) % worker_count == worker_index])

    class Gains(StatelessSinkPartition):  # type: ignore[misc]
        def write_batch(self, items):  # type: ignore[no-untyped-def]
            gains.extend(gain for _, gain in items if gain)

    class Sink(DynamicSink):  # type: ignore[misc]
        def build(self, step_id, worker_index, worker_count):  # type: ignore[no-untyped-def]
            return Gains()

    def match(trades, tick):  # type: ignore[no-untyped-def]
        quote, price, size = tick
        trades = trades or []
        if not quote:
            return [*trades[1 - WINDOW :], (price * size, size)], 0.0
        if trades:
            average = sum(worth for worth, _ in trades) / sum(volume for _, volume in trades)
            if average > price:
                return trades, size * (average - price)
        return trades, 0.0

    seconds = 0.0
    for _ in range(2):
        gains.clear()
        flow = Dataflow("bargains")
        op.output("out", op.stateful_map("match", op.input("in", flow, Source()), match), Sink())
        start = time.perf_counter()
        cluster_main(flow, [], 0, worker_count_per_proc=os.cpu_count() or 1)
        seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "bargains": len(gains), "gain": sum(gains)}))


FORMS = {
    "bytewax": bytewax,
    "flink-java": flink_java,
    "flink-java-written": partial(flink_java, written=True),
    "flink-java-apart": partial(flink_java, chaining="apart"),
    "flink-java-apart-written": partial(flink_java, chaining="apart", written=True),
    "flink-sql": flink_sql,
    "pyflink": pyflink,
}

if __name__ == "__main__":
    if sys.argv[1] == "has":
        __import__({"bytewax": "bytewax.testing", "flink": "pyflink.datastream"}[sys.argv[2]])
    else:
        FORMS[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
