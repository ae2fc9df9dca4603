"""Sorts mean what the per-tuple reference says."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.operators import reference
from tests.operators.streams import VALUES, as_events, feeds, run, same
from tests.profiles import examples

from riprap.graph.builder import App
from riprap.graph.windows import Count, Punctuated, Time
from riprap.testing.checker import check_operator

SPELLED = {"count": Count, "time": Time, "punctuated": Punctuated}
TYPES = [type_ for type_ in VALUES if type_ != pa.binary()]


@st.composite
def cases(draw):
    window = draw(
        st.one_of(
            st.tuples(st.just("count"), st.sampled_from([1, 2, 5, 100])),
            st.tuples(st.just("time"), st.sampled_from([1, 4, 25])),
            st.just(("punctuated",)),
        )
    )
    types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=2))
    schema = pa.schema([*((f"c{j}", type_) for j, type_ in enumerate(types)), ("payload", pa.string())])
    by = [(f"c{j}", draw(st.booleans())) for j in range(len(types))]
    app = App("test")
    stream = app.source("S", schema)
    text = [f"{name} desc" if descending else name for name, descending in by]
    stream.sort(*text, window=SPELLED[window[0]](*window[1:]), name="O").sink("Sink")
    graph = app.build()
    return graph, draw(feeds(graph, "O")), {"by": by, "window": window}


@examples(90)
@given(cases(), st.randoms(use_true_random=False))
def test_means_what_the_reference_says(case, random):
    graph, feed, options = case
    same(run(graph, "O", feed, random), reference.sort(feed.items, **options))


@examples(28)
@given(cases(), st.integers(0, 2**32))
def test_keeps_the_contract(case, seed):
    graph, feed, _ = case
    check_operator(graph, "O", as_events(feed), seed=seed, rounds=4)
