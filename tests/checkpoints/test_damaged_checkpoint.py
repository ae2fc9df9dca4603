"""Any byte of any file may be wrong, any file may be missing: loading never fails, and loses no more than it must."""

import numpy as np
import pytest
from checkpoint_apps import SECOND, Total, checkpointer, joining, rows_of, started, summing, windows
from tests.engine.graphs import SCHEMA

from riprap.base.errors import DataError
from riprap.checkpoints.load import load
from riprap.checkpoints.manifest import decode
from riprap.checkpoints.names import MANIFEST, PART, files_in, folder_of
from riprap.checkpoints.parts import FROM, ROWS, decode_part
from riprap.checkpoints.storage import MemoryStorage
from riprap.engine.engine import Engine
from riprap.graph.builder import App
from riprap.graph.windows import count

FOLDER = folder_of("PE/0", "all")


def checkpointed(graph, checkpoints=4, keep=3):
    """Groups 0 and 1 in turn; and what was in the windows at each checkpoint."""
    storage, engine, contents = MemoryStorage(), started(graph), []
    writer = checkpointer(storage, graph, keep=keep)
    for number in range(checkpoints):
        engine.push("S1", rows_of(np.arange(6) % 2, 6 * number))
        writer.capture("all", engine, {"number": number}, number * SECOND)
        contents.append(windows(engine, graph.order[-2]))
    return storage, contents


def manifests(storage):
    return [f"{FOLDER}/{file.name}" for file in files_in(storage, FOLDER, MANIFEST)]


def damaged(data: bytes):
    """The bytes with each one changed in turn, cut at several places, longer, and none."""
    for at in range(len(data)):
        yield data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :]
    for at in range(0, len(data), 13):
        yield data[:at]
    yield data + b"\0"
    yield None


def put(storage, name, data):
    if data is None:
        storage.files.pop(name, None)
    else:
        storage.files[name] = data


@pytest.mark.parametrize("gap", [False, True])
def test_a_damaged_manifest_is_passed_over(gap):
    storage, _ = checkpointed(joining(count(10)))
    newest = manifests(storage)[-1]
    sound = storage.files[newest]
    for data in damaged(sound):
        put(storage, newest, data)
        loaded = load(storage, "PE/0", "all", 0, gap=gap)
        assert loaded.positions == {"number": 2}
        assert any("damaged" in text for text in loaded.warnings) == (data is not None)
    for name in manifests(storage):
        put(storage, name, b"")
    heard = []
    assert load(storage, "PE/0", "all", 0, gap=gap, warn=heard.append) is None
    assert "fresh state" in heard[-1]


def test_nothing_there_is_no_damage():
    heard = []
    assert load(MemoryStorage(), "PE/0", "all", 0, warn=heard.append) is None
    assert heard == []


@pytest.mark.parametrize("graph", [joining(count(10)), summing(count(20), count(1), grouped=False)])
def test_a_damaged_part_costs_its_own_tuples(graph):
    storage, contents = checkpointed(graph)
    name = graph.order[-2]
    parts = decode(storage.files[manifests(storage)[-1]]).parts()
    assert len(parts) >= 3
    for part in parts:
        file = f"{FOLDER}/{part.name}"
        sound = storage.files[file]
        lost = set(decode_part(sound).rows.column(0).to_pylist())
        for data in damaged(sound) if part == parts[-1] else [sound[:-1], b"", None]:
            put(storage, file, data)
            loaded = load(storage, "PE/0", "all", 3 * SECOND, gap=True)
            assert loaded.positions == {"number": 3}
            assert [part.name in text for text in loaded.warnings] == [True]
        engine = Engine(graph)
        loaded.into(engine)
        for key, numbers in contents[-1].items():
            left = [number for number in numbers if number not in lost]
            found = windows(engine, name).get(key, [])
            assert [number for number in found if number in numbers] == left
            # Where the newest entry of a key is lost, so is that its window went on: it is an older one.
            assert all(number in contents[-2][key] for number in found if number not in numbers)
        put(storage, file, sound)


def test_replay_takes_an_older_checkpoint_that_is_whole():
    storage, contents = checkpointed(joining(count(10)))
    newest = {part.name for part in decode(storage.files[manifests(storage)[-1]]).parts()}
    before = {part.name for part in decode(storage.files[manifests(storage)[-2]]).parts()}
    (only,) = newest - before
    put(storage, f"{FOLDER}/{only}", b"")
    loaded = load(storage, "PE/0", "all", 0)
    assert loaded.positions == {"number": 2}
    assert len(loaded.warnings) == 1
    engine = Engine(joining(count(10)))
    loaded.into(engine)
    assert windows(engine, "J") == contents[-2]
    for name in newest | before:  # then none is whole
        put(storage, f"{FOLDER}/{name}", None)
    assert load(storage, "PE/0", "all", 0).positions == {"number": 3}


