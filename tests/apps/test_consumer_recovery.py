"""What the receiver's timeline says of an outage."""

import numpy as np

from riprap_papers.experiments.consumer_recovery import told


def test_an_outage_is_found_and_what_was_missed_is_caught_up_with():
    rate = 1_000.0  # tuples a second: 100 in each append of a tenth of a second
    before = np.arange(0, 20) * 100_000
    back = before[-1] + 2_000_000
    catching = back + np.arange(0, 8) * 100_000  # 20 appends were missed, and 8 more come: 28 in 8, 3.5 times as fast
    after = catching[-1] + np.arange(1, 11) * 100_000
    moments = np.concatenate([before, catching, after])
    rows = np.concatenate([np.full(20, 100), np.full(8, 350), np.full(10, 100)])
    found = told(moments, rows, rate)
    assert found.before == 1_000
    assert found.down == 2.0
    assert 0.5 <= found.caught <= 0.8
    assert found.catching > 3_000
    assert 900 <= found.after <= 1_400
    assert sum(found.timeline) == rows.sum()


def test_where_it_never_catches_up_all_that_follows_is_catching_up():
    moments = np.concatenate([np.arange(0, 10) * 100_000, 3_000_000 + np.arange(0, 10) * 100_000])
    found = told(moments, np.full(20, 100), 1_000.0)
    assert found.after == 0
    assert found.caught == 0.9
