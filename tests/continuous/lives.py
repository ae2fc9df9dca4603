"""One operator with records, its input as a list of items, and its crashes: the pure core with nothing around it."""

from random import Random

import numpy as np
import pyarrow as pa

from riprap.engine.engine import Engine
from riprap.graph.builder import App
from riprap.graph.order_keys import OrderKey
from riprap.graph.windows import count, time, zero
from riprap.operators.build import make_operator
from riprap.operators.contract import Channel, Punctuation
from riprap.records.check_schedule import CheckPace
from riprap.records.record import decode, encode
from riprap.records.recorder import Recorder
from riprap.records.recovery import recover

SCHEMA = pa.schema([("k", pa.string()), ("x", pa.int64())])
TS = pa.timestamp("us", "UTC")


def any_graph(random: Random, *, looped: bool = False):
    app = App("windows")
    stream = app.source("S", SCHEMA)
    kind = random.choice(["tumbling", "tumbling", "sliding", "sliding", *(() if looped else ("join",))])
    if looped and random.random() < 0.5:
        stream = stream.filter("x > -10", name="All")
    if kind == "join":
        other = app.source("R", SCHEMA).rename({"x": "y"}, name="Renamed")
        windows = [random.choice([count(1), count(3), count(20), time("40us"), time("500us")]) for _ in range(2)]
        zeroed = random.choice([None, None, 0, 1])
        if zeroed is not None:
            windows[zeroed] = zero()
        stream.join(
            other, on="k", left_window=windows[0], right_window=windows[1], per_group=random.random() < 0.6, name="Op"
        ).sink("Sink")
        return app.build()
    window = random.choice([count(1), count(2), count(5), count(40), time("30us"), time("400us")])
    every = None if kind == "tumbling" else random.choice([count(1), count(3), count(7), time("20us"), time("30us")])
    by = random.choice(["k", "k", ()])
    calls = ["sum(x) AS total", "count(*) AS n"]
    stream.aggregate(*calls, window=window, every=every, by=by, name="Op").sink("Sink")
    return app.build()


def any_items(random: Random, ports: int, most: int = 220) -> list[tuple]:
    """(port, key, k, x) for rows, (port, key) for punctuations, (key,) for progress; keys rise, times tie."""
    items: list[tuple] = []
    ts, words = 0, [None, *"abcdefgh"][: random.choice([2, 3, 9])]
    for seq in range(random.randint(0, most)):
        ts += random.choice([0, 0, 1, 3, 10]) if random.random() < 0.98 else 300
        for port in sorted(random.sample(range(ports), random.choice([1, ports]))):
            key = OrderKey(ts, port, seq, 0)
            items.append((port, key, random.choice(words), random.randint(-5, 5)))
            if random.random() < 0.03:
                items.append((port, key))
        if random.random() < 0.05:
            items.append((OrderKey(ts + random.choice([0, 0, 40]), ports, seq, 0),))
            ts = items[-1][0].ts
    return items


