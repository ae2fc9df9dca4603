"""A cut as JSON and bytes, as a manifest has it and a director is told it."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from riprap.graph.order_keys import OrderKey
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import Cut, InletCut

numbers = st.integers(-(2**63), 2**63 - 1)
channels = st.builds(ChannelId, st.text(max_size=5), st.integers(0, 9), st.integers(0, 9))
cuts = st.builds(
    Cut,
    st.dictionaries(st.text(max_size=5), st.builds(OrderKey, numbers, numbers, numbers, numbers), max_size=3),
    st.dictionaries(st.text(max_size=5), numbers, max_size=3),
    st.dictionaries(
        channels, st.builds(InletCut, numbers, numbers, numbers, numbers, st.booleans()), max_size=3
    ),
    st.dictionaries(channels, numbers, max_size=3),
    st.binary(max_size=20),
    st.dictionaries(channels, st.lists(st.binary(max_size=9), max_size=3).map(tuple), max_size=3),
)  # fmt: skip


@given(cuts)
def test_it_comes_back(cut):
    text = json.dumps(cut.as_json())
    if any(cut.parked.values()):
        assert Cut.from_json(json.loads(text), cut.messages()).messages() == cut.messages()
    assert replace(Cut.from_json(json.loads(text), cut.messages()), parked={}) == replace(cut, parked={})


def test_parked_messages_come_back_one_by_one():
    channel, other = ChannelId("A→B"), ChannelId("A→C", 1, 2)
    cut = Cut(parked={channel: (b"one", b"", b"three"), other: (b"four",)})
    assert Cut.from_json(cut.as_json(), cut.messages()) == cut
    assert Cut.from_json(cut.as_json()).parked == {}
