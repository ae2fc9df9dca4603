"""Memory grows with state and batch size, not with the length of the stream: keys and strings that no window remembers
are forgotten.
"""

import gc
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from riprap.engine.compiling import ROWS as ROWS_INTERPRETED
from riprap.engine.engine import Engine
from riprap.graph.builder import App
from riprap.graph.windows import count, punctuated, time, zero
from riprap.operators import windowed

ROWS = 1_000  # per batch, one per microsecond; every key and every string comes once
SHORT = 40  # batches
SCHEMA = "k string, s string, x long"


def batches(number: int):
    for j in range(number):
        ids = pa.array(np.arange(j * ROWS, (j + 1) * ROWS))
        text = pc.binary_join_element_wise("key", ids.cast(pa.string()), "-")
        columns = [text, pc.binary_join_element_wise("string", ids.cast(pa.string()), "-"), ids]
        ts = ids.cast(pa.timestamp("us", "UTC"))
        yield pa.RecordBatch.from_arrays([*columns, ts, ids], names=["k", "s", "x", "_ts", "_seq"])


def time_by_count(stream):
    return stream.aggregate("last(s) AS s", window=time("500us"), every=count(1), by="k", name="A")


def time_by_time(stream):
    return stream.aggregate("last(s) AS s", window=time("500us"), every=time("100us"), by=("k", "x"), name="A")


def tumbling(stream):
    return stream.aggregate("last(s) AS s", window=time("500us"), by="x", name="A")


def strings_without_keys(stream):
    return stream.aggregate("first(s) AS s", window=count(5), every=count(1), name="A")


def at_punctuations(stream):
    return stream.punctuate("x % 300 = 0", name="P").aggregate("last(s) AS s", window=punctuated(), by="k", name="A")


def join_of_times(stream):
    other = stream.select("k AS j", "s AS t", name="R")
    return stream.join(other, on=[("k", "j")], left_window=time("500us"), right_window=time("50us"), name="J")


def join_over_the_whole_port(stream):
    other = stream.select("k AS j", "s AS t", name="R")
    windows = {"left_window": count(500), "right_window": zero()}
    return stream.join(other, on=[("k", "j")], **windows, per_group=False, name="J")


def join_that_is_never_met(stream):
    """One key on the left, to which nothing ever comes on the right: nobody asks for its window."""
    left = stream.select("0 AS z", "s", name="L")
    right = stream.filter("x < 0", name="F").select("0 AS z", "s AS t", name="R")
    return left.join(right, on="z", left_window=time("500us"), right_window=count(1), name="J")


def sort(stream):
    return stream.sort("s desc", window=count(700), name="O")


def barrier(stream):
    return stream.barrier(stream.select("s AS t", name="R"), name="B")


APPS = [
    time_by_count, time_by_time, tumbling, strings_without_keys, at_punctuations, join_of_times,
    join_over_the_whole_port, join_that_is_never_met, sort, barrier,
]  # fmt: skip


def fed(build, number: int):
    """An engine that takes so many batches; gives it after each of them."""
    app = App("test")
    build(app.source("S", SCHEMA)).sink("Sink")
    engine = Engine(app.build())
    for batch in batches(number):
        engine.push("S", batch)
        yield engine


def peak(build, number: int) -> int:
    """Most bytes in use at any time, by NumPy and Python, and by Arrow after any batch."""
    gc.collect()
    arrow, arrow_before = 0, pa.total_allocated_bytes()
    tracemalloc.start(1)
    for _ in fed(build, number):
        arrow = max(arrow, pa.total_allocated_bytes() - arrow_before)
    own = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return own + arrow


@pytest.mark.parametrize("build", APPS, ids=lambda build: build.__name__)
def test_peak_does_not_grow_with_the_stream(build, monkeypatch):
    monkeypatch.setattr(windowed, "_LITTLE", 4_096)  # so that a short stream is long enough
    for _ in fed(build, 2 + ROWS_INTERPRETED // ROWS):
        pass  # compiles; under tracemalloc that takes several times as long
    short, long = peak(build, SHORT), peak(build, 3 * SHORT)
    assert long < 1.3 * short + 1_000_000, f"{short:,} bytes for the stream, {long:,} for one three times as long"
