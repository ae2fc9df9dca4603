"""Which operators share a process, what becomes of each stream when its consumer is down, and who is exact."""

import pytest

from riprap.base.errors import GraphError, UsageError
from riprap.graph.annotations import backup, checkpoint, ha_group, persist, retain
from riprap.graph.builder import App
from riprap.graph.windows import count
from riprap.operators.user import UserOperator
from riprap.protocols import recompute
from riprap.protocols.protocol import WHOLE
from riprap.protocols.registry import protocol
from riprap.runtime.coordination.run_summary import delivery
from riprap.runtime.late_streams import accepts_late
from riprap.runtime.layout import arrange, sink_channel


def chain(*, source=(), filter_=(), total=(), parallelism=1):
    app = App("chain")
    stream = app.source("S", "k string, x long", protect=source).filter("x > 0", name="F", protect=filter_)
    stream = stream.aggregate("sum(x) AS x", window=count(5), by="k", name="A", protect=total, parallelism=parallelism)
    stream.sink("Sink")
    return app.build()


def recoveries(layout):
    return {link.stream.id: link.recovery for link in layout.links}


def test_fusing():
    graph = chain()
    assert [pe.id for pe in arrange(graph, "none").pes] == ["S", "F", "A", "Sink"]
    assert [pe.id for pe in arrange(graph, "all").pes] == ["S"]
    # The filter has no state, so its protection cannot differ.
    assert [pe.fragment.members for pe in arrange(graph, "auto").pes] == [("S", "F", "A", "Sink")]


def columns(layout):
    return {link.stream.id: layout.schema(link.channels()[0]).names for link in layout.links}


def wide(protect=()):
    app = App("wide")
    stream = app.source("S", "k string, x long, y long, unread string", protect=protect).filter("y > 0", name="F")
    stream.aggregate("sum(x) AS x", window=count(5), by="k", name="A").sink("Sink")
    return app.build()


def test_a_channel_carries_what_somebody_behind_it_reads():
    assert columns(arrange(wide(), "none")) == {
        "S→F": ["k", "x", "y", "_ts", "_seq"],
        "F→A": ["k", "x", "_ts", "_seq"],
        "A→Sink": ["k", "x", "_ts", "_seq"],
    }
    assert arrange(wide(), "none").wanted["S"] == (frozenset("kxy"),)  # and no more is read of the input


def test_a_stream_that_is_kept_is_kept_whole():
    layout = arrange(wide((backup(),)), "none")
    assert columns(layout)["S→F"] == ["k", "x", "y", "unread", "_ts", "_seq"]
    assert columns(layout)["F→A"] == ["k", "x", "_ts", "_seq"]
    inside = arrange(wide((persist(),)), "all")  # it separates elements, or is a tap
    assert "unread" in inside.wanted["S"][0]


def test_a_persistent_stream_separates_fragments():
    layout = arrange(chain(source=(backup(),)), "all")
    assert [pe.fragment.members for pe in layout.pes] == [("S",), ("F", "A", "Sink")]
    assert recoveries(layout) == {"S→F": "replay"}


def backups(**protection):
    app = App("backups")
    stream = app.source("S", "k string, x long", protect=protection.get("S", backup()))
    stream = stream.filter("x > 0", name="F", protect=protection.get("F", backup()))
    stream = stream.aggregate("sum(x) AS x", window=count(5), by="k", name="A",
                              protect=protection.get("A", backup() | checkpoint("50ms")))  # fmt: skip
    stream.sink("Sink")
    return app.build()


@pytest.mark.parametrize("fuse", ["auto", "all"])
def test_backups_between_backups_share_an_element_that_is_exact(fuse):
    layout = arrange(backups(), fuse)
    assert [pe.fragment.members for pe in layout.pes] == [("S", "F", "A", "Sink")]
    assert not layout.links
    plan = layout.plan(layout.pe("S"))
    assert plan.exact
    assert plan.units[WHOLE].every == 50_000


def test_a_stream_that_readers_ask_for_is_a_tap_of_such_an_element():
    layout = arrange(backups(F=backup() | persist(0)), "auto")
    (pe,) = layout.pes
    assert layout.taps(pe) == ("F→A",)
    assert layout.all_outputs(pe) == (sink_channel("Sink"), sink_channel("F→A"))
    assert layout.retention(sink_channel("F→A")) == "log"
    assert layout.plan(pe).exact


def test_under_a_bound_every_backup_is_read():
    layout = arrange(backups(), "auto", protocol=recompute.SPEC)
    assert [pe.fragment.members for pe in layout.pes] == [("S",), ("F",), ("A",), ("Sink",)]
    assert set(recoveries(layout).values()) == {"replay"}


