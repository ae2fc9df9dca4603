"""Reading ahead changes nothing but when a batch is read, and leaves no thread behind."""

import threading

import pyarrow as pa
import pytest

from riprap.base.errors import DataError
from riprap.engine.inputs import read_ahead

COUNT = 20


def batch(number: int) -> pa.RecordBatch:
    return pa.record_batch({"number": pa.array([number])})


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("riprap-reading")]


def test_everything_comes_in_its_order():
    assert list(read_ahead(batch(at) for at in range(COUNT))) == [batch(at) for at in range(COUNT)]
    assert not readers()


def test_a_row_group_is_begun_before_it_is_asked_for():
    """And some are read before the first is, but not all of them."""
    read: list[int] = []
    several = threading.Event()

    def batches():
        for at in range(COUNT):
            read.append(at)
            if at == 2:
                several.set()
            yield batch(at)

    ahead = read_ahead(batches())
    assert several.wait(60)
    assert next(ahead) == batch(0)
    ahead.close()
    assert len(read) < COUNT
    assert not readers()


def test_what_goes_wrong_is_raised_behind_what_was_read():
    def batches():
        yield batch(0)
        raise DataError("unreadable")

    ahead = read_ahead(batches())
    assert next(ahead) == batch(0)
    with pytest.raises(DataError, match="unreadable"):
        next(ahead)
    assert not readers()
