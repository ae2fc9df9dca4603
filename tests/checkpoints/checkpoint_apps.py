"""Engines to checkpoint: input as a list of steps, small apps, and what is in a window."""

import json
from functools import partial

import numpy as np
import pyarrow as pa

from riprap.checkpoints.checkpointer import Checkpointer
from riprap.checkpoints.storage import Storage
from riprap.engine.engine import Engine, Output
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.windows import Window, zero
from riprap.operators.user import Rows, UserOperator

Step = tuple[str, pa.RecordBatch | None]  # a source and a batch for it; None: its end
SECOND = 1_000_000


def take(engine: Engine, step: Step) -> list[Output]:
    name, batch = step
    return engine.end(name) if batch is None else engine.push(name, batch)


class Keeping(Checkpointer):
    """Deletes what is older than the newest `keep` checkpoints of a unit, as a director would have it."""

    def __init__(self, *arguments, keep: int = 3, **options) -> None:
        super().__init__(*arguments, **options)
        for unit in self._units.values():
            unit.writer.maintain = partial(self._delete_old, unit.writer, unit.writer.maintain, keep)

    @staticmethod
    def _delete_old(writer, look_after, keep, capture) -> int:
        writer.delete(sorted(writer._manifests)[:-keep])
        return look_after(capture)


def checkpointer(storage: Storage, graph: Graph, epoch: int = 1, **options) -> Checkpointer:
    """Of the whole graph, written at once."""
    units = {"all": [op.name for op in graph.operators]}
    return Keeping(storage, "PE/0", epoch, units, **{"background": False, **options})


class Total(UserOperator):
    """The running total of `i` per `k`."""

    one_per_trigger = True

    def __init__(self) -> None:
        self.totals: dict[str, int] = {}

    def output_schemas(self, inputs):
        return [pa.schema([("k", pa.string()), ("total", pa.int64())])]

    def process(self, port, batch):
        totals = []
        for key, i in zip(batch.column("k").to_pylist(), batch.column("i").to_pylist(), strict=True):
            self.totals[str(key)] = self.totals.get(str(key), 0) + i
            totals.append(self.totals[str(key)])
        keys = batch.column("k")
        keys = keys.dictionary_decode() if isinstance(keys, pa.DictionaryArray) else keys
        return [Rows(pa.record_batch({"k": keys, "total": pa.array(totals, pa.int64())}))]

    def save(self) -> bytes:
        return json.dumps(self.totals, sort_keys=True).encode()

    def load(self, saved: bytes) -> None:
        self.totals = json.loads(saved)


def joining(window: Window, *, per_group: bool = True) -> Graph:
    """S1 is kept in the window; S2 meets it."""
    app = App("join")
    right = app.source("S2", "g long, y long")
    joined = app.source("S1", "g long, x long").join(
        right, on="g", left_window=window, right_window=zero(), per_group=per_group, name="J"
    )
    joined.sink("Out")
    return app.build()


def summing(window: Window, every: Window | None = None, *, grouped: bool = True) -> Graph:
    app = App("sums")
    by = ("g",) if grouped else ()
    stream = app.source("S1", "g long, x long")
    stream.aggregate("sum(x) AS x", "count(*) AS n", window=window, every=every, by=by, name="A").sink("Out")
    return app.build()


def started(graph: Graph) -> Engine:
    """An engine whose S2, if there is one, has nothing to say, so that S1 need not wait for it."""
    engine = Engine(graph)
    for source in graph.sources:
        if source.name == "S2":
            engine.end("S2")
    return engine


def rows_of(groups: np.ndarray, first: int, step: int = 1) -> pa.RecordBatch:
    """Tuples numbered from `first`: `x`, `_seq` and (by `step` µs) `_ts`."""
    numbers = np.arange(first, first + len(groups))
    arrays = [pa.array(np.asarray(groups, np.int64)), pa.array(numbers)]
    arrays += [pa.array(numbers * step, pa.timestamp("us", "UTC")), pa.array(numbers)]
    return pa.RecordBatch.from_arrays(arrays, names=["g", "x", "_ts", "_seq"])


def windows(engine: Engine, name: str) -> dict[int, list[int]]:
    """The numbers in the window of each group."""
    store = engine.operators[name].stores[0]
    engine.operators[name].size()  # forgets what is too old
    column = "x" if "x" in store._columns else "_value0"
    groups = store.live()
    keys = engine.operators[name].groups.columns(groups)[0].to_pylist() if store.groups.types else [0]
    return {
        key: store.gather(column, store.positions(np.array([group]))).to_pylist()
        for key, group in zip(keys, groups.tolist(), strict=False)
    }
