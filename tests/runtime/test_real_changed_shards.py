"""Real processes and `kill -9` of all of them: the run goes on in other numbers of shards, and its output is exact."""

import os
import signal

import pyarrow as pa
from tests.runtime.test_real_continuous import graph, rows_in
from tests.runtime.test_real_lives import PATIENCE, Hosts, _until
from tests.spark.supply import Supply

from riprap.base.clock import SYSTEM_CLOCK
from riprap.records.listing import newest
from riprap.runtime.coordination.coordinator import Coordinator
from riprap.runtime.coordination.counts import stream_counts
from riprap.runtime.coordination.run_summary import read_ledgers
from riprap.runtime.element.records import log_of
from riprap.runtime.handover import hand_over
from riprap.runtime.layout import arrange
from riprap.runtime.process import log_path
from riprap.runtime.run_context import Run, stream_path
from riprap.streams import PersistentStream

ROWS, KEYS, SIZE = 40_000, 211, 10
SHARDS = (2, 3, 1)


def means(table) -> list[tuple]:
    """What is to come out, in plain Python: the mean of every ten of a key, at the tenth."""
    windows, found = {}, []
    for key, value in zip(table["k"].to_pylist(), table["x"].to_pylist(), strict=True):
        window = windows.setdefault(key, [])
        window.append(value)
        if len(window) == SIZE:
            found.append((key, sum(window) / SIZE, SIZE))
            window.clear()
    return found


def recorded(run, pe, life: int) -> bool:
    """Whether a shard of the mean has a record of that life or a later one, and has given something out."""
    log = log_path(run, log_of(run.layout, pe))
    line = newest(PersistentStream.open(log)) if rows_in(log) else None
    return line is not None and line.epoch >= life


def test_a_killed_run_goes_on_with_more_shards_and_with_fewer(tmp_path):
    times = pa.array(range(0, ROWS * 100, 100), pa.timestamp("us", "UTC"))
    columns = {
        "k": pa.array([at * at % KEYS for at in range(ROWS)], pa.int64()),
        "x": pa.array(map(float, range(ROWS))),
    }
    numbers = pa.array(range(ROWS), pa.int64())
    supply = Supply(tmp_path / "in", pa.table({**columns, "_ts": times, "_seq": numbers}), at_once=200)
    former = []
    for shards in SHARDS:
        layout = arrange(graph(), parallelism={"Mean": shards}, former=former)
        hand_over(tmp_path, layout, "async")
        hosts = Hosts(len(layout.pes) + 1)
        coordinator = Coordinator(tmp_path, layout, "secret", None, "127.0.0.1", SYSTEM_CLOCK, silence=PATIENCE)
        try:
            coordinator.start()
            inputs = {"S": str(supply.path)}
            run = Run(tmp_path, layout, inputs, coordinator.location, "secret", "127.0.0.1", follow=True)
            for pe in layout.pes:
                hosts.start(run, pe.id)
            shards_now = layout.hosting("Mean")
            _until(lambda: all(recorded(run, pe, 1) for pe in shards_now), coordinator, supply)  # noqa: B023
            if former:  # one that took over comes back from its own log
                victim = shards_now[-1]
                os.kill(hosts.running[victim.id].pid, signal.SIGKILL)
                hosts.running[victim.id].join()
                hosts.start(run, victim.id)
                _until(lambda: recorded(run, victim, 2), coordinator, supply)  # noqa: B023
            if shards == SHARDS[-1]:
                supply.end()
                assert coordinator.wait(PATIENCE), coordinator.table()
            else:
                for process in hosts.running.values():
                    os.kill(process.pid, signal.SIGKILL)
                    process.join()
            assert coordinator.error is None, coordinator.error
        finally:
            coordinator.close()
            hosts.close()
        former.append({name: fragment.shards for fragment in layout.fragments for name in fragment.members})
    table = pa.Table.from_batches([item.batch for item in PersistentStream.open(tmp_path / "sinks" / "Sink").read()])
    found = list(zip(*(table[name].to_pylist() for name in ("k", "x", "n")), strict=True))
    assert found == means(supply.table())
    assert [pe.id for pe in layout.hosting("Mean")] == ["Mean/5"]
    for counts in stream_counts(layout, read_ledgers(tmp_path, layout)).values():
        assert counts.lost == counts.late == 0
    for channel in layout.link("S→Mean").channels():  # nobody keeps it for shards that are no more
        assert PersistentStream.open(stream_path(tmp_path, channel)).readers().keys() == {"Mean-5"}
