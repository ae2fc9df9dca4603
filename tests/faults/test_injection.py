"""The injection operator, tuple by tuple, against what the fault model says."""

import numpy as np
import pyarrow as pa
import pytest

from riprap.base.errors import UsageError
from riprap.engine.engine import Engine
from riprap.faults.injection import with_fault
from riprap.faults.models import KEPT, Fault, StateOutcome, parse_kind, parse_state
from riprap.graph.builder import App
from riprap.graph.order_keys import START_KEY, OrderKey
from riprap.graph.windows import count, zero


def key(position):
    return OrderKey(position, 0, position)


def stream(size=10):
    rows = {"k": ["a"] * size, "x": [float(2**j) for j in range(size)]}
    keys = {"_ts": pa.array(range(size), pa.timestamp("us", "UTC")), "_seq": pa.array(range(size), pa.int64())}
    return pa.record_batch({**{n: pa.array(v) for n, v in rows.items()}, **keys})


def sums():
    app = App("sums")
    app.source("S", "k string, x double").aggregate(
        "sum(x) AS x", window=count(3), every=count(1), by="k", name="A"
    ).sink("Out")
    return app.build()


def ran(graph, size=10):
    rows = []
    for _, event in Engine(graph).run({"S": [stream(size).slice(0, 4), stream(size).slice(4)]}):
        rows += list(zip(event.column("_seq").to_pylist(), event.column("x").to_pylist(), strict=True))
    return rows


def fault(kind="loss", start=4, end=6, restored=None, **more):
    return Fault(kind, key(start), key(end), key(start) if restored is None else restored, **more)


GOLDEN = ran(sums())


def test_a_loss_takes_the_tuples_and_keeps_the_state():
    after = dict(ran(with_fault(sums(), ["A"], fault())))
    assert 4 not in after
    assert 5 not in after
    assert after[6] == 2.0**2 + 2.0**3 + 2.0**6
    assert after[9] == dict(GOLDEN)[9]


def test_state_from_a_checkpoint_has_not_seen_what_came_after_it():
    after = dict(ran(with_fault(sums(), ["A"], fault(restored=key(2)))))
    assert after[3] == dict(GOLDEN)[3], "given out before the crash"
    assert after[6] == 2.0**0 + 2.0**1 + 2.0**6


def test_lost_state_starts_from_nothing():
    after = dict(ran(with_fault(sums(), ["A"], fault(restored=START_KEY))))
    assert after[6] == 2.0**6
    assert after[7] == 2.0**6 + 2.0**7


def test_a_duplicate_comes_twice_in_a_row():
    after = [x for seq, x in ran(with_fault(sums(), ["A"], fault("duplicate", 4, 5))) if seq == 4]
    assert after == [2.0**2 + 2.0**3 + 2.0**4, 2.0**3 + 2.0**4 + 2.0**4]


def test_a_loss_at_the_source_is_a_loss_everywhere():
    assert ran(with_fault(sums(), ["S"], fault())) == ran(with_fault(sums(), ["A"], fault()))


def test_operators_that_fail_together_lose_once():
    assert ran(with_fault(sums(), ["S", "A"], fault())) == ran(with_fault(sums(), ["A"], fault()))


def test_divergence_stays_within_its_bound_and_corruption_changes_one_bit():
    app = App("pass")
    app.source("S", "k string, x double").select("k", "x", name="P").sink("Out")
    golden = np.array([x for _, x in ran(app.build())])
    off = np.array([x for _, x in ran(with_fault(app.build(), ["P"], fault("diverge", columns=("x",))))])
    assert (off[:4] == golden[:4]).all()
    assert (off[4:6] != golden[4:6]).all()
    assert (np.abs(off / golden - 1) <= 0.01).all()
    wrong = np.array([x for _, x in ran(with_fault(app.build(), ["P"], fault("corrupt", columns=("x",))))])
    flips = golden.view(np.uint64) ^ wrong.view(np.uint64)
    assert [int(bits).bit_count() for bits in flips] == [0, 0, 0, 0, 1, 1, 0, 0, 0, 0]


EVERYTHING = ("k", "x")


