"""What a run keeps beside streams and checkpoints, as nobody wrote it: ledgers and epochs."""

import json
from pathlib import Path

import pytest
from tests.durable.mutations import Case

from riprap.base.clock import SYSTEM_CLOCK
from riprap.graph.builder import App
from riprap.protocols.channels import ChannelId
from riprap.runtime.coordination.coordinator import Coordinator
from riprap.runtime.element.ledger import LedgerShape, open_ledger, read_ledger
from riprap.runtime.layout import arrange

IN = ChannelId("A→B")
LEDGER = LedgerShape((IN,), (ChannelId("B→C"),), (), (), (IN,))


def make_run(path: Path) -> None:
    for epoch in (1, 2):
        open_ledger(path / "ledgers" / "A", epoch, LEDGER).inlets[IN].next = 7
    (path / "epochs.json").write_text(json.dumps({"F/0": 3, "A/0": 2, "Sink/0": 1}))


def read_counts(path: Path) -> None:
    found = read_ledger(path / "ledgers" / "A", LEDGER)
    assert list(found.inlets) == [IN]


def next_life(path: Path) -> None:
    open_ledger(path / "ledgers" / "A", 3, LEDGER)


def coordinate(path: Path) -> None:
    app = App("app")
    app.source("S", "x long").filter("x > 0", name="F").sink("Sink")
    Coordinator(path, arrange(app.build(), "none", {}), "token", None, "127.0.0.1", SYSTEM_CLOCK)


CASE = Case(make_run, [read_counts, next_life, coordinate], 600, recovers=False)


def test_what_was_written_is_fine(tmp_path):
    CASE.sound(tmp_path)


def test_hundreds_of_mutations(tmp_path):
    CASE.share(tmp_path)


@pytest.mark.soak
def test_hours_of_mutations(tmp_path):
    CASE.hours(tmp_path)
