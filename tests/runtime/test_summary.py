"""The numbers of a run that was resumed are of what came since."""

import pytest

from riprap.apps.catalogue import load_app
from riprap.runtime.coordination.history import History
from riprap.runtime.coordination.roster import Transition
from riprap.runtime.coordination.run_summary import MetricsByIncarnation, positions, read_ledgers, summary
from riprap.runtime.element.ledger import ledger_shape, open_ledger
from riprap.runtime.layout import arrange

SECOND = 1_000_000


@pytest.mark.parametrize("rate", [None, 1_000.0])
@pytest.mark.parametrize("more", [0, 500])
def test_throughput_of_a_resumed_run_is_of_what_came_since(tmp_path, rate, more):
    layout = arrange(load_app("bargain-discovery"))
    directory = tmp_path / "ledgers" / "Source"
    shape = ledger_shape(layout, layout.pe("Source"))
    began, resumed = 1_000 * SECOND, 5_000 * SECOND
    first = open_ledger(directory, 1, shape).sources["Source"]
    first.position, first.started_at = 10_000, began
    before = positions(layout, read_ledgers(tmp_path, layout))
    second = open_ledger(directory, 2, shape).sources["Source"]
    second.started_at = resumed - (int(10_000 / rate * 1e6) if rate else 0)  # as `Pace.begin` has it
    second.position += more
    events = [Transition(resumed + 2 * SECOND, "Source", 2, "running", "ended")]
    found = summary(tmp_path, layout, [], MetricsByIncarnation(), events, History(lambda: 0), before, rate)
    assert found["tuples"] == 10_000 + more
    assert found["resumed_at"] == 10_000
    assert found["seconds"] == pytest.approx(2.0)
    assert found["throughput"] == pytest.approx(more / 2.0)
