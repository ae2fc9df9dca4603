"""The output of an app depends on its input and on nothing else: not on batches, restores or fragments."""

import pickle

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.base.errors import GraphError, UsageError
from riprap.engine.engine import Engine
from riprap.graph.builder import App
from riprap.graph.keys import END_KEY, OrderKey
from riprap.graph.windows import count, time
from riprap.operators.contract import Punctuation
from tests.engine.graphs import SCHEMA, apps, collected, cut, inputs, ran

sizes = st.lists(st.sampled_from([1, 2, 3, 7, 50]), min_size=1, max_size=3)


@settings(max_examples=150)
@given(st.data(), apps(), sizes)
def test_any_batch_size_gives_the_same(data, graph, pieces):
    given_ = data.draw(inputs(graph))
    assert ran(graph, given_, pieces) == ran(graph, given_)
