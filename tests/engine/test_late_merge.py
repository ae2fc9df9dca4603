"""What comes late passes a merge at its place, whatever the order in which ports and batches come; and windows of time
that are closed stay so.
"""

import itertools
from random import Random

import pyarrow as pa
import pytest
from tests.simulation.schedules import batches

from riprap.checkpoints.waiting import decode_waiting, encode_waiting
from riprap.engine.engine import Engine
from riprap.engine.merger import Behind, Merger, PortPunctuation
from riprap.graph.builder import App
from riprap.graph.order_keys import END_KEY, START_KEY, OrderKey, just_after, source_shape
from riprap.graph.windows import count, session_window, time, zero
from riprap.operators.contract import Late, Punctuation

SCHEMA = pa.schema([("id", pa.int64()), ("_ts", pa.timestamp("us", "UTC")), ("_seq", pa.int64())])


def rows(*times, first=0):
    """With ids and numbers from `first` on."""
    numbers = list(range(first, first + len(times)))
    return pa.RecordBatch.from_arrays(
        [pa.array(numbers), pa.array(times, SCHEMA[1].type), pa.array(numbers)], schema=SCHEMA
    )


# The merge ------------------------------------------------------------------------------------------------------------


def history(random: Random, rank: int, times: list[int]) -> list:
    """What one port brings of a source: batches, punctuations, late rows and progress, as a producer may."""
    found, number, told, before = [], 0, START_KEY, ""
    for _ in range(random.randint(1, 8)):
        kind = random.choice(["rows", "rows", "mark", "late", "progress"])
        if kind == "rows":
            number += random.choice([0, 0, 1, 3])  # others went another way
            some = times[number : number + random.randint(1, 4)]
            found.append(rows(*some, first=number))
            number += len(some)
            told = OrderKey(some[-1], rank, number - 1)
        elif kind == "mark" and before == "rows":
            found.append(Punctuation(told))
        elif kind == "late":
            found.append(Late(rows(random.randint(0, times[number]), first=1_000 + len(found)), just_after(told)))
        elif kind == "progress":
            other = OrderKey(times[number] - random.choice([0, 0, 1]), rank - 1, 0)
            quiet = OrderKey(times[number] - 1, rank, END_KEY.seq, END_KEY.n)  # as a source says that waits for rows
            told = max(told, random.choice([other, quiet]))
            found.append(told)
        before = kind
    return [*found, END_KEY]


def released(merger: Merger) -> list:
    out = []
    for item in merger.release():
        if isinstance(item, Behind):
            out.append(("late", item.port, item.late.at, item.late.event.column("id").to_pylist()))
        elif isinstance(item, PortPunctuation):
            out.append(("mark", item.port, item.punctuation.key))
        else:
            ids = [iter(batch.column("id").to_pylist()) for batch in item.batches]
            out += [("row", int(port), next(ids[port])) for port in item.ports]
    return out


@pytest.mark.parametrize("seeds", batches(300, 100), ids=str)
def test_the_order_is_the_same_however_ports_take_turns(seeds):
    for seed in seeds:
        random = Random(seed)
        one_source = random.random() < 0.3
        shapes = tuple(source_shape(0 if one_source else port) for port in range(2))
        times = [list(itertools.accumulate(random.choices([0, 1, 5], k=100))) for _ in range(2)]
        histories = [history(random, 0 if one_source else port, times[0 if one_source else port]) for port in range(2)]
        outcomes = []
        for _ in range(3):
            merger, out = Merger(shapes, (SCHEMA, SCHEMA), ("a", "b"), None), []
            left = [list(each) for each in histories]
            while any(left):
                port = random.choice([port for port in range(2) if left[port]])
                event = left[port].pop(0)
                if isinstance(event, OrderKey):
                    merger.advance(port, event)
                else:
                    merger.put(port, event)
                if random.random() < 0.7:
                    out += released(merger)
                if random.random() < 0.2:  # a checkpoint, and back from it
                    state = decode_waiting(encode_waiting(merger.snapshot()))
                    merger.restore(state)
            outcomes.append(out + released(merger))
        assert outcomes[0] == outcomes[1] == outcomes[2], f"seed {seed}"
        for port, events in enumerate(histories):  # nothing is missing, and each port's order is kept
            mine = [one[2:] for one in outcomes[0] if one[1] == port]
            wanted = []
            for event in events:
                if isinstance(event, Late):
                    wanted.append((event.at, event.event.column("id").to_pylist()))
                elif isinstance(event, Punctuation):
                    wanted.append((event.key,))
                elif not isinstance(event, OrderKey):
                    wanted += [(id_,) for id_ in event.column("id").to_pylist()]
            assert mine == wanted, f"seed {seed}, port {port}"


