"""After any crash the state is what it was at the newest record that is left, and what comes out is the same."""

from random import Random

import pytest
from tests.continuous.lives import Life, Written, any_graph, any_items, any_pace, come_back, content, go_on

from riprap.records.recorder import Recorder


def check(seed: int, *, looped: bool = False) -> None:
    random = Random(seed)
    graph = any_graph(random, looped=looped)
    items = any_items(random, len(graph.inputs("Op")))
    golden = Life(graph, items, random)
    expected: list = []
    while golden.at < len(items):
        expected += golden.step()
    final = content(golden.operator)[1]
    written, pace = Written(), any_pace(random)
    life = Life(graph, items, random, looped=looped)
    life.operator.track()
    recorder = Recorder(life.operator, pace)
    pending: list = []
    for _ in range(random.randint(1, 4)):
        go_on(life, recorder, written, random, random.randint(life.at, len(items)), pending)
        written.cut(random.randint(0, len(written.records)))  # what is lost at the end is lost with its rows
        life, recovery, recorder, pending = come_back(
            graph, items, written, random, pace, whole=random.random() < 0.5, looped=looped
        )
        if recovery is not None and life.at == recovery.cut.numbers["item"]:
            assert content(life.operator) == written.states[-1]
            assert recorder.tracker.open == recovery.totals.open
    go_on(life, recorder, written, random, len(items), pending)
    found = [row for outputs in written.outputs for row in outputs]
    assert found == expected
    assert logical(content(life.operator)[1]) == logical(final)


def logical(tables):
    """Without insertion indices, which begin again when a group has nothing left."""
    return {
        name: {n: c for n, c in table.items() if n not in ("_head", "_tail", "_spoke")}
        for name, table in tables.items()
    }


@pytest.mark.parametrize("seeds", [range(at, at + 25) for at in range(0, 75, 25)], ids=str)
def test_no_crash_changes_state_or_output(seeds):
    for seed in seeds:
        try:
            check(seed)
        except Exception as error:
            raise AssertionError(f"check({seed}) of {__name__} repeats it") from error


@pytest.mark.parametrize("seeds", [range(at, at + 25) for at in (0, 25)], ids=str)
def test_no_crash_changes_state_or_output_of_an_operator_that_is_part_of_a_loop(seeds):
    for seed in seeds:
        try:
            check(seed, looped=True)
        except Exception as error:
            raise AssertionError(f"check({seed}, looped=True) of {__name__} repeats it") from error


@pytest.mark.soak
def test_no_crash_changes_state_or_output_in_thousands_of_histories():
    for seed in range(1_000, 6_000):
        try:
            check(seed, looped=seed % 2 == 0)
        except Exception as error:
            raise AssertionError(f"check({seed}, looped={seed % 2 == 0}) of {__name__} repeats it") from error
