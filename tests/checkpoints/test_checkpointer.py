"""Deadlines, the writing thread, epochs, and what a gap does to windows."""

import shutil
import threading

import numpy as np
import pytest
from checkpoint_apps import SECOND, checkpointer, joining, rows_of, started, summing, windows

from riprap.base.errors import UsageError
from riprap.checkpoints.checkpointer import Checkpointer
from riprap.checkpoints.load import load
from riprap.checkpoints.names import MANIFEST, files_in, folder_of
from riprap.checkpoints.storage import LocalStorage, MemoryStorage
from riprap.engine.engine import Engine
from riprap.graph.windows import count, time
from riprap.streams.errors import Fenced

MS = 1_000


class Held(MemoryStorage):
    """Writes parts only while the gate is open, and fails when told to."""

    def __init__(self):
        super().__init__()
        self.gate = threading.Event()
        self.error = None

    def write(self, name, data):
        if name.endswith(".manifest"):
            self.gate.wait(60)
            if self.error is not None:
                raise self.error
        super().write(name, data)


def two_units(storage, **options):
    units = {"slow": (["J"], 100 * MS), "fast": (["J"], 30 * MS)}
    return Checkpointer(storage, "P", 1, units, **{"background": False, **options}), started(joining(count(5)))


def test_deadlines_are_multiples_of_the_interval_and_come_in_order():
    writer, engine = two_units(MemoryStorage())
    assert writer.due(1_005 * MS) == []
    assert writer.due(1_019 * MS) == []
    assert writer.due(1_020 * MS) == ["fast"]  # 34 × 30
    writer.capture("fast", engine, {}, 1_028 * MS)  # a little late, and the next is due when it always was
    assert writer.due(1_049 * MS) == []
    assert writer.due(1_050 * MS) == ["fast"]
    assert writer.due(1_100 * MS) == ["fast", "slow"]
    assert [counts.missed for counts in writer.counts.values()] == [0, 0]


def test_a_capture_that_is_a_whole_interval_late_has_missed_a_deadline():
    writer, engine = two_units(MemoryStorage())
    writer.due(0)
    assert writer.due(95 * MS) == ["fast"]
    writer.capture("fast", engine, {}, 95 * MS)  # for 30; those of 60 and 90 are gone
    assert writer.counts["fast"].missed == 2
    assert writer.due(119 * MS) == ["slow"]
    assert writer.due(120 * MS) == ["slow", "fast"]


def test_a_deadline_while_the_checkpoint_before_is_being_written_is_missed():
    storage = Held()
    writer, engine = two_units(storage, background=True)
    writer.due(0)
    writer.capture("fast", engine, {"in": 7}, 30 * MS)
    assert writer.due(59 * MS) == []
    assert writer.due(60 * MS) == []
    assert writer.counts["fast"].missed == 1
    assert writer.finished() == []
    storage.gate.set()
    writer.close()
    (saved,) = writer.finished()
    assert (saved.unit, saved.taken_at, saved.positions) == ("fast", 30 * MS, {"in": 7})
    assert saved.bytes <= writer.counts["fast"].bytes
    assert writer.counts["fast"].taken == 1
    assert writer.due(90 * MS) == ["fast"]


def test_processing_goes_on_while_a_checkpoint_is_written():
    graph, storage = joining(count(50)), Held()
    engine, writer = started(graph), checkpointer(storage, graph, background=True)
    engine.push("S1", rows_of(np.arange(60) % 3, 0))
    then = windows(engine, "J")
    writer.capture("all", engine, {}, 0)
    for j in range(1, 10):
        engine.push("S1", rows_of(np.arange(60) % 3, 60 * j))
    storage.gate.set()
    writer.close()
    again = Engine(graph)
    load(storage, "PE/0", "all", 0).into(again)
    assert windows(again, "J") == then


def test_an_error_of_the_thread_is_raised_by_the_next_call():
    storage = Held()
    writer, engine = two_units(storage, background=True)
    storage.error = OSError("no space left")
    writer.capture("fast", engine, {}, 0)
    storage.gate.set()
    with pytest.raises(OSError, match="no space left"):
        writer.close()
    with pytest.raises(OSError, match="no space left"):
        writer.due(0)
    with pytest.raises(OSError, match="no space left"):
        writer.capture("fast", engine, {}, 0)


@pytest.mark.parametrize("background", [False, True])
def test_an_older_epoch_is_refused(tmp_path, background):
    graph, storage = joining(count(5)), LocalStorage(tmp_path)
    engine = started(graph)
    old = checkpointer(storage, graph, 1, background=background)
    old.capture("all", engine, {"epoch": 1}, 0)
    if background:
        while not old.finished():
            pass
    new = checkpointer(storage, graph, 2)
    with pytest.raises(Fenced, match="epoch 1 is refused"):
        _capture_and_close(old, engine)
    assert load(storage, "PE/0", "all", 0).positions == {"epoch": 1}
    new.capture("all", engine, {"epoch": 2}, SECOND)
    assert load(storage, "PE/0", "all", 0).positions == {"epoch": 2}
    with pytest.raises(Fenced):
        checkpointer(storage, graph, 1)


def _capture_and_close(writer, engine):
    writer.capture("all", engine, {"epoch": 1}, SECOND)
    writer.close()


