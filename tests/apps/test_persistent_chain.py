"""The chain of filters of the published experiment: everything that is sent is received, however it gets there."""

import pytest

from riprap_papers.experiments.persistent_chain import BLOCK, measure


@pytest.mark.parametrize("mode", ["native", "async", "fsync"])
def test_a_chain_passes_everything_on(tmp_path, mode):
    outcome = measure(256, 16, 2, mode, 40 * BLOCK * 256, tmp_path)  # counts what is received itself
    assert outcome.bytes == 40 * BLOCK * 256
    assert outcome.t_proc > 0
    assert (outcome.t_store > 0) == (mode != "native")
    assert not list(tmp_path.iterdir())


def test_what_settles_does_not_count(tmp_path):
    for mode in ("native", "async"):
        outcome = measure(1024, 16, 1, mode, 4 * 184 * 1024, tmp_path, settling=6 * 184 * 1024)
        assert outcome.bytes == 4 * 184 * 1024
