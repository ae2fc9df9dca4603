"""Golden runs by difference equal golden runs from scratch, for any seed."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.graphs import apps, inputs
from tests.faults.graphs import divided_apps, readers_of, recorded
from tests.profiles import examples

from riprap.engine.engine import Engine
from riprap.engine.jitter import Jitter
from riprap.faults.campaign_settings import counts_jitter_in_tuples
from riprap.faults.divided import dividing_columns
from riprap.faults.seeds import golden_outputs
from riprap.faults.trial_outputs import joined


def check(data, graph):
    columns = dividing_columns(graph)
    recording = recorded(graph, data.draw(inputs(graph, 40)), columns)
    bound = data.draw(st.integers(0, 8))
    readers = readers_of(graph, recording)
    outputs = golden_outputs(graph, recording, readers, bound, divided=columns is not None)
    for seed in range(3):
        jitter = Jitter(seed, tuples=bound) if counts_jitter_in_tuples(graph) else Jitter(seed, time=bound)
        found = outputs.unsettled(graph, readers, jitter)
        whole = list(recording.feed(Engine(graph, jitter=jitter), 0, recording.tuples))
        for reader in readers:
            ours, theirs = joined([outputs.settled[reader.sink], found[reader.sink]]), reader.read(whole)
            for column in ("identity", "content"):
                assert np.array_equal(np.sort(getattr(ours, column)), np.sort(getattr(theirs, column)))


@examples(60)
@given(st.data(), divided_apps())
def test_divided_apps(data, graph):
    check(data, graph)


@examples(20)
@given(st.data(), apps())
def test_other_apps(data, graph):
    check(data, graph)
