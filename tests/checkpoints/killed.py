"""Run by test_kill.py: processes and checkpoints as fast as it can, and prints what is durable. Is killed."""

import sys

import numpy as np
from checkpoint_apps import checkpointer, joining, rows_of

from riprap.base.randomness import generator
from riprap.checkpoints.load import load
from riprap.checkpoints.storage import LocalStorage
from riprap.engine.engine import Engine
from riprap.graph.graph import Graph
from riprap.graph.windows import count

GROUPS, ROWS = 40, 300


def graph() -> Graph:
    return joining(count(64))


def groups_of(number: int) -> np.ndarray:
    """The keys of step `number`: skewed."""
    return (GROUPS * generator(1, number).random(ROWS) ** 3).astype(np.int64)


def main() -> None:
    storage, epoch = LocalStorage(sys.argv[1]), int(sys.argv[2])
    engine = Engine(graph())
    engine.end("S2")
    writer = checkpointer(storage, graph(), epoch, background=True)
    loaded = load(storage, "PE/0", "all", 0)
    if loaded is not None:
        loaded.into(engine)
    at = loaded.positions["at"] if loaded is not None else 0
    while True:
        engine.push("S1", rows_of(groups_of(at), at * ROWS))
        at += 1
        writer.capture("all", engine, {"at": at}, at)
        for saved in writer.finished():
            print(saved.positions["at"], flush=True)


if __name__ == "__main__":
    main()
