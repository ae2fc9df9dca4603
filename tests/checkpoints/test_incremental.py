"""A checkpoint of windows costs what is new, under skewed keys too, and leaves few parts."""

import numpy as np
import pytest
from checkpoint_apps import SECOND, checkpointer, joining, rows_of, started, summing, windows
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.base.randomness import generator
from riprap.checkpoints.load import load
from riprap.checkpoints.manifest import decode
from riprap.checkpoints.names import MANIFEST, PART, files_in, folder_of
from riprap.checkpoints.parts import ROWS, decode_part
from riprap.checkpoints.storage import MemoryStorage
from riprap.engine.engine import Engine
from riprap.graph.windows import count, time

FOLDER = folder_of("PE/0", "all")


class Recorder(MemoryStorage):
    """Counts the rows of parts that are written."""

    def __init__(self):
        super().__init__()
        self.rows = 0

    def write(self, name, data):
        if name.endswith(".part"):
            self.rows += decode_part(data).rows.num_rows
        super().write(name, data)


def zipf(rng, keys, exponent, size):
    chances = np.arange(1, keys + 1) ** -float(exponent)
    return rng.choice(keys, size, p=chances / chances.sum())


def newest(storage):
    return decode(storage.read(f"{FOLDER}/{files_in(storage, FOLDER, MANIFEST)[-1].name}"))


def run(graph, name, draw, checkpoints, per_checkpoint, each=lambda *_: None):
    storage, engine = Recorder(), started(graph)
    writer = checkpointer(storage, graph, keep=1)
    at, costs = 0, []
    for number in range(checkpoints):
        engine.push("S1", rows_of(draw(per_checkpoint), at))
        at += per_checkpoint
        before = storage.rows
        writer.capture("all", engine, {}, number * SECOND)
        costs.append(storage.rows - before)
        each(number, storage, engine)
    return storage, engine, costs


def restored(storage, graph):
    engine = Engine(graph)
    load(storage, "PE/0", "all", 0).into(engine)
    return engine


CASES = {
    "one window": (lambda: joining(count(8_192), per_group=False), "J", 1, 0),
    "uniform groups": (lambda: joining(count(1_024)), "J", 50, 0),
    "zipf groups": (lambda: joining(count(1_024)), "J", 50, 1.5),
    "many zipf groups": (lambda: summing(count(64), count(1)), "A", 2_000, 1.1),
    "zipf, time": (lambda: summing(time("20ms"), count(1)), "A", 500, 1.5),
}


@pytest.mark.parametrize("case", CASES)
def test_cost_follows_new_tuples_and_parts_stay_few(case):
    make, name, keys, skew = CASES[case]
    graph, rng = make(), generator(5, case)
    new, most_parts = 512, 0

    def check(number, storage, engine):
        nonlocal most_parts
        most_parts = max(most_parts, len(files_in(storage, FOLDER, PART)))
        if number % 40 == 39:
            assert windows(restored(storage, graph), name) == windows(engine, name)

    storage, engine, costs = run(graph, name, lambda size: zipf(rng, keys, skew, size), 280, new, check)
    held = sum(map(len, windows(engine, name).values()))
    assert held > 4 * new  # otherwise there would be nothing to show
    checkpoints_of_window = max(4, 8_192 / new)
    assert sum(costs) / (len(costs) * new) <= 1 + np.log2(checkpoints_of_window) / 2 + 1
    assert most_parts <= 60
    # Rows on disk that are in no window any more are a constant share of those that are.
    on_disk = sum(decode_part(data).rows.num_rows for file, data in storage.files.items() if file.endswith(".part"))
    assert on_disk <= 4 * held


def test_an_idle_unit_writes_no_part():
    storage, engine, _ = run(joining(count(100)), "J", lambda size: np.arange(size) % 5, 3, 50)
    rows = storage.rows
    writer = checkpointer(storage, joining(count(100)), 2)
    writer.capture("all", engine, {}, 0)  # an attempt begins with everything
    assert storage.rows - rows == 150
    parts = set(files_in(storage, FOLDER, PART))
    writer.capture("all", engine, {}, SECOND)
    assert set(files_in(storage, FOLDER, PART)) == parts


