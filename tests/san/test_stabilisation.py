"""Figures 5.10, 5.11 and 5.15 from a small generated stream."""

import numpy as np
import pytest

from riprap.apps import bargain_discovery, market
from riprap.engine.inputs import keyed
from riprap_papers.san.stabilisation import figure_rows

GRAPH = bargain_discovery.build()


@pytest.fixture(scope="module")
def rows():
    (source,) = GRAPH.sources
    return figure_rows(GRAPH, {"Source": list(keyed(market.generate(150_000, 1).to_batches(), source))})


def test_every_statement_holds(rows):
    assert [row.case for row in rows if row.bound == "holds" and row.ours != 1.0] == []


@pytest.mark.parametrize("figure", ["figure 5.10", "figure 5.11"])
def test_more_is_needed_after_a_longer_outage_and_about_as_much_as_published(rows, figure):
    own = [row for row in rows if row.table == figure and row.bound != "holds"]
    assert len(own) == 24
    for rate in ("250", "350", "450", "550"):
        needed = [row.ours for row in own if f" {rate} tuples/s" in row.case]
        assert needed == sorted(needed)
    ratios = np.array([row.ours / row.published for row in own])
    assert np.all((ratios > 0.3) & (ratios < 1.25)), "a line cannot follow the first second, where few windows are hit"
    longer = np.array([not row.case.endswith((" 1 s", " 3 s")) for row in own])
    assert np.all(np.abs(ratios[longer] - 1) < 0.25), "other data, the same windows"
