"""Targets that no fault can be injected into are found before the campaign, each with its reason; the rest is assessed.

The app has a table, whose rows all come at the beginning, and operators that no tuple reaches.
"""

import numpy as np
import pyarrow as pa
import pytest
from tests.faults.graphs import readers_of, recorded

from riprap.faults.campaign_settings import (
    CampaignSettings,
    NothingToAssess,
    Target,
    assessable,
    outages_of,
    profile_targets,
)
from riprap.faults.divided import dividing_columns
from riprap.faults.golden import golden_run
from riprap.faults.scoring import parse_score
from riprap.faults.trial_outputs import sink_reader
from riprap.faults.trials import TrialContext
from riprap.graph.builder import App
from riprap.graph.windows import count, time, zero

SCHEMA = "k string, x double"
SECOND = 1_000_000


def shop():
    app = App("shop")
    clicks, items = app.source("Clicks", SCHEMA), app.source("Items", SCHEMA)
    named = items.rename({"x": "price"}, name="Priced")
    sold = clicks.join(named, on="k", left_window=zero(), right_window=count(1), name="Sold")
    sold.aggregate("sum(price) AS x", window=time("5s"), by="k", name="Turnover").sink("Sink")
    never = clicks.filter("x > 1e9", name="Never").aggregate("sum(x) AS x", window=count(2), by="k", name="Behind")
    never.select("k", "x", name="After").sink("Rare")
    return app.build()


def rows(times):
    return pa.RecordBatch.from_pydict(
        {
            "k": pa.array([f"k{i % 7}" for i in range(len(times))]),
            "x": pa.array(np.ones(len(times))),
            "_ts": pa.array(times, pa.timestamp("us", "UTC")),
            "_seq": pa.array(range(len(times)), pa.int64()),
        }
    )


@pytest.fixture(scope="module")
def recording():
    # The table lies decades before the stream: nothing is as long as the time between.
    given = {"Clicks": rows([10**15 + SECOND // 10 * i for i in range(300)]), "Items": rows([0] * 7)}
    return recorded(shop(), given, None)


def settings(*names, **more):
    return CampaignSettings(
        tuple(Target((name,)) for name in names), (100, 200), {"Sink": "sum(x)"}, outages=(SECOND,), reps=1, **more
    )


def decided(recording, asked):
    return assessable(shop(), recording, asked, profile_targets(shop(), recording, asked))


def test_the_rest_is_assessed(recording):
    names = ("Clicks", "Items", "Priced", "Sold", "Turnover", "Never", "Behind", "After")
    chosen, reasons = decided(recording, settings(*names, rates=("peak",)))
    assert [target.name for target in chosen.targets] == ["Clicks", "Sold", "Turnover", "Never"]
    table = "all 7 tuples of {} come before offset 100: a later fault has no effect"
    assert reasons == {
        "Items": table.format("Items"),
        "Priced": table.format("Priced"),
        **{name: f"no tuple of this stream reaches {name}" for name in ("Behind", "After")},
    }


def test_an_outage_beyond_the_end(recording):
    chosen, reasons = decided(recording, settings("Clicks", "Never", rates=("peak",)))
    assert len(chosen.targets) == 2
    assert not reasons
    late = settings("Clicks", "Items", rates=("peak",), threshold=0.5)
    late = CampaignSettings(**{**vars(late), "offsets": (300,)})
    with pytest.raises(NothingToAssess, match="no operator can be assessed: an outage of 1s at peak rate costs"):
        decided(recording, late)


def test_values_that_cannot_be_wrong(recording):
    app = App("texts")
    app.source("Texts", "k string").filter("k <> ''", name="Some").sink("Sink")
    given = rows([SECOND // 10 * i for i in range(300)]).select(["k", "_ts", "_seq"])
    found = recorded(app.build(), {"Texts": given}, None)
    asked = settings("Texts", fault="diverge")
    with pytest.raises(NothingToAssess, match="Texts has no numeric attribute to alter"):
        assessable(app.build(), found, asked, profile_targets(app.build(), found, asked))


def test_a_table_does_not_make_the_rest_slow(recording):
    """Its time is far away; nothing may be as large as the time between."""
    peak = settings("Clicks", rates=("peak",))
    [clicks] = profile_targets(shop(), recording, peak)
    assert clicks.peak == 10
    assert [outage.tuples for outage in outages_of(peak, recording, clicks, 0, 100)] == [10]


def test_every_target_misses_the_same_stretch_of_the_sources(recording):
    """Whatever share of it reaches a target: rates of its own would give each another outage."""
    app = App("halves")
    source = app.source("S", SCHEMA)
    source.filter("k = 'k0'", name="Few").aggregate("sum(x) AS x", window=count(2), by="k", name="Sums").sink("Sink")
    source.filter("k <> 'k0'", name="Most").sink("Rest")
    graph = app.build()
    found = recorded(graph, {"S": rows([SECOND // 10 * i for i in range(300)])}, None)
    asked = settings("S", "Few", "Most", "Sums", rates=("average", "peak"))
    outages = {
        profile.target.name: outages_of(asked, found, profile, number, 100)
        for number, profile in enumerate(profile_targets(graph, found, asked))
    }
    assert {tuple((o.duration, o.rate, o.end) for o in each) for each in outages.values()} == {
        ((SECOND, "average", 110), (SECOND, "peak", 110))
    }
    lost = {name: each[-1].tuples for name, each in outages.items()}
    assert lost == {"S": 10, "Few": 10, "Most": 10, "Sums": 1}, "of the tuples in front of each"


def test_rows_by_part_of_several_sources_and_windows_of_time(recording):
    """What time triggers behind the last tuple has a part too: entries that nobody filled were written with."""
    graph = shop()
    reader = sink_reader(graph, "Sink", parse_score("sum(x)", graph.input_schemas("Sink")[0], "Sink"), recording)
    golden = golden_run(graph, recording, [reader], None, [100], divided=False)
    assert golden.rows["Sink"].position.max() == recording.tuples - 1
    order, first = TrialContext(graph, recording, [reader], None, golden, False).by_part["Sink"]
    assert sorted(order.tolist()) == list(range(golden.rows["Sink"].size))
    assert first.tolist() == [0, golden.rows["Sink"].size]


def test_parts_of_positions_behind_the_last_tuple():
    app = App("two")
    left, right = app.source("L", SCHEMA), app.source("R", SCHEMA)
    summed = left.union(right, name="U").aggregate("sum(x) AS x", window=count(2), by="k", name="A")
    summed.sink("Sink")
    graph = app.build()
    columns = dividing_columns(graph)
    assert columns is not None
    found = recorded(graph, {"L": rows(range(0, 40, 2)), "R": rows(range(1, 41, 2))}, columns)
    assert len(readers_of(graph, found)) == 1
    expected = [found.sources[p % 2].part[p // 2] for p in range(40)]
    dirty = np.full(10**6, -1, np.int32)  # what memory may hold that is given out again
    del dirty
    assert found.parts_of(np.arange(42)).tolist() == [*expected, expected[-1], expected[-1]]