@pytest.mark.parametrize(
    ("protection", "members"),
    [
        ({"F": persist()}, [("S",), ("F",), ("A", "Sink")]),  # readers ask for it
        ({"S": ()}, [("S", "F"), ("A", "Sink")]),  # what comes to the filter cannot be had again by itself
        (
            {"F": ()},
            [("S",), ("F", "A"), ("Sink",)],
        ),  # the stream to the sink is all that would be left of what A gave out
        ({"A": checkpoint("50ms")}, [("S", "F"), ("A", "Sink")]),
    ],
    ids=str,
)
def test_a_persistent_stream_stays_where_something_beside_it_is_lost(protection, members):
    layout = arrange(backups(**protection), "auto")
    assert [pe.fragment.members for pe in layout.pes] == members


def test_shards_have_ids_and_channels():
    layout = arrange(chain(), "none", {"A": 3})
    assert [pe.id for pe in layout.pes if pe.fragment.name == "A"] == ["A/0", "A/1", "A/2"]
    assert layout.link("F→A").by == ("k",)
    assert [(c.source, c.target) for c in layout.link("A→Sink").channels()] == [(0, 0), (1, 0), (2, 0)]
    assert {layout.producer(c) for c in layout.link("A→Sink").channels()} == {"A/0", "A/1", "A/2"}
    with pytest.raises(UsageError, match="A/9"):
        layout.pe("A/9")


def test_a_barrier_is_buffered_and_anything_else_has_gaps():
    app = App("barrier")
    left, right = app.source("L", "x long"), app.source("R", "y long", protect=(persist(),))
    left.barrier(right, name="B").sink("Sink")
    layout = arrange(app.build(), "none")
    assert recoveries(layout) == {"L→B": "buffer", "R→B.1": "replay", "B→Sink": "gap"}
    mixed = layout.plan(layout.pe("B"))
    assert (mixed.whole, mixed.exact, mixed.reason) == (True, False, "its input L→B is not persistent")
    assert layout.plan(layout.pe("R")).exact
    assert not layout.plan(layout.pe("L")).whole


def test_an_element_between_persistent_streams_is_exact_and_saved_as_a_whole():
    layout = arrange(chain(source=(backup(),), total=(checkpoint("50ms"),)), "auto")
    recovering = layout.plan(layout.pe("F"))
    assert recovering.exact
    assert recovering.units[WHOLE].operators == ("F", "A", "Sink")
    assert recovering.units[WHOLE].every == 50_000


def test_elements_with_gaps_save_each_operator_by_itself():
    layout = arrange(chain(total=(checkpoint("1s"),)), "none")
    recovering = layout.plan(layout.pe("A"))
    assert not recovering.exact
    assert set(recovering.units) == {"A"}
    assert layout.plan(layout.pe("F")).units == {}


class Guess(UserOperator):
    deterministic = False

    def output_schemas(self, inputs):
        return [inputs[0]]


def test_an_operator_that_is_not_deterministic_is_not_exact():
    app = App("guess")
    (stream,) = app.source("S", "x long", protect=(backup(),)).apply(Guess, name="G")
    stream.sink("Sink")
    layout = arrange(app.build(), "none")
    assert layout.plan(layout.pe("G")).reason == "G is not deterministic"
    assert layout.plan(layout.pe("G")).whole


def test_mistakes_are_refused():
    graph = chain()
    with pytest.raises(UsageError, match="`fuse=some`"):
        arrange(graph, "some")
    with pytest.raises(UsageError, match="Sink would run in 2000 shards; at most 1024"):
        arrange(graph, "none", {"Sink": 2000})


@pytest.mark.parametrize("fuse", ["auto", "all"])
def test_shards_by_key_do_not_share_an_element_with_shards_by_something_else(fuse):
    layout = arrange(chain(), fuse, {"F": 2, "A": 2, "Sink": 2})
    assert [pe.fragment.members for pe in layout.pes if pe.shard == 0] == [("S",), ("F",), ("A", "Sink")]
    assert layout.link("F→A").by == ("k",)


def test_a_stream_that_is_retained_while_its_consumer_is_down_separates_fragments():
    kept = retain("while-down", sample=0.5)
    layout = arrange(chain(source=(kept,)))
    assert [pe.fragment.members for pe in layout.pes] == [("S",), ("F", "A", "Sink")]
    (link,) = layout.links
    assert (link.retention, link.recovery, link.share) == ("while-down", "while-down", 0.5)
    assert arrange(chain(source=(kept, backup()))).links[0].retention == "log", "what is persistent is, all the time"
    assert not arrange(chain(source=(retain("while-down", 1),))).links
    assert not layout.plan(layout.pe("F")).gap, "what comes meanwhile is handed back: windows have not moved on"
    assert layout.plan(layout.pe("S")).gap


