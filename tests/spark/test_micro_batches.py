"""Workloads on Structured Streaming: what comes out is what plain Python gives, with workers killed on the way.

The session of the tests does not run a failed task again, so that every kill ends the query: it is started again.
"""

import pytest
from tests.papers.workloads import references

from riprap.streams import PersistentStream
from riprap_papers.peers.micro_batches import MicroBatchQuery, work
from riprap_papers.workloads.workload_catalogue import load_workload

S = 1_000_000
WANTED = {
    "nexmark-2": (references.selection, ["auction", "price"]),
    "nexmark-3": (lambda inputs: references.local_items(inputs, 15 * S), ["name", "city", "state", "auction"]),
    "nexmark-5": (lambda inputs: references.hot_items(inputs, 10 * S), ["_ts", "auction", "bids"]),
    "nexmark-6": (lambda inputs: references.selling_prices(inputs, 15 * S, 5 * S), ["_ts", "seller", "price", "items"]),
    "wordcount": (lambda inputs: references.word_counts(inputs, S), ["_ts", "word", "count", "total"]),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n == "wordcount" else [pytest.mark.soak]) for n in WANTED]
)
def test_a_killed_query_gives_every_row_once(spark, tmp_path, name):
    pace = 8.0
    workload = load_workload(name)
    inputs = workload.inputs(1_200, 7, rate=50, skew=None if name == "wordcount" else 0.8)
    batches = {source: table.combine_chunks().to_batches()[0] for source, table in inputs.items()}
    query = workload.query
    carried = query.carried and (query.carried.keeps, query.carried.by, query.carried.value)
    asked = MicroBatchQuery(query.sql("small"), carried, closes=query.closes, pace=pace)
    worked = work(spark, asked, batches, tmp_path, kill_after=1.5)
    assert worked.killed_at is not None
    assert worked.batches >= 2
    reference, columns = WANTED[name]
    found = []
    for item in PersistentStream.open(tmp_path / "Sink").read():
        lists = [item.batch.column(c).cast("int64") if c == "_ts" else item.batch.column(c) for c in columns]
        found += zip(*(values.to_pylist() for values in lists), strict=True)
    assert sorted(found) == sorted(reference(inputs))