# Windows --------------------------------------------------------------------------------------------------------------


def given(build, *events) -> list:
    """What an operator gives out for rows, late rows (`Late`) and progress; late ones are marked."""
    alone, compiled = (played(build, events, cut_everywhere=alone) for alone in (True, False))
    assert alone == compiled
    return alone


def played(build, events, *, cut_everywhere) -> list:
    app = App("late")
    build(app.source("S", "id long").filter("id >= 0", name="F").filter("true", name="G")).sink("Sink")
    graph = app.build()
    engine = Engine(graph, ["G", "A", "Sink"], cut_everywhere=cut_everywhere)
    found = []
    for event in events:
        outputs = engine.advance("F→G", event) if isinstance(event, OrderKey) else engine.push("F→G", event)
        for _, out in outputs:
            late = isinstance(out, Late)
            batch = out.event if late else out
            if not isinstance(batch, Punctuation):
                found += [(late, *row.values()) for row in batch.select(["n"]).to_pylist()]
    return found


def counted(window, every=None):
    return lambda stream: stream.aggregate("count(*) AS n", window=window, every=every, name="A")


def at(ts):
    return OrderKey(ts, 0, ts)


def test_a_tumbling_window_that_is_open_takes_what_is_late_and_one_that_is_closed_does_not():
    window = counted(time("10us"))
    before = [rows(1, 2, 12), at(13)]  # [0, 10) is closed with two tuples
    assert given(window, *before, END_KEY) == [(False, 2), (False, 1)]
    assert given(window, *before, Late(rows(5), at(13)), END_KEY) == [(False, 2), (False, 1)]
    assert given(window, *before, Late(rows(5, 11, 12), at(13)), END_KEY) == [(False, 2), (False, 3)]
    assert given(window, at(13), Late(rows(5, 11), at(13)), END_KEY) == [(False, 1)]  # the first tuples of all


def test_a_sliding_window_takes_what_belongs_to_it():
    window = counted(time("20us"), time("10us"))
    before = [rows(1, 12), at(13)]  # [-10, 10) is closed; [0, 20) and [10, 30) are open
    assert given(window, *before, END_KEY) == [(False, 1), (False, 2), (False, 1)]
    assert given(window, *before, Late(rows(5), at(13)), END_KEY)[:2] == [(False, 1), (False, 3)]
    old = [rows(1, 25), at(26)]  # [0, 20) is closed too
    assert given(window, *old, Late(rows(5), at(26)), END_KEY) == given(window, *old, END_KEY)


def test_a_window_of_a_count_takes_all_and_says_so_at_their_keys():
    assert given(counted(count(2), count(1)), rows(10, 11), Late(rows(3), at(11)), rows(12)) == [
        (False, 1), (False, 2), (True, 2), (False, 2),
    ]  # fmt: skip


def test_a_window_of_time_that_speaks_by_tuples_takes_what_is_young_enough():
    window = counted(time("10us"), count(1))
    assert given(window, rows(10, 20), Late(rows(15), at(20))) == [(False, 1), (False, 1), (True, 2)]
    assert given(window, rows(10, 20), Late(rows(5), at(20))) == [(False, 1), (False, 1)]


def test_a_session_that_could_be_open_takes_what_is_late():
    window = counted(session_window("10us"))
    assert given(window, rows(10), Late(rows(8), at(12)), END_KEY) == [(False, 2)]
    assert given(window, rows(30), Late(rows(8), at(30)), END_KEY) == [(False, 1)]