def test_epochs_decide_which_checkpoint_is_the_newest():
    """Even if an old attempt writes, after its last look, later than the new one: it cannot win, nor delete."""
    graph, storage = joining(count(5)), MemoryStorage()
    engine = started(graph)
    old = checkpointer(storage, graph, 1, keep=1)
    for at in range(9):
        old.capture("all", engine, {"epoch": 1}, at)
    old._units["all"].writer._claim.check = lambda: None
    checkpointer(storage, graph, 2, keep=1).capture("all", engine, {"epoch": 2}, 10)
    old.capture("all", engine, {"epoch": 1}, 20)
    assert load(storage, "PE/0", "all", 0).positions == {"epoch": 2}


def test_a_few_versions_are_kept():
    graph, storage = joining(count(5)), MemoryStorage()
    writer, engine = checkpointer(storage, graph, keep=3), started(graph)
    for at in range(7):
        writer.capture("all", engine, {}, at)
    folder = folder_of("PE/0", "all")
    assert [file.number for file in files_in(storage, folder, MANIFEST)] == [5, 6, 7]
    checkpointer(storage, graph, 2, keep=2).capture("all", engine, {}, 8)
    assert [(f.epoch, f.number) for f in files_in(storage, folder, MANIFEST)] == [(1, 7), (2, 1)]


@pytest.mark.parametrize(("units", "keep"), [({"u": (["J"], 0)}, 3), ({"u": (["J"], 1)}, 0)])
def test_impossible_settings_are_refused(units, keep):
    with pytest.raises(UsageError):
        Checkpointer(MemoryStorage(), "P", 1, units, keep=keep)


def test_an_unknown_unit_is_refused():
    writer, engine = two_units(MemoryStorage())
    with pytest.raises(UsageError, match="fast"):
        writer.capture("fats", engine, {}, 0)


# Gaps -----------------------------------------------------------------------------------------------------------------


def after_a_gap(graph, seconds, *, gap=True):
    """Two checkpoints a second apart; group 0 takes 20 tuples in it, group 1 takes 10, group 2 none."""
    storage, engine = MemoryStorage(), started(graph)
    writer = checkpointer(storage, graph)
    engine.push("S1", rows_of(np.arange(300) % 3, 0))
    writer.capture("all", engine, {}, 10 * SECOND)
    engine.push("S1", rows_of(np.array([0, 0, 1] * 10), 300))
    writer.capture("all", engine, {}, 11 * SECOND)
    again = Engine(graph)
    load(storage, "PE/0", "all", 11 * SECOND + int(seconds * SECOND), gap=gap).into(again)
    return windows(engine, graph.order[-2]), windows(again, graph.order[-2])


@pytest.mark.parametrize("graph", [joining(count(50)), summing(count(50), count(1))])
def test_a_gap_takes_from_count_windows_what_would_have_slid_out(graph):
    before, after = after_a_gap(graph, 1.5)
    assert after[0] == before[0][30:]  # 1.5 s at 20 tuples/s
    assert after[1] == before[1][15:]
    assert after[2] == before[2]
    before, after = after_a_gap(graph, 100)
    assert {key: len(window) for key, window in after.items()} == {2: 50}


def test_a_gap_leaves_what_there_is_room_for():
    before, after = after_a_gap(joining(count(130)), 1.0)
    assert len(before[0]) == 120
    assert after[0] == before[0][10:]  # 20 would have come, and 10 fitted in
    assert after[1] == before[1]


def test_a_gap_in_a_window_over_the_whole_port():
    before, after = after_a_gap(joining(count(100), per_group=False), 1.0)
    everything = sorted(number for window in before.values() for number in window)
    assert sorted(number for window in after.values() for number in window) == everything[30:]  # 30 tuples/s


@pytest.mark.parametrize(
    "graph", [summing(time("100us"), count(1)), summing(count(1_000)), summing(time("100us"), time("10us"))]
)
def test_a_gap_leaves_other_windows_alone(graph):
    before, after = after_a_gap(graph, 100)
    assert before == after


def test_replay_leaves_every_window_alone():
    before, after = after_a_gap(joining(count(50)), 100, gap=False)
    assert before == after


@pytest.mark.parametrize("what", ["the folder", "manifests", "parts"])
def test_deleted_checkpoints_are_begun_anew_with_a_warning(tmp_path, what):
    """What comes after a deletion restores whole: no manifest builds on parts that are gone."""
    graph, storage, warnings = joining(count(50)), LocalStorage(tmp_path), []
    engine, writer = started(graph), checkpointer(storage, graph, warn=warnings.append)
    for j in range(12):
        engine.push("S1", rows_of(np.arange(60) % 3, 60 * j))
        writer.capture("all", engine, {}, j)
        if j == 5:
            if what == "the folder":
                shutil.rmtree(tmp_path)
            else:
                for path in tmp_path.rglob("*.manifest" if what == "manifests" else "*.part"):
                    path.unlink()
        if j not in (5, 6):
            again = Engine(graph)
            load(storage, "PE/0", "all", j).into(again)
            assert windows(again, "J") == windows(engine, "J")
    assert len(warnings) == 1
    assert "the checkpoints of all were deleted while the run was writing them" in warnings[0]
    assert writer.counts["all"].missed == 1
    assert len(files_in(storage, folder_of("PE/0", "all"), MANIFEST)) == 3
