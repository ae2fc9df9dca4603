"""The curve of accuracy against recovery time: more is kept, more is found."""

from riprap_papers.experiments.sampled_outage import points


def test_a_larger_share_finds_more_of_an_outage(tmp_path):
    nothing, half, all_ = points(30_000, 2, tmp_path, (0.0, 0.5, 1.0))
    assert nothing.missed == half.missed == all_.missed == 6_000
    assert nothing.kept < half.kept < all_.kept
    assert nothing.found < half.found < all_.found
    assert 0 < half.quality < all_.quality < 1.25
    assert all_.error < 0.01
    assert not list(tmp_path.iterdir()), "what was kept is gone when the consumer has it"
