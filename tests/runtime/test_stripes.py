"""Every row of an input belongs to one shard, and is counted by it."""

from hypothesis import given
from hypothesis import strategies as st

from riprap.runtime.stripes import below, own

small = st.integers(1, 7)


@given(st.integers(0, 100), st.integers(0, 100), small, small)
def test_the_shards_of_any_stretch_are_all_of_it(first, rows, shards, stripe):
    found = [own(first, rows, shard, shards, stripe) for shard in range(shards)]
    assert sorted(row for each in found for low, high in each for row in range(low, high)) == [
        *range(first, first + rows)
    ]
    for shard, each in enumerate(found):
        assert all(row // stripe % shards == shard for low, high in each for row in range(low, high))
        counted = below(first + rows, shard, shards, stripe) - below(first, shard, shards, stripe)
        assert counted == sum(high - low for low, high in each)