def batch(items: list[tuple], port: int) -> pa.RecordBatch:
    rows = [item for item in items if item[0] == port]
    name = "y" if port else "x"
    columns = {
        "k": pa.array([row[2] for row in rows], pa.string()),
        name: pa.array([row[3] for row in rows], pa.int64()),
        "_ts": pa.array([row[1].ts for row in rows], TS),
        "_seq": pa.array([row[1].seq for row in rows], pa.int64()),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def taken(emissions) -> list:
    out = []
    for emission in emissions:
        if isinstance(emission.event, Punctuation):
            out.append(tuple(emission.event.key))
        else:
            out += [tuple(row.values()) for row in emission.event.to_pylist()]
    return out


def content(operator):
    """The state, bit by bit."""
    state = operator.snapshot()
    return dict(state.scalars), {name: table.to_pydict() for name, table in state.tables.items()}


class Life:
    """Calls an operator with items from a place on, in pieces of its own. `looped`: as part of one loop with its source
    and a filter that lets everything pass."""

    def __init__(self, graph, items, random: Random, at: int = 0, *, looped: bool = False) -> None:
        self._engine = Engine(graph, [n for n in graph.order if n != "Sink"], recorded="Op") if looped else None
        self.operator = self._engine.operators["Op"] if self._engine is not None else make_operator(graph, "Op")
        self.items, self.at, self._random, self.looped = items, at, random, looped
        self.ports = len(self.operator.setting.schemas)
        if self._engine is not None:
            assert self._engine.running[0].names[-1] == "Op", "it is to be part of the loop"

    def step(self, most: int | None = None) -> list:
        """The next call, over a piece of the items; gives what comes out."""
        item, engine = self.items[self.at], self._engine
        if len(item) == 1:
            self.at += 1
            return taken(engine.advance("S", item[0]) if engine is not None else self.operator.watermark(item[0]))
        if len(item) == 2:
            self.at += 1
            if engine is not None:
                return taken(engine.push("S", Punctuation(item[1])))
            return taken(self.operator.punctuate(Channel(item[0]), Punctuation(item[1])))
        stop = self.at + 1
        limit = min(self.at + self._random.choice([1, 2, 7, 30]), len(self.items) if most is None else most)
        while stop < limit and len(self.items[stop]) == 4:
            stop += 1
        piece = self.items[self.at : stop]
        self.at = stop
        batches = [batch(piece, port) for port in range(self.ports)]
        if engine is not None:
            return taken(engine.push("S", batches[0]))
        if self.ports == 1:
            return taken(self.operator.process(Channel(0), batches[0]))
        return taken(self.operator.process_merged(batches, np.array([item[0] for item in piece], np.int8)))


class Written:
    """What a life has written: outputs and records, in appends that are there whole or not at all."""

    def __init__(self) -> None:
        self.outputs: list[list] = []
        self.records: list[bytes] = []
        self.states: list = []  # of the operator at each record
        self.oldest: list[int] = []  # frame that each record needs

    def cut(self, appends: int) -> None:
        for each in (self.outputs, self.records, self.states, self.oldest):
            del each[appends:]


def go_on(life: Life, recorder: Recorder, written: Written, random: Random, until: int, pending: list) -> None:
    """Until an item; some appends are several calls together, and some press on old windows."""
    while life.at < until:
        pending += life.step()
        if random.random() < 0.7:
            append(life, recorder, written, random, pending)
            pending = []
    append(life, recorder, written, random, pending)


def append(life: Life, recorder: Recorder, written: Written, random: Random, outputs: list) -> None:
    press = random.randint(0, recorder.frame) if random.random() < 0.1 else 0
    record = recorder.record(OrderKey(0, 0, 0, 0), {"item": life.at}, press=press)
    written.outputs.append(outputs)
    written.records.append(encode(record))
    written.states.append(content(life.operator))
    written.oldest.append(recorder.oldest)


def come_back(graph, items, written: Written, random: Random, pace: CheckPace, *, whole: bool, looped: bool = False):
    """A fresh operator from the records that are there, trimmed as far as the last of them allows, at the newest cut.

    `whole`: it takes its input in pieces that do not respect the cut; what comes out behind it is given too.
    """
    oldest = written.oldest[-1] if written.records else 0
    records = written.records[max(oldest - 1, 0) if random.random() < 0.7 else 0 :]
    recovery = recover(reversed(records))
    life = Life(graph, items, random, looped=looped)
    if recovery is None:
        life.operator.track()
        return life, None, Recorder(life.operator, pace), []
    coming = recovery.into(life.operator, pace)
    life.at = recovery.unsaved.numbers["item"]
    outputs: list = []
    while coming.recorder is None:
        outputs = life.step(None if whole else recovery.cut.numbers["item"])
        assert coming.recorder is not None or not outputs
    return life, recovery, coming.recorder, outputs


def any_pace(random: Random) -> CheckPace:
    return CheckPace(random.choice([1, 20, 200]), random.choice([0, 10, 100]), random.choice([1, 3, 1000]))


def totals(data: bytes):
    return decode(data).totals
