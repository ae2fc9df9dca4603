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
from riprap.streams.stream_errors import Fenced

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
    units = {"slow": ["J"], "fast": ["J"]}
    return Checkpointer(storage, "P", 1, units, **{"background": False, **options}), started(joining(count(5)))


def test_what_is_durable_is_told_with_its_number_and_note():
    storage = Held()
    writer, engine = two_units(storage, background=True)
    writer.capture("fast", engine, {"in": 7}, 30 * MS, note="mine")
    assert writer.finished() == ()
    storage.gate.set()
    writer.close()
    (saved,) = writer.finished()
    assert (saved.unit, saved.epoch, saved.number) == ("fast", 1, 1)
    assert (saved.taken_at, saved.positions, saved.note) == (30 * MS, {"in": 7}, "mine")
    assert saved.bytes <= writer.counts["fast"].bytes
    assert writer.counts["fast"].taken == 1
    again, _ = two_units(storage)
    assert again.found() == {("fast", 1, 1): {"in": 7}}


def test_a_copy_that_is_not_written_is_forgotten():
    """The next one is whole: it cannot go on from what is not there."""
    storage, graph = MemoryStorage(), joining(count(50))
    engine, writer = started(graph), checkpointer(storage, graph)
    engine.push("S1", rows_of(np.arange(60) % 3, 0))
    writer.copy("all", engine, {}, 0)
    writer.forget("all")
    engine.push("S1", rows_of(np.arange(60) % 3, 60))
    writer.capture("all", engine, {}, 1)
    again = Engine(graph)
    load(storage, "PE/0", "all", 0).into(again)
    assert windows(again, "J") == windows(engine, "J")


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
        writer.finished()
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


def test_checkpoints_stay_until_somebody_says_that_they_may_go():
    graph, storage = joining(count(5)), MemoryStorage()
    writer, engine = checkpointer(storage, graph, keep=99), started(graph)
    for at in range(7):
        writer.capture("all", engine, {}, at)
    folder = folder_of("PE/0", "all")
    assert [file.number for file in files_in(storage, folder, MANIFEST)] == [1, 2, 3, 4, 5, 6, 7]
    writer.delete([("all", 1, number) for number in (1, 2, 4, 9)])
    assert [file.number for file in files_in(storage, folder, MANIFEST)] == [3, 5, 6, 7]
    later = checkpointer(storage, graph, 2, keep=99)
    later.delete([("all", 1, 3), ("all", 1, 7)])
    later.capture("all", engine, {}, 8)
    assert [(f.epoch, f.number) for f in files_in(storage, folder, MANIFEST)] == [(1, 5), (1, 6), (2, 1)]


def test_one_that_is_wanted_is_found_among_newer_ones():
    graph, storage = joining(count(5)), MemoryStorage()
    writer, engine = checkpointer(storage, graph, keep=99), started(graph)
    for at in range(3):
        writer.capture("all", engine, {"at": at}, at)
    assert load(storage, "PE/0", "all", 0, only=(1, 2)).positions == {"at": 1}
    assert load(storage, "PE/0", "all", 0, only=(1, 4)) is None


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


def test_a_key_that_took_in_nothing_keeps_its_rate_in_a_whole():
    """Group 1 takes 20 tuples in one second and none in the next, in which nearly all of the others are new."""
    graph = joining(count(50))
    storage, engine = MemoryStorage(), started(graph)
    writer = checkpointer(storage, graph)
    for second, groups in enumerate([np.arange(400) % 8, [1] * 20, np.arange(2, 402) % 6 + 2]):
        engine.push("S1", rows_of(np.array(groups), 1_000 * second))
        writer.capture("all", engine, {}, second * SECOND)
    again = Engine(graph)
    load(storage, "PE/0", "all", 2 * SECOND + SECOND // 2, gap=True).into(again)
    before, after = windows(engine, "J"), windows(again, "J")
    assert after[1] == before[1][10:]  # half a second at 20 tuples/s
    assert after[0] == before[0]


@pytest.mark.parametrize("grouped", [True, False])
def test_a_window_that_a_gap_has_emptied_has_nothing_to_say(grouped):
    """All of its tuples, the newest not given out yet, would have been pushed out."""
    graph = summing(count(3), time("1ms"), grouped=grouped)
    storage, engine = MemoryStorage(), started(graph)
    writer = checkpointer(storage, graph)
    for at in range(2):
        engine.push("S1", rows_of(np.zeros(6), 6 * at))
        writer.capture("all", engine, {}, at * SECOND)
    assert [output.event.num_rows for output in engine.end("S1")] == [1]
    again = Engine(graph)
    load(storage, "PE/0", "all", 9 * SECOND, gap=True).into(again)
    assert again.end("S1") == []


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
    assert "the checkpoints of all were deleted during the run" in warnings[0]
    assert writer.counts["all"].dropped == 1
    assert len(files_in(storage, folder_of("PE/0", "all"), MANIFEST)) == 3
