"""What a run says of an element that is never saved."""

from riprap.graph.annotations import backup, checkpoint, persist
from riprap.graph.builder import App
from riprap.graph.windows import count
from riprap.runtime.layout import arrange
from riprap.runtime.spending import ResourceUse
from riprap.runtime.unsaved import unsaved, warning


def layout(*protect):
    app = App("test")
    source = app.source("S", "x long", protect=persist())
    source.aggregate("sum(x) AS x", window=count(3), name="A", protect=(backup(), *protect)).sink("Sink")
    return arrange(app.build(), "none")


def test_who_is_never_saved():
    for protect, never in (((), False), ((checkpoint("off"),), True), ((checkpoint("1s"),), False)):
        made = layout(*protect)
        assert unsaved(made.plan(made.pe("A"))) is never
        assert not unsaved(made.plan(made.pe("S")))


def test_the_warning_predicts_from_rate_and_work():
    text = warning("A", 5_000_000, ResourceUse(seconds=10.0, cpu=1.0))
    assert "A takes no checkpoints" in text
    assert "at 500,000 rows/s with 0.1 cores" in text
    assert "about 6m after an hour, 144m after a day" in text
    assert text != warning("A", 5_000_000, ResourceUse(seconds=10.0, cpu=5.0))
