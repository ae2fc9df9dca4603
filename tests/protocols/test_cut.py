"""A cut on disk: whatever was encoded is decoded, and nothing else is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.base.errors import DataError
from riprap.graph.keys import OrderKey
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import Cut, InletCut, decode, encode

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
    assert decode(encode(cut)) == cut


@given(cuts, st.data())
def test_a_part_of_it_is_refused(cut, data):
    encoded = encode(cut)
    with pytest.raises(DataError):
        decode(encoded[: data.draw(st.integers(0, len(encoded) - 1))])
