"""What a run keeps beside streams and checkpoints, as nobody wrote it: ledgers, epochs, what is noted of inputs."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.durable.mutations import Case

from riprap.base.clock import SYSTEM_CLOCK
from riprap.engine.input_record import NOTED, Reading, check_same, identity, read_noted
from riprap.engine.inputs import read_file
from riprap.graph.builder import App
from riprap.protocols.channels import ChannelId
from riprap.runtime.coordination.coordinator import Coordinator
from riprap.runtime.element.ledger import LedgerShape, open_ledger, read_ledger
from riprap.runtime.layout import arrange
from riprap.runtime.story import Story, line_of, read_story, story_path

IN = ChannelId("A→B")
LEDGER = LedgerShape((IN,), (ChannelId("B→C"),), (), (), (IN,))


def make_run(path: Path) -> None:
    for epoch in (1, 2):
        open_ledger(path / "ledgers" / "A", epoch, LEDGER).inputs[IN].next = 7
    story = Story("A", 2, (IN,), story_path(path, "A", 2))
    story.event(1, "ConsumerDown", ChannelId("B→C"))
    table = pa.table({"x": range(100)})
    pq.write_table(table, path.parent / "in.parquet", row_group_size=20)
    (path / NOTED).write_text(json.dumps({"S": identity(path.parent / "in.parquet")}))
    for _ in read_file(path.parent / "in.parquet", note=Reading(path, "S", "S").part):
        pass
    (path / "epochs.json").write_text(json.dumps({"F/0": 3, "A/0": 2, "Sink/0": 1}))


def read_counts(path: Path) -> None:
    found = read_ledger(path / "ledgers" / "A", LEDGER)
    assert list(found.inputs) == [IN]


def read_last_events(path: Path) -> None:
    found = read_story(path, "A")
    assert [line_of(entry, 0) for entry in found.entries] or found.entries == ()


def next_life(path: Path) -> None:
    open_ledger(path / "ledgers" / "A", 3, LEDGER)


def coordinate(path: Path) -> None:
    app = App("app")
    app.source("S", "x long").filter("x > 0", name="F").sink("Sink")
    Coordinator(path, arrange(app.build(), "none", {}), "token", None, "127.0.0.1", SYSTEM_CLOCK)


def look_at_inputs(path: Path) -> None:
    """The file itself is the user's, and stays as it is; that it was touched makes everything be compared."""
    os.utime(path.parent / "in.parquet")
    for source, noted in read_noted(path).items():
        if "files" in noted:
            check_same(path, source, path.parent / "in.parquet", noted)


CASE = Case(make_run, [read_counts, read_last_events, next_life, coordinate, look_at_inputs], 600, recovers=False)


def test_what_was_written_is_fine(tmp_path):
    CASE.sound(tmp_path)


def test_hundreds_of_mutations(tmp_path):
    CASE.share(tmp_path)


@pytest.mark.soak
def test_hours_of_mutations(tmp_path):
    CASE.hours(tmp_path)
