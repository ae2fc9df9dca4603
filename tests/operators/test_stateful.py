"""User code with state per key: the contract, timers, ends of values, and what is refused."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from riprap.base.errors import DataError, GraphError
from riprap.engine.engine import Engine
from riprap.engine.inputs import keyed
from riprap.graph.builder import App
from riprap.graph.order_keys import OrderKey
from riprap.operators.build import make_operator
from riprap.operators.contract import Channel
from riprap.testing.checker import check_operator

SECOND = 1_000_000
SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("user", pa.string()), ("x", pa.float64())])


def input_of(seed, size=48, longest=4):
    chance = np.random.default_rng(seed)
    at = np.cumsum(chance.integers(0, longest * SECOND, size) * chance.integers(0, 2, size))
    users = [None if each == 3 else f"u{each}" for each in chance.integers(0, 4, size)]
    x = [None if each == 5 else float(each) for each in chance.integers(0, 6, size)]
    return pa.table([pa.array(at).cast(SCHEMA.field(0).type), users, pa.array(x, pa.float64())], schema=SCHEMA)


def graph_of(function, schema, **options):
    app = App("state")
    stream = app.source("In", SCHEMA, time="at").stateful(function, schema, by="user", name="S", **options)
    stream.sink("Out")
    return app.build()


def batch_of(graph, table):
    (batch,) = keyed(table.to_batches(), graph["In"])
    return batch


def ran(graph, table):
    rows = []
    for output in Engine(graph).run({"In": keyed(table.to_batches(), graph["In"])}):
        rows += output.event.to_pylist()
    return rows


def sessions(key, frames, state):
    """Sessions by timeout: a gap of 3 s ends one."""
    if state.hasTimedOut:
        first, last, count = state.get
        state.remove()
        yield pd.DataFrame({"user": [key[0]], "first": [first], "last": [last], "n": [count]})
        return
    first, last, count = state.getOption or (None, None, 0)
    for frame in frames:
        moments = [int(each.timestamp() * 1000) for each in frame["at"]]
        first, last, count = moments[0] if first is None else first, moments[-1], count + len(frame)
    state.update((first, last, count))
    state.setTimeoutTimestamp(last + 3000)


SESSIONS = "user string, first long, last long, n long"


class Recent:
    """Counts with a value, a list and a map, timers of its own, and values that end."""

    def __init__(self, ttl=None):
        self.ttl = ttl

    def init(self, handle):
        self.handle = handle
        self.count = handle.getValueState("count", "n long")
        self.seen = handle.getListState("seen", "x double", self.ttl)
        self.sums = handle.getMapState("sums", "x double", "n long", self.ttl)

    def handleInputRows(self, key, rows, timers):
        now = max(timers.getCurrentWatermarkInMs(), timers.getCurrentProcessingTimeInMs())
        for row in rows:
            (count,) = self.count.get() or (0,)
            self.count.update((count + 1,))
            if row.x is not None:
                self.seen.appendValue((row.x,))
                known = self.sums.getValue((row["x"],)) or (0,)
                self.sums.updateValue((row.x,), (known[0] + 1,))
                if row.x == 2:
                    self.sums.removeKey((1.0,))
            self.handle.registerTimer(now + 1500)
            if count % 3 == 2:
                self.handle.registerTimer(now - 5)  # has passed already
            if count % 5 == 4:
                self.handle.deleteTimer(now + 1500)
            yield (key[0], count, len(list(self.seen.get())), str(list(self.sums.iterator())))

    def handleExpiredTimer(self, key, timers, info):
        (count,) = self.count.get() or (0,)
        if count > 8:
            self.count.clear()
        yield (key[0], -1, info.getExpiryTimeInMs() % 1000, str(list(self.handle.listTimers())))


RECENT = "user string, n long, seen long, sums string"


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("function", "schema", "options"),
    [
        (sessions, SESSIONS, {"clock": "event", "delay": "2s"}),
        (Recent(), RECENT, {"style": "rows", "clock": "event", "delay": "1s"}),
        (Recent(4000), RECENT, {"style": "rows", "clock": "processing"}),
    ],
    ids=["group state", "processor", "ends"],
)
def test_it_keeps_the_contract_of_operators(function, schema, options, seed):
    graph = graph_of(function, schema, **options)
    batch = batch_of(graph, input_of(seed))
    assert make_operator(graph, "S").process(Channel(0), batch)[0].event.num_rows > 10
    check_operator(graph, "S", [batch], seed=seed, rounds=8)


def test_sessions_are_those_of_a_reference():
    table = input_of(11, 200)
    expected, open_ = [], {}
    rows = table.to_pylist()
    for row in rows:
        moment = int(row["at"].timestamp() * 1000)
        held = open_.get(row["user"])
        if held and moment - held[1] > 3000 + 2000:  # timeout and delay of the watermark
            expected.append((row["user"], *held))
            held = None
        open_[row["user"]] = (moment if held is None else held[0], moment, 1 if held is None else held[2] + 1)
    last = int(rows[-1]["at"].timestamp() * 1000)
    expected += [(user, *held) for user, held in open_.items() if last - held[1] > 5000]
    found = ran(graph_of(sessions, SESSIONS, clock="event", delay="2s"), table)
    assert len(expected) > 10
    shown = [tuple(row[name] for name in ("user", "first", "last", "n")) for row in found]
    assert sorted(expected, key=repr) == sorted(shown, key=repr)


def test_a_value_ends_when_its_time_to_live_is_over():
    class Last:
        def init(self, handle):
            self.last = handle.getValueState("last", "x double", 1000)

        def handleInputRows(self, key, rows, timers):
            for row in rows:
                yield (self.last.exists(),)
                self.last.update((row.x,))

    at = [0, 999_999, 1_999_000, 2_998_999]  # microseconds; the end is in whole milliseconds
    table = pa.table([pa.array(at).cast(SCHEMA.field(0).type), ["a"] * 4, [1.0] * 4], schema=SCHEMA)
    graph = graph_of(Last(), "there boolean", style="rows", clock="processing")
    assert [row["there"] for row in ran(graph, table)] == [False, True, False, True]
    operator = make_operator(graph, "S")
    operator.process(Channel(0), batch_of(graph, table))
    assert operator.size() == 1


class Longest:
    """The longest pause of each user, on frames."""

    def init(self, handle):
        self.last = handle.getValueState("last", "at long, pause long")

    def handleInputRows(self, key, rows, timers):
        for frame in rows:
            moment = int(frame["at"][0].timestamp())
            last, pause = self.last.get() or (moment, 0)
            self.last.update((moment, max(pause, moment - last)))
            yield pd.DataFrame({0: [key[0]], 1: [max(pause, moment - last)]})


def test_a_processor_on_frames_gets_one_row_at_a_time():
    table = input_of(7)
    expected, last = [], {}
    for row in table.to_pylist():
        moment = int(row["at"].timestamp())
        before, pause = last.get(row["user"], (moment, 0))
        last[row["user"]] = (moment, max(pause, moment - before))
        expected.append((row["user"], last[row["user"]][1]))
    found = ran(graph_of(Longest(), "user string, pause long", style="pandas"), table)
    assert [(row["user"], row["pause"]) for row in found] == expected


def test_late_rows_below_the_watermark_are_dropped():
    def seen(key, frames, state):
        yield pd.DataFrame({"n": [sum(len(frame) for frame in frames)], "watermark": [state.getCurrentWatermarkMs()]})

    graph = graph_of(seen, "n long, watermark long", clock="event", delay="5s")
    operator = make_operator(graph, "S")
    batch = batch_of(graph, input_of(3))
    times = batch.column("_ts").cast(pa.int64()).to_pylist()
    at = OrderKey(times[-1] + SECOND, 0, 10**6)
    (emission,) = operator.late(Channel(0), batch, at)
    kept = [each for each in times if each >= at.ts - 5 * SECOND]
    assert 0 < emission.event.num_rows == len(kept) < len(times)
    assert set(emission.event.column("watermark").to_pylist()) == {(at.ts - 5 * SECOND) // 1000}


def test_state_is_text_and_never_code():
    def keep(key, frames, state):
        state.update(({"a": [1, None]}, b"\x00", float("nan"), pd.Timestamp("2026-01-02"), np.int32(3), "ä"))
        return iter(())

    graph = graph_of(keep, "user string")
    operator = make_operator(graph, "S")
    operator.process(Channel(0), batch_of(graph, input_of(1)))
    text = operator.snapshot().tables["port0.rows"].column("_state")[0].as_py()
    assert text == (
        '{"timers":[],"variables":{"value":[[{"row":[{"map":[["a",{"list":[1,null]}]]},{"bytes":"AA=="},NaN,'
        '{"time":"2026-01-02T00:00:00"},3,"\\u00e4"]},null]]}}'
    )


def raising(key, frames, state):
    raise ValueError("no such user")


def misnamed(key, frames, state):
    yield pd.DataFrame({"who": [key[0]]})


def holding(key, frames, state):
    state.update((object(),))
    return iter(())


def impatient(key, frames, state):
    state.setTimeoutDuration(5)
    return iter(())


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (raising, "raising raised ValueError: no such user (.*test_stateful.py:"),
        (misnamed, "misnamed yielded a frame with who; it has to have user"),
        (holding, "state cannot have a object"),
        (impatient, "setTimeoutDuration needs the timeout ProcessingTimeTimeout"),
    ],
)
def test_errors_name_the_function(function, said):
    with pytest.raises(DataError, match=said.replace("(.*", r"\(.*")):
        ran(graph_of(function, "user string"), input_of(1))


@pytest.mark.parametrize(
    ("function", "options", "said"),
    [
        (Recent, {"style": "rows"}, "is a class; write it with"),
        (sessions, {"style": "pandas"}, "has no init"),
        (sessions, {"clock": "wall"}, "clock='wall' is unknown"),
        (Recent(), {}, "is not a function of key, frames and state"),
    ],
)
def test_what_cannot_be_called_is_refused(function, options, said):
    with pytest.raises(GraphError, match=said):
        graph_of(function, "user string", **options)