def passed(fault):
    """The stream as an operator that only passes it on sees it."""
    app = App("pass")
    app.source("S", "k string, x double").select("k", "x", name="P").sink("Out")
    graph = app.build() if fault is None else with_fault(app.build(), ["P"], fault)
    return (
        pa.Table.from_batches([event for _, event in Engine(graph).run({"S": [stream()]})])
        .combine_chunks()
        .to_batches()[0]
    )


@pytest.mark.parametrize("seed", range(12))
def test_one_corrupted_tuple_is_the_app_over_a_stream_with_that_tuple_wrong(seed):
    one = fault("corrupt-tuple", columns=EVERYTHING, seed=seed)
    right, wrong = passed(None).to_pylist(), passed(one).to_pylist()
    assert [row for row in range(10) if wrong[row] != right[row]] == [4]
    if wrong[4]["k"] != "a":
        assert wrong[4]["x"] == right[4]["x"]
        assert (ord(wrong[4]["k"]) ^ ord("a")).bit_count() == 1
    else:
        bits = np.float64(wrong[4]["x"]).view(np.uint64) ^ np.float64(right[4]["x"]).view(np.uint64)
        assert int(bits).bit_count() == 1
    over_wrong = [
        row
        for _, event in Engine(sums()).run({"S": [passed(one)]})
        for row in zip(*event.to_pydict().values(), strict=True)
    ]
    struck = [
        row
        for _, event in Engine(with_fault(sums(), ["A"], one)).run({"S": [stream()]})
        for row in zip(*event.to_pydict().values(), strict=True)
    ]
    assert struck == over_wrong


@pytest.mark.parametrize("seed", range(12))
def test_a_corrupted_state_is_one_tuple_of_the_window_wrong(seed):
    found = dict(ran(with_fault(sums(), ["A"], fault("corrupt-state", columns=EVERYTHING, seed=seed))))
    golden, values = dict(GOLDEN), [float(2**j) for j in range(10)]
    candidates = []
    for place in (1, 2, 3):  # in the window when tuple 4 arrives; from 6 on none of them is
        for bit in range(52):
            wrong = np.array(values)
            wrong[place : place + 1].view(np.uint64)[0] ^= np.uint64(1) << np.uint64(bit)
            candidates.append(golden | {seq: sum(wrong[seq - 2 : seq + 1].tolist()) for seq in (4, 5)})
    assert found in candidates


def test_half_of_silent_corruptions_strike_the_tuple_and_half_the_state():
    found = {"tuple": 0, "state": 0}
    for seed in range(200):
        same = dict(ran(with_fault(sums(), ["A"], fault("sdc", columns=("x",), seed=seed))))
        found["state" if same[6] == dict(GOLDEN)[6] else "tuple"] += 1
    assert 80 <= found["state"] <= 120


def test_an_operator_without_state_is_struck_in_its_tuple():
    for kind in ("corrupt-state", "sdc"):
        wrong = passed(fault(kind, columns=EVERYTHING, seed=3)).to_pylist()
        assert [row for row, right in enumerate(passed(None).to_pylist()) if wrong[row] != right] == [4]


def test_a_reorder_lets_one_port_run_ahead():
    app = App("join")
    source = app.source("S", "k string, x double")
    right = source.select("k", "x AS y", name="R")
    source.join(right, on="k", left_window=count(1), right_window=zero(), select=["k", "x", "y"], name="J").sink("Out")
    graph = app.build()
    assert dict(ran(graph))[4] == 2.0**4
    met = {dict(ran(with_fault(graph, ["J"], fault("reorder", 3, 6, seed=seed))))[4] for seed in range(6)}
    assert met == {2.0**2, 2.0**5}, "either port may come first"


def test_sinks_are_no_targets():
    with pytest.raises(UsageError, match="Out is a sink"):
        with_fault(sums(), ["Out"], fault())


def test_fault_models_and_states_are_read_from_text():
    assert parse_state("kept") == KEPT
    assert parse_state("checkpoint(2s)") == StateOutcome("checkpoint", 2_000_000)
    with pytest.raises(UsageError, match="write planned, kept, lost or checkpoint"):
        parse_state("gone")
    with pytest.raises(UsageError, match=r"fault model los is unknown.*did you mean loss"):
        parse_kind("los")
