"""Ledgers: counts go on from life to life, whatever a life that was killed at its birth left behind."""

import pytest

from riprap.base.errors import DataError
from riprap.graph.order_keys import START_KEY, OrderKey
from riprap.protocols.channels import ChannelId
from riprap.runtime.element.ledger import Ledger, LedgerShape, memory_ledger, open_ledger, read_ledger
from riprap.testing.simulated import Cells

IN, OUT = ChannelId("A→B"), ChannelId("B→C", 1, 2)
SHAPE = LedgerShape((IN,), (OUT, ChannelId("Sink")), ("B",), ("S",), (IN,))


def test_a_life_goes_on_with_the_counts_of_the_one_before(tmp_path):
    first = open_ledger(tmp_path, 1, SHAPE)
    first.inputs[IN].next = 7
    first.inputs[IN].missed += 5
    second = open_ledger(tmp_path, 2, SHAPE)
    second.inputs[IN].missed += 1
    first.inputs[IN].missed += 100  # it does not know that it was replaced
    read = read_ledger(tmp_path, SHAPE).inputs[IN]
    assert (read.next, read.missed, read.received) == (7, 6, 1)


def test_records_do_not_touch_each_other(tmp_path):
    ledger = open_ledger(tmp_path, 1, SHAPE)
    kinds = (ledger.inputs, ledger.outputs, ledger.operators, ledger.sources, ledger.missed)
    records = [record for kind in kinds for record in kind.values()]
    assert ledger.outputs[OUT].key == ledger.operators["B"].key == START_KEY
    cells = [record.at + offset for record in records for offset in range(record.WIDTH)]
    assert cells == list(range(SHAPE.cells))
    ledger.outputs[OUT].key = OrderKey(-5, 1, 2, 3)
    ledger.outputs[OUT].number = 9
    again = read_ledger(tmp_path, SHAPE)
    assert (again.outputs[OUT].key, again.outputs[OUT].number) == (OrderKey(-5, 1, 2, 3), 9)
    assert again.operators["B"].key == START_KEY
    assert sum(map(bool, again.cells)) == 5


def test_a_call_counts_whole_or_not_at_all(tmp_path):
    """A life that is killed at any store of a call leaves what was before it, or all of it."""
    first = open_ledger(tmp_path, 1, SHAPE)
    first.inputs[IN].next, first.outputs[OUT].number, first.outputs[OUT].key = 3, 4, OrderKey(1, 1, 1, 1)

    class Killed(Exception):
        pass

    def call(ledger):
        ledger.begin()
        ledger.inputs[IN].next = 7
        ledger.sources["S"].position = 10
        ledger.outputs[OUT].number, ledger.outputs[OUT].key = 9, OrderKey(5, 5, 5, 5)
        ledger.commit()

    def counted(ledger):
        outlet = ledger.outputs[OUT]
        return ledger.inputs[IN].next, ledger.sources["S"].position, outlet.number, outlet.key

    before, after = (3, 0, 4, OrderKey(1, 1, 1, 1)), (7, 10, 9, OrderKey(5, 5, 5, 5))
    found = []
    for stores in range(100):
        left = iter(range(stores))

        def stored(left=left):
            if next(left, None) is None:
                raise Killed

        cells = memoryview(bytearray(first.cells.tobytes())).cast("q")
        try:
            call(Ledger(SHAPE, Cells(cells, stored)))
        except Killed:
            found.append(counted(memory_ledger(SHAPE, Ledger(SHAPE, cells))))
            continue
        break
    assert set(found) == {before}
    assert len(found) > SHAPE.cells
    assert counted(memory_ledger(SHAPE, Ledger(SHAPE, cells))) == after


def test_the_ledger_of_another_layout_is_refused(tmp_path):
    open_ledger(tmp_path, 1, SHAPE)
    other = LedgerShape((ChannelId("A→X"),), SHAPE.outputs, SHAPE.operators, SHAPE.sources, ())
    with pytest.raises(DataError, match="another layout"):
        read_ledger(tmp_path, other)


def test_what_was_missed_and_comes_after_all_is_found_once():
    missed = memory_ledger(SHAPE).missed[IN]
    for first in (0, 10, 12, 30):
        missed.add(first, first + 2)
    assert missed.ranges == [(0, 2), (10, 14), (30, 32)]
    assert [missed.remove(1, 11), missed.remove(1, 11), missed.remove(12, 13)] == [2, 0, 1]
    assert missed.ranges == [(0, 1), (11, 12), (13, 14), (30, 32)]
    missed.add(40, 41)
    assert missed.ranges == [(11, 12), (13, 14), (30, 32), (40, 41)]  # the newest are known
    assert missed.remove(0, 100) == 5
    assert missed.ranges == []


def test_a_life_killed_at_its_birth_leaves_the_counts_alone(tmp_path, monkeypatch):
    open_ledger(tmp_path, 1, SHAPE).inputs[IN].next = 7

    class Killed(BaseException):
        pass

    def kill(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("riprap.base.files.rename", kill)
        with pytest.raises(Killed):
            open_ledger(tmp_path, 2, SHAPE)
    assert open_ledger(tmp_path, 3, SHAPE).inputs[IN].next == 7