def test_unchanged_keys_are_not_written_again():
    written = []

    class Watching(MemoryStorage):
        def write(self, name, data):
            if name.endswith(".part"):
                written.append(decode_part(data))
            super().write(name, data)

    graph, storage = joining(count(1_000)), Watching()
    engine, writer = started(graph), checkpointer(storage, graph)
    engine.push("S1", rows_of(np.arange(3_000) % 30, 0))
    writer.capture("all", engine, {}, 0)
    written.clear()
    engine.push("S1", rows_of(np.array([3, 3, 7]), 3_000))
    writer.capture("all", engine, {}, SECOND)
    assert sum(part.entries.num_rows for part in written) == 2
    assert sum(int(part.column(ROWS).sum()) for part in written) == 3


def test_what_is_nearly_all_new_is_one_part():
    """Windows of five tuples, most of which slide over between two checkpoints."""
    parts, sizes = [], []

    def each(number, storage, engine):
        parts.append(newest(storage).parts())
        sizes.append(sum(map(len, windows(engine, "A").values())))
        assert windows(restored(storage, graph), "A") == windows(engine, "A")

    graph, rng = summing(count(5), count(1)), generator(5, "turned over")
    _, _, costs = run(graph, "A", lambda size: zipf(rng, 200, 0.5, size), 12, 4_000, each)
    assert [len(p) for p in parts] == [1] * 12
    assert costs == sizes  # what is in the windows, once
    draws = iter([*[np.arange(1_000) % 200] * 3, np.zeros(100), np.arange(1_000) % 200])
    _, _, costs = run(graph, "A", lambda size: next(draws)[:size], 5, 1_000)
    assert costs == [1_000, 1_000, 1_000, 5, 1_000]


def test_a_part_dies_when_its_rows_have_slid_out():
    parts = []
    run(joining(count(100)), "J", lambda size: np.zeros(size), 30, 50, lambda n, s, e: parts.append(newest(s).parts()))
    assert all(len(p) <= 3 for p in parts)
    assert not set(parts[3]) & set(parts[-1])


def test_what_was_captured_does_not_change_with_later_tuples():
    engine = started(joining(count(64)))
    operator = engine.operators["J"]
    engine.push("S1", rows_of(np.arange(200) % 7, 0))
    whole = operator.snapshot()
    engine.push("S1", rows_of(np.arange(50) % 7, 200))
    changes = operator.delta(whole.version)
    copies = [{n: t.to_pydict() for n, t in state.tables.items()} for state in (whole, changes)]
    for j in range(20):
        engine.push("S1", rows_of(np.arange(100) % 7, 250 + 100 * j))
    assert [{n: t.to_pydict() for n, t in state.tables.items()} for state in (whole, changes)] == copies


@settings(max_examples=30)
@given(st.data())
def test_windows_of_every_pace_come_back(data):
    """Few keys, whose rates change all the time: parts merge, age, thin and die in every order."""
    kind = data.draw(st.sampled_from(["count", "time", "period", "emptied", "tumbling", "port"]))
    graph, name = {
        "count": lambda: (summing(count(40), count(1)), "A"),
        "time": lambda: (summing(time("150us"), count(1)), "A"),
        "period": lambda: (summing(count(16), count(5)), "A"),
        "emptied": lambda: (summing(time("20us"), count(5)), "A"),
        "tumbling": lambda: (summing(count(16)), "A"),
        "port": lambda: (joining(count(90), per_group=False), "J"),
    }[kind]()
    storage, engine = MemoryStorage(), started(graph)
    writer = checkpointer(storage, graph, keep=data.draw(st.integers(1, 3)))
    at = 0
    for number in range(data.draw(st.integers(1, 60))):
        key = data.draw(st.integers(0, 7))
        size = data.draw(st.sampled_from([0, 1, 1, 2, 3, 30]))
        engine.push("S1", rows_of(np.full(size, key), at))
        at += size
        writer.capture("all", engine, {}, number * SECOND)
        if data.draw(st.integers(0, 3)):
            continue
        again = restored(storage, graph)
        assert windows(again, name) == windows(engine, name)
        first, second = engine.digests()[name], again.digests()[name]
        assert first.keys.tolist() == second.keys.tolist()
        assert first.digests.tolist() == second.digests.tolist()