def test_the_beginning_is_better_than_a_hole_while_it_can_be_had():
    storage, _ = checkpointed(joining(count(10)), checkpoints=2)
    for file in files_in(storage, FOLDER, PART):
        put(storage, f"{FOLDER}/{file.name}", None)
    heard = []
    assert load(storage, "PE/0", "all", 0, spare=3, holes=False, warn=heard.append) is None
    assert "fresh state" in heard[-1]
    assert load(storage, "PE/0", "all", 0, spare=2).positions == {"number": 1}, "with its holes: older ones are gone"
    with pytest.raises(DataError, match="PE/0 cannot be restored exactly"):
        load(storage, "PE/0", "all", 0, spare=2, holes=False)


def test_a_damaged_whole_is_replaced_by_an_older_one():
    app = App("user")
    for stream in app.source("S0", SCHEMA).apply(Total, name="T"):
        stream.sink("Out")
    graph, storage, engine = app.build(), MemoryStorage(), Engine(app.build())
    writer = checkpointer(storage, graph)
    for number in range(2):
        engine.operators["T"].user.totals["a"] = number
        writer.capture("all", engine, {}, number)
    (part,) = decode(storage.files[manifests(storage)[-1]]).parts()
    for data in damaged(storage.files[f"{FOLDER}/{part.name}"]):
        put(storage, f"{FOLDER}/{part.name}", data)
        for gap in (False, True):
            loaded = load(storage, "PE/0", "all", 0, gap=gap)
            assert loaded.states["T"].blob == b'{"a": 0}'
            assert part.name in loaded.warnings[0]


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_a_whole_that_stays_as_it_was_is_not_in_one_file_alone(keep):
    """An operator that gets nothing for a while: checkpoints of it that were all the same file would all go with it."""
    app = App("user")
    for stream in app.source("S0", SCHEMA).apply(Total, name="T"):
        stream.sink("Out")
    graph, storage, engine = app.build(), MemoryStorage(), Engine(app.build())
    writer = checkpointer(storage, graph, keep=keep)
    engine.operators["T"].user.totals["a"] = 7
    written = []
    for number in range(6):
        writer.capture("all", engine, {}, number)
        written.append(writer.counts["all"].bytes)
        names = [f"{FOLDER}/{file.name}" for file in files_in(storage, FOLDER, PART)]
        there = {name: storage.files[name] for name in names}
        assert len(there) <= 2
        for name, data in there.items():
            put(storage, name, data[:-1])
            usable = load(storage, "PE/0", "all", 0, spare=7, holes=False) is not None
            assert usable is (keep > 1 and number > 1)  # before, the beginning serves
            put(storage, name, data)
    assert np.ptp(np.diff(written)[-3:]) <= 2, "manifests alone: two copies are enough"


def test_a_closed_up_window_goes_on_sliding():
    graph = joining(count(10))
    storage, _ = checkpointed(graph)
    parts = decode(storage.files[manifests(storage)[-1]]).parts()
    middle = next(p for p in parts if decode_part(storage.files[f"{FOLDER}/{p.name}"]).column(FROM).tolist() == [3, 3])
    assert decode_part(storage.files[f"{FOLDER}/{middle.name}"]).column(ROWS).tolist() == [3, 3]
    put(storage, f"{FOLDER}/{middle.name}", None)
    engine = Engine(graph)
    load(storage, "PE/0", "all", 3 * SECOND, gap=True).into(engine)
    found = windows(engine, "J")
    assert found == {0: [4, 12, 14, 16, 18, 20, 22], 1: [5, 13, 15, 17, 19, 21, 23]}
    engine.push("S1", rows_of(np.arange(12) % 2, 24))
    assert windows(engine, "J")[0] == [14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34][-10:]


@pytest.mark.parametrize("at", range(2, 14))
def test_damage_that_merging_meets_is_written_anew_and_not_over(at):
    """Parts are read to be merged. Whatever is loaded is what was there when it was taken, or says what it lacks."""
    graph, warnings = joining(count(40)), []
    storage, engine, contents = MemoryStorage(), started(graph), []
    writer = checkpointer(storage, graph, warn=warnings.append)
    for number in range(24):
        engine.push("S1", rows_of(np.arange(2), 2 * number))
        writer.capture("all", engine, {"number": number}, number * SECOND)
        contents.append(windows(engine, "J"))
        if number == at:
            newest = f"{FOLDER}/{files_in(storage, FOLDER, PART)[-1].name}"
            put(storage, newest, storage.files[newest][:-1])
        loaded = load(storage, "PE/0", "all", number * SECOND)
        if loaded is not None:
            again = Engine(graph)
            loaded.into(again)
            whole = windows(again, "J") == contents[loaded.positions["number"]]
            assert whole or any("its tuples are lost" in text for text in loaded.warnings)
    if at in (2, 3, 4, 6, 8):  # the others are not merged until then
        assert any("the next one is a full one" in text for text in warnings)
        assert loaded.positions == {"number": 23}
        assert whole
