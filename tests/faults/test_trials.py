"""An accelerated trial equals a whole re-run: on random apps, streams, jitters and faults."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.engine.graphs import apps, inputs
from tests.faults.graphs import as_multiset, bench_of, divided_apps, faults, jitters, recorded, targets_of
from tests.profiles import examples

from riprap.faults import golden, trials
from riprap.faults.campaign_settings import Target
from riprap.faults.divided import dividing_columns
from riprap.faults.trials import replay, rerun


@pytest.fixture(autouse=True, scope="module")
def _many_checks():
    """Streams of tests are short: look often, and never run to the end for lack of tuples."""
    kept = golden.FIRST_CHECK, golden.STRIDE, trials.CHEAPER_THAN_CHECKS
    golden.FIRST_CHECK, golden.STRIDE, trials.CHEAPER_THAN_CHECKS = 2, 2, 0
    yield
    golden.FIRST_CHECK, golden.STRIDE, trials.CHEAPER_THAN_CHECKS = kept


def check(data, graph, most):
    recording = recorded(graph, data.draw(inputs(graph, most)), dividing_columns(graph))
    fault, begin = data.draw(faults(recording))
    jitter = data.draw(jitters(graph))
    targets = data.draw(targets_of(graph, fault))
    if fault.kind == "loss" and fault.keeps_state and data.draw(st.booleans()):
        targets = Target(tuple(targets), fails_over=True).struck(graph)
    bench = bench_of(graph, recording, jitter, begin, fault.kind)
    slow = rerun(bench, targets, fault)
    for _ in range(data.draw(st.sampled_from([1, 1, 1, 2]))):  # the second one in the engine that the first one used
        fast = replay(bench, targets, fault)
        for sink, rows in bench.golden.rows.items():
            assert as_multiset(fast[sink], rows) == as_multiset(slow[sink], rows)


@examples(30)
@given(st.data(), divided_apps())
def test_key_by_key(data, graph):
    assume(dividing_columns(graph) is not None)  # some have no state at all
    check(data, graph, 60)


@examples(24)
@given(st.data(), apps())
def test_whole_apps(data, graph):
    check(data, graph, 25)
