"""Layouts with other numbers of shards than before: who reads what, and what is refused."""

import pytest

from riprap.base.errors import UsageError
from riprap.graph.annotations import backup, checkpoint, continuous
from riprap.graph.builder import App
from riprap.graph.windows import count
from riprap.protocols.channels import ChannelId
from riprap.runtime.element.ledger import ledger_shape, open_ledger, read_ledger, reshape_ledger
from riprap.runtime.element.records import log_of
from riprap.runtime.handover import check_taken_over, hand_over
from riprap.runtime.layout import arrange
from riprap.runtime.logs import open_log
from riprap.runtime.run_context import stream_path


def graph(protect=None, *, marked=False, behind=None):
    app = App("changing")
    source = app.source("S", "k long, x long", protect=(backup(),))
    if marked:
        source = source.punctuate("x = 0", name="Marked", protect=(backup(),))
    op = source.aggregate(
        "sum(x) AS x", window=count(3), by="k", name="Op", protect=(protect or continuous(every="1s"),)
    )
    if behind is not None:
        op = behind(op)
    op.sink("Sink")
    return app.build()


def changed(graph_, *numbers, **others):
    former = []
    for number in numbers:
        layout = arrange(graph_, "auto", {"Op": number, **others}, former=former)
        former.append({name: fragment.shards for fragment in layout.fragments for name in fragment.members})
    return layout


@pytest.mark.parametrize("old", range(1, 7))
@pytest.mark.parametrize("new", range(1, 7))
def test_every_row_is_read_by_its_owner_alone(old, new):
    if old == new:
        return
    layout = changed(graph(), old, new)
    link = layout.link("S→Op")
    assert [str(channel) for channel in link.channels()] == [f"S→Op[0→{lane}]" for lane in range(old)]
    read = {pe.shard: {link.written(c).target for c in layout.inputs(pe)} for pe in layout.hosting("Op")}
    for hashed in range(old * new):
        assert hashed % old in read[hashed % new], "it reads the log in which the row is"
    if not link.mixed:
        assert all(lane % new == shard for shard, lanes in read.items() for lane in lanes), "and finds no other there"
    for pe in layout.hosting("Op"):
        sources = [channel.source for channel in layout.inputs(pe)]
        assert sources == list(range(len(sources)))
        assert all(layout.consumer(channel) == pe.id for channel in layout.inputs(pe))
        assert all(layout.producer(channel) == "S" for channel in layout.inputs(pe))


def test_new_shards_are_numbered_on():
    layout = changed(graph(), 2, 3, 1)
    assert [pe.id for pe in layout.hosting("Op")] == ["Op/5"]
    (sink,) = layout.hosting("Sink")
    assert layout.inputs(sink) == tuple(ChannelId("Op→Sink", source, 0) for source in range(6))
    assert [layout.producer(channel) for channel in layout.inputs(sink)] == [""] * 5 + ["Op/5"]
    assert layout.outputs(layout.pe("Op/5")) == (ChannelId("Op→Sink", 5, 0),)
    assert [pe.id for pe in layout.before.hosting("Op")] == ["Op/2", "Op/3", "Op/4"]


def test_what_cannot_be_is_refused_in_a_sentence():
    with pytest.raises(UsageError, match="had Op in 2 shards and would have it in 3: each shard recovers from its"):
        changed(graph(checkpoint(every="1s")), 2, 3)
    with pytest.raises(UsageError, match="and Marked→Op carries punctuations, which every shard passes on"):
        changed(graph(marked=True), 2, 3)

    def again(stream):
        return stream.aggregate(
            "sum(x) AS x", window=count(2), by="k", name="Again", protect=(continuous(every="1s"),)
        )  # fmt: skip

    first = arrange(graph(behind=again), "auto", {"Op": 2, "Again": 2})
    former = [{name: fragment.shards for fragment in first.fragments for name in fragment.members}]
    with pytest.raises(UsageError, match="would have it in 3, and Again in 1 instead of 2: change one of them"):
        arrange(graph(behind=again), "auto", {"Op": 3, "Again": 1}, former=former)

    def stateless(stream):
        return stream.filter("x > 1", name="Large")

    with pytest.raises(UsageError, match="is not partitioned by a key"):
        changed(graph(behind=stateless), 2, 3, Large=3)


def test_shards_that_have_not_taken_over_cannot_be_changed(tmp_path):
    layout = changed(graph(), 2, 3)
    with pytest.raises(UsageError, match="Op/2 has yet to take over from the former shards of Op: resume with 3"):
        check_taken_over(tmp_path, layout)
    check_taken_over(tmp_path, layout.before)
    for pe in layout.hosting("Op"):
        channel = log_of(layout, pe)
        with open_log(stream_path(tmp_path, channel), layout.schema(channel)).writer() as writer:
            writer.mark(None, kind="record", payload=b"anything")
    check_taken_over(tmp_path, layout)


def test_what_is_on_disk_is_handed_over_once(tmp_path):
    layout = changed(graph(), 2, 3)
    lanes = layout.link("S→Op").channels()
    for lane in lanes:
        open_log(stream_path(tmp_path, lane), layout.schema(lane)).register_reader(f"Op-{lane.target}", 0)
    sink = layout.pe("Sink")
    old, new = ledger_shape(layout.before, sink), ledger_shape(layout, sink)
    ledger = open_ledger(tmp_path / "ledgers" / "Sink", 3, old)
    ledger.inputs[ChannelId("Op→Sink", 1, 0)].next = 7
    for _ in range(2):
        hand_over(tmp_path, layout, "async")
        for lane in lanes:
            stream = open_log(stream_path(tmp_path, lane), layout.schema(lane))
            assert stream.readers() == {"Op-2": 0, "Op-3": 0, "Op-4": 0}
        ended = ChannelId("Op→Sink", 0, 0)
        marks = list(open_log(stream_path(tmp_path, ended), layout.schema(ended)).read(marks=True))
        assert [mark.kind for mark in marks] == ["end"]
        found = read_ledger(tmp_path / "ledgers" / "Sink", new)
        assert [record.next for record in found.inputs.values()] == [0, 7, 0, 0, 0]
    reshape_ledger(tmp_path / "ledgers" / "Sink", old, new)
