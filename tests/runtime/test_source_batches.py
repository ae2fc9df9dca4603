"""How much a source gives at once follows how long that takes behind it."""

from types import SimpleNamespace

import pyarrow as pa
import pytest

from riprap.runtime.element.sources import Sources

ROWS = 1_000_000


class Clock:
    """Stands still, but for what work says that it took."""

    def __init__(self):
        self.at = 0.0

    def monotonic(self):
        return self.at

    def now(self):
        return round(self.at * 1e6) + 1


class Numbers:
    """A feed of so many rows."""

    watermark = None

    def __init__(self):
        self.position = 0

    @property
    def ended(self):
        return self.position == ROWS

    def next(self, most):
        first, self.position = self.position, min(self.position + most, ROWS)
        rows = pa.record_batch({"x": pa.array(range(first, self.position), pa.int64())})
        return rows if rows.num_rows else None


def taken(seconds_a_row, batch_rows=65_536):
    """Rows of each batch, and the numbers in them, where a row takes so long."""
    clock, batches, numbers = Clock(), [], []
    ledger = SimpleNamespace(sources={"S": SimpleNamespace(started_at=0, position=0)})
    sources = Sources({"S": Numbers()}, None, ledger, clock, batch_rows)

    def push(name, batch, position, born):
        clock.at += batch.num_rows * seconds_a_row
        batches.append(batch.num_rows)
        numbers.extend(batch.column(0).to_pylist())

    while sources.pull(push, lambda name, key: None):
        pass
    assert numbers == list(range(ROWS))
    return batches


def test_batches_grow_to_the_largest_while_they_are_quick():
    batches = taken(1e-9)
    assert batches[:6] == [4096, 8192, 16384, 32768, 65536, 65536]
    assert taken(1e-9, batch_rows=1000)[0] == 1000  # where the largest are smaller


@pytest.mark.parametrize("seconds_a_row", [1e-5, 1e-4, 3e-4])
def test_a_turn_comes_to_an_end_within_half_a_second(seconds_a_row):
    batches = taken(seconds_a_row)
    settled = batches[8:-1]  # the first may have been too large, the last is what is left
    assert max(settled) * seconds_a_row < 0.5
    assert min(settled) >= 256
    assert min(settled) * seconds_a_row > 0.02 or min(settled) == 256


def test_however_long_a_row_takes_it_goes_on():
    assert taken(1.0)[-2] == 256
