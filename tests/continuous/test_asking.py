"""How continuous checkpoints are asked for, in code and in plans, and what is refused before anything starts."""

import pytest

from riprap.base.errors import GraphError, PlanError, UsageError
from riprap.graph.annotations import backup, checkpoint, continuous
from riprap.graph.builder import App
from riprap.graph.plan_file import parse_plan, plan_of, write_plan
from riprap.graph.windows import count, punctuated
from riprap.protocols.registry import protocol
from riprap.runtime.layout import arrange


def app(protect, *, window=None, source=None, between=False):
    made = App("means")
    stream = (
        made.source("S", "k string, x double", protect=source) if source else made.source("S", "k string, x double")
    )
    if between:
        stream = stream.aggregate("max(x) AS x", window=count(2), by="k", name="Most")
    stream.aggregate("avg(x) AS x", window=window or count(10), by="k", name="Mean", protect=protect).sink("Out")
    return made.build()


def test_plans_say_what_code_says():
    for asked, text in [
        (continuous(), 'checkpoint = "continuous"'),
        (continuous("500ms"), 'checkpoint = "continuous"\nrecovery = "500ms"'),
        (
            continuous(every="20ms", slow_after="0s", shot=64),
            'checkpoint = "continuous"\nevery = "20ms"\nslow_after = "0s"\nshot = 64',
        ),
    ]:
        plan = plan_of(app(asked))
        assert text in write_plan(plan)
        assert parse_plan(write_plan(plan)) == plan
        assert parse_plan(f'app = "means"\n[operators.Mean]\n{text}') == plan


def test_the_later_of_two_ways_to_save_wins():
    assert (checkpoint("1s") | continuous()).checkpoint_every is None
    assert (continuous() | checkpoint("1s")).continuous is None
    assert (continuous("1s") | backup()).describe() == ["continuous checkpoints for 1s", "backup"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('checkpoint = "continuos"', "write an interval"),
        ('recovery = "1s"', 'recovery is for checkpoint = "continuous"'),
        ('checkpoint = "1s"\nshot = 3', 'shot is for checkpoint = "continuous"'),
        ('checkpoint = "continuous"\nrecovery = 5', "recovery = 5; write durations"),
        ('checkpoint = "continuous"\nrecovery = "0s"', "write durations"),
        ('checkpoint = "continuous"\nshot = 0', "shot = 0; write durations"),
        ('checkpoint = "continuous"\nshot = true', "write durations"),
    ],
)
def test_plans_that_say_it_wrongly(text, told):
    with pytest.raises(PlanError, match=told):
        parse_plan(f'app = "means"\n[operators.Mean]\n{text}')


def test_code_that_says_it_wrongly():
    with pytest.raises(GraphError, match="longer than 0"):
        continuous("0s")
    with pytest.raises(GraphError, match="the number of windows"):
        continuous(shot=0)
    with pytest.raises(UsageError, match="as a duration"):
        continuous(every="soon")


def test_its_output_is_persistent_and_its_element_its_own():
    layout = arrange(app(continuous(), source=backup()))
    assert [pe.id for pe in layout.pes] == ["S", "Mean", "Out"]
    assert {link.recovery for link in layout.links} == {"replay"}
    assert layout.plan(layout.pe("Mean")).continuous == "Mean"
    fused = arrange(app(continuous()), "auto")  # a source can be read again
    assert fused.pe("S").fragment.members == ("S", "Mean")
    assert fused.plan(fused.pe("S")).continuous == "Mean"


@pytest.mark.parametrize(
    ("graph", "fuse", "told"),
    [
        (app(continuous()), "none", "its input S→Mean could not be replayed: make it persistent"),
        (app(continuous(), between=True), "auto", "its input Most→Mean could not be replayed"),
        (app(continuous(), between=True), "all", "would share its element with Most, which has state too"),
        (app(continuous(), window=punctuated()), "auto", "for aggregates over windows of count or time and for joins"),
    ],
)
def test_what_it_cannot_be_is_refused_in_a_sentence(graph, fuse, told):
    with pytest.raises(UsageError, match=told) as refused:
        arrange(graph, fuse)
    assert refused.value.exit_code == 2
    assert "\n" not in str(refused.value)


def test_other_protocols_refuse_it():
    with pytest.raises(UsageError, match="need the protocol partial, not coordinated"):
        arrange(app(continuous()), protocol=protocol("coordinated"))