def test_what_cannot_be_retained_while_down_is_refused():
    kept = (retain("while-down"),)
    with pytest.raises(UsageError, match="needs the protocol partial, not coordinated"):
        arrange(chain(source=kept), protocol=protocol("coordinated"))
    app = App("pairs")
    left = app.source("L", "x long", protect=kept)
    left.barrier(app.source("R", "y long"), name="B").sink("Sink")
    with pytest.raises(UsageError, match="L→B is retained while its consumer is down, and B cannot tolerate the loss"):
        arrange(app.build())
    with pytest.raises(UsageError, match="F is in an HA group, which fails over instead"):
        arrange(chain(source=kept, filter_=(ha_group("g"),)))
    with pytest.raises(GraphError, match="expected a share, more than 0 and at most 1"):
        retain("while-down", sample=0)
    with pytest.raises(GraphError, match=r'expected retain."while-down".'):
        retain("always")


def test_a_cycle_is_one_fragment_unless_it_is_to_be_several():
    app = App("round")
    back = app.feedback("back", "x long", delay="1ms")
    both = app.source("S", "x long").union(back, name="Both")
    both.select("x - 1 AS x", where="x > 0", name="Lower").feed("back")
    both.sink("Out")
    graph = app.build()
    for fuse in ("auto", "all"):
        (cycle,) = [pe.fragment.members for pe in arrange(graph, fuse).pes if "Both" in pe.fragment.members]
        assert {"Both", "Lower"} <= set(cycle)
        assert fuse == "all" or set(cycle) == {"Both", "Lower"}
        layout = arrange(graph, fuse, {"Lower": 2})
        assert {"Both", "Lower/0", "Lower/1"} <= {pe.id for pe in layout.pes}
        assert set(layout.surroundings["Lower/0"].cycle) == {"Both", "Lower/0", "Lower/1"}
    apart = arrange(graph, "none", {"Both": 2})
    assert [pe.fragment.members for pe in apart.pes] == [("S",), ("Both",), ("Both",), ("Lower",), ("Out",)]
    assert len([c for c in apart.inputs(apart.pe("Both/1")) if apart.stream(c).feedback is not None]) == 1
    itself = App("itself")
    again = itself.feedback("again", "x long", delay="1ms")
    itself.source("S", "x long").union(again, name="Both").feed("again")
    with pytest.raises(UsageError, match="Both is on a cycle that runs in one process, because it has one operator"):
        arrange(itself.build(), "none", {"Both": 2})


def test_late_rows_are_taken_where_no_key_has_to_tell_what_was_had():
    def taken(*protect, late="deliver"):
        app = App("late")
        left, right = (app.source(name, "x long").late(late) for name in ("L", "R"))
        left.union(right, name="U").filter("x > 0", name="F", protect=protect).sink("Sink")
        layout = arrange(app.build(), "none")
        return {link.stream.id: accepts_late(layout, link.channels()[0]) for link in layout.links}

    assert all(taken().values())
    assert all(taken(backup()).values())
    assert taken(late="drop") == {"L→U": False, "R→U.1": False, "U→F": True, "F→Sink": True}
    assert not any(taken(ha_group("g")).values())


def test_backups_share_an_element_without_a_circle():
    """A way that leads over others keeps two operators apart: those would wait for the element, and it for them."""

    def members(through):
        app = App("diamond")
        source = app.source("S", "x long", protect=backup())
        left = source.filter("x > 0", name="L", protect=backup())
        if through:
            (right,) = source.apply(Guess, name="R", protect=backup())
        else:
            right = source.filter("x < 9", name="R", protect=backup())
        left.union(right, name="U", protect=backup()).sink("Sink")
        return [pe.fragment.members for pe in arrange(app.build(), "auto").pes]

    assert members(through=False) == [("S", "L", "R", "U", "Sink")]
    assert members(through=True) == [("S", "L"), ("R",), ("U", "Sink")]  # R is not deterministic


@pytest.mark.parametrize(
    ("source", "failover", "promised"),
    [
        ((persist(),), "smart", "exactly once, while a full replica lives"),
        ((persist(),), "plain", "with gaps"),  # the published technique loses what lies between
        ((), "smart", "with gaps"),  # the source may die, and the replicas have had different input
    ],
)
def test_what_a_group_promises_of_itself(source, failover, promised):
    layout = arrange(chain(source=source, filter_=(ha_group("g"),)), settings={"failover": failover})
    assert {delivery(layout, pe.id) for pe in layout.pes if pe.fragment.group} == {promised}