def test_a_sort_gives_out_late_what_nothing_but_late_tuples_filled():
    def out(window, *events):
        app = App("late")
        app.source("S", "n long").filter("true", name="F").sort("n desc", window=window, name="A").sink("Sink")
        engine, found = Engine(app.build(), ["A", "Sink"], cut_everywhere=True), []
        for event in events:
            if not isinstance(event, OrderKey):
                batch = event.event if isinstance(event, Late) else event
                batch = batch.rename_columns(["n", "_ts", "_seq"])
                event = event._replace(event=batch) if isinstance(event, Late) else batch
            outputs = engine.advance("F→A", event) if isinstance(event, OrderKey) else engine.push("F→A", event)
            for _, one in outputs:
                late, batch = isinstance(one, Late), one.event if isinstance(one, Late) else one
                if not isinstance(batch, Punctuation):
                    found.append((late, batch.column("n").to_pylist()))
        return found

    assert out(count(2), rows(10, 11), Late(rows(3, first=7), at(11)), rows(12, first=2)) == [
        (False, [1, 0]),
        (False, [7, 2]),
    ]
    assert out(count(2), rows(10, 11), Late(rows(3, first=7), at(11)), END_KEY) == [(False, [1, 0]), (True, [7])]
    assert out(time("10us"), rows(10, 11), Late(rows(3, first=7), at(12)), END_KEY) == [(False, [1, 0])]
    assert out(time("10us"), rows(15, 16), Late(rows(11, first=7), at(17)), END_KEY) == [(False, [7, 1, 0])]


def test_a_join_keeps_what_is_late_while_its_window_could_and_lets_it_meet_the_other():
    app = App("late")
    left, right = (app.source(name, "id long").filter("true", name=f"F{name}") for name in "LR")
    other = right.rename({"id": "other"}, name="Other")
    left.join(other, on=(), left_window=time("10us"), right_window=count(1), select=["id", "other"], name="J").sink(
        "Sink"
    )
    engine = Engine(app.build(), ["J", "Sink"], cut_everywhere=True)

    def pushed(stream, event, until):
        out = []
        for name in ("FL→J", "Other→J.1"):
            if name == stream:
                renamed = event
                if stream != "FL→J":
                    renamed = event.rename_columns(["other", "_ts", "_seq"])
                out += engine.push(name, renamed)
            out += engine.advance(name, until)
        pairs = []
        for _, one in out:
            batch = one.event if isinstance(one, Late) else one
            pairs += [
                (isinstance(one, Late), row["id"], row["other"]) for row in batch.select(["id", "other"]).to_pylist()
            ]
        return pairs

    assert pushed("Other→J.1", rows(15, first=99), at(16)) == []
    assert pushed("FL→J", Late(rows(1, 2, first=7), at(16)), at(16)) == [(True, 7, 99), (True, 8, 99)]
    assert pushed("Other→J.1", rows(17, first=99), at(17)) == []  # the two made the window forget one another alone
    assert pushed("FL→J", rows(18), at(19)) == [(False, 0, 99)]
    assert pushed("Other→J.1", rows(20, first=100), at(21)) == [(False, 0, 100)]
    assert pushed("FL→J", Late(rows(15, first=1), at(21)), at(21)) == [(True, 1, 100)]
    assert pushed("FL→J", Late(rows(5, first=2), at(21)), at(21)) == [(True, 2, 100)]  # too old to be kept
    assert pushed("Other→J.1", rows(22, first=101), at(23)) == [(False, 0, 101), (False, 1, 101)]


def test_what_late_rows_cause_is_late_behind_it_through_mergers_and_zero_windows():
    app = App("late")
    one, two = (app.source(name, "id long").filter("true", name=f"F{name}") for name in "AB")
    joined = one.join(two.rename({"id": "other"}, name="O"), on=(), left_window=zero(), right_window=count(1),
                      select=["id"], name="J")  # fmt: skip
    joined.union(two, name="U").sink("Sink")
    graph = app.build()
    engine = Engine(graph, ["O", "J", "U", "Sink"], cut_everywhere=True)
    engine.push("FB→O", rows(10))
    engine.push("FB→U.1", rows(10))
    for stream in ("FA→J", "FB→O", "FB→U.1"):
        engine.advance(stream, at(20))
    (out,) = engine.push("FA→J", Late(rows(4, first=7), at(20)))
    assert isinstance(out.event, Late)
    assert out.event.event.column("id").to_pylist() == [7]
    assert out.event.event.column("_ts").cast(pa.int64()).to_pylist() == [4]
    assert out.event.at.ts == 20
