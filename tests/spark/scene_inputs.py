"""Inputs of scenes, and what should come of them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from riprap.apps.catalogue import load_app
from riprap.apps.samples import cache_directory, sample_inputs
from riprap.engine.engine import Engine
from riprap.engine.inputs import keyed, read_file

BARGAINS = "bargain-discovery"


def market(tuples):
    """A file by source."""
    return sample_inputs(load_app(BARGAINS), tuples, 1, cache_directory())


def market_table(tuples):
    return pa.Table.from_batches(read_file(market(tuples)["Source"]))


def numbers_table(rows=2_000_000, **constants):
    """x counts from 0, a row each microsecond."""
    counted = pa.array(np.arange(rows))
    columns = {name: pa.array(np.full(rows, value)) for name, value in constants.items()}
    return pa.table({"x": counted, **columns, "_ts": counted.cast(pa.timestamp("us", "UTC")), "_seq": counted})


def numbers_file(place, rows):
    path = place / "numbers.parquet"
    pq.write_table(numbers_table(rows), path)
    return path


def bounded(graph, inputs):
    """What the engine gives out at the only sink when it reads the whole input, a file or a table by source."""
    read = {name: each.to_batches() if isinstance(each, pa.Table) else read_file(each) for name, each in inputs.items()}
    batches = {name: keyed(read[name], graph[name]) for name in inputs}
    return pa.Table.from_batches([batch for _, batch in Engine(graph).run(batches)])


def same(found, expected):
    assert found.num_rows == expected.num_rows
    assert set(found.schema.names) == set(expected.schema.names)
    for name in expected.schema.names:
        assert found[name].combine_chunks().to_pylist() == expected[name].combine_chunks().to_pylist(), name


def counts_add_up(summary):
    for name, stream in summary["streams"].items():
        assert stream["sent"] == stream["received"] + stream["lost"], name
        assert stream["lost"] >= 0, name
