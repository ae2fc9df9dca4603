"""Whatever is processed, captured and lost in whatever order: what is loaded goes on as if nothing had happened."""

from checkpoint_apps import SECOND, Total, checkpointer, take
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.graphs import SCHEMA, apps, collected, cut, inputs

from riprap.checkpoints.load import load
from riprap.checkpoints.storage import LocalStorage, MemoryStorage
from riprap.engine.engine import Engine
from riprap.graph.builder import App

ACTIONS = ["none", "capture", "capture", "kill", "crash"]


def user_app():
    app = App("user")
    for stream in app.source("S0", SCHEMA).apply(Total, name="T"):
        stream.sink("Out")
    return app.build()


def steps_of(given, sizes):
    """Pieces of all sources in turn, each followed by its end."""
    pieces = {name: [*((name, piece) for piece in cut(batch, sizes)), (name, None)] for name, batch in given.items()}
    steps = []
    while any(pieces.values()):
        for waiting in pieces.values():
            if waiting:
                steps.append(waiting.pop(0))
    return steps


def digests(engine):
    return {name: (d.keys.tolist(), d.digests.tolist()) for name, d in engine.digests().items()}


def check(graph, given, sizes, actions, storage, keep):
    steps = steps_of(given, sizes)
    golden, expected = Engine(graph), []
    for step in steps:
        expected.append((collected(graph, take(golden, step)), digests(golden)))
    epoch, at, saved_at = 1, 0, None
    engine, writer = Engine(graph), checkpointer(storage, graph, keep=keep)
    for turn in range(3 * len(steps)):
        if at == len(steps):
            break
        assert collected(graph, take(engine, steps[at])) == expected[at][0]
        assert digests(engine) == expected[at][1]
        at += 1
        action = actions[turn % len(actions)]
        if action == "capture":
            writer.capture("all", engine, {"at": at}, turn * SECOND)
            saved_at = at
        elif action in ("kill", "crash"):
            if action == "crash" and isinstance(storage, MemoryStorage):
                storage.crash()
            epoch, engine = epoch + 1, Engine(graph)
            loaded = load(storage, "PE/0", "all", turn * SECOND)
            assert (loaded.positions["at"] if loaded is not None else None) == saved_at
            at = 0
            if loaded is not None:
                assert loaded.warnings == ()
                loaded.into(engine)
                at = loaded.positions["at"]
                assert digests(engine) == expected[at - 1][1]
            writer = checkpointer(storage, graph, epoch, keep=keep)


cases = (
    st.data(),
    st.one_of(apps(), apps(kinds=["aggregate", "join", "sort", "barrier"]), st.builds(user_app)),
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=12),
    st.integers(1, 3),
)


@settings(max_examples=60)
@given(*cases)
def test_a_loaded_engine_goes_on_as_the_captured_one(data, graph, sizes, actions, keep):
    check(graph, data.draw(inputs(graph)), sizes, actions, MemoryStorage(), keep)


@settings(max_examples=8)
@given(*cases)
def test_the_same_on_disk(tmp_path_factory, data, graph, sizes, actions, keep):
    check(graph, data.draw(inputs(graph)), sizes, actions, LocalStorage(tmp_path_factory.mktemp("disk")), keep)
