"""The workloads as queries of Structured Streaming: over inputs that are all there, they give what plain Python gives.

What a stream adds, that windows close by watermark and that numbers are kept per key, is in `test_micro_batches.py`.
"""

from collections import defaultdict

import pytest
from tests.papers.workloads import references

from riprap_papers.workloads.workload_catalogue import WORKLOADS, load_workload

S = 1_000_000


def queried(spark, name, windows, inputs):
    """Rows of a query, each with its time in µs in front, but for `_seq`; what is kept per key is applied here."""
    query = load_workload(name).query
    for source, table in inputs.items():
        spark.createDataFrame(table).createOrReplaceTempView(source)
    found = spark.sql(query.sql(windows))
    names = [name for name in found.columns if name not in ("_ts", "_seq")]
    rows = [(row["_seq"], *(row[name] for name in names)) for row in found.collect()]
    if query.carried is None:
        return rows
    kept, carried = defaultdict(int), []
    value, by = names.index(query.carried.value) + 1, names.index(query.carried.by) + 1
    for row in sorted(rows):
        if query.carried.keeps == "total":
            kept[row[by]] += row[value]
            carried.append((*row, kept[row[by]]))
        elif row[value] > kept[row[by]]:
            kept[row[by]] = row[value]
            carried.append(row)
    return carried


def test_all_but_cycles_are_written():
    assert [name for name, workload in WORKLOADS.items() if workload.query is None] == ["nhop"]


def test_selection(spark):
    inputs = load_workload("nexmark-2").inputs(2_000, 1)
    assert [row[1:] for row in sorted(queried(spark, "nexmark-2", "small", inputs))] == references.selection(inputs)


@pytest.mark.parametrize(("windows", "window"), [("large", 30 * S), ("small", 15 * S)])
def test_local_items(spark, windows, window):
    inputs = load_workload("nexmark-3").inputs(3_000, 2, rate=60)
    found = [row[1:] for row in queried(spark, "nexmark-3", windows, inputs)]
    assert sorted(found) == sorted(references.local_items(inputs, window))
    assert len(found) > 50


@pytest.mark.parametrize(("windows", "window"), [("large", 30 * S), ("small", 10 * S)])
def test_hot_items(spark, windows, window):
    inputs = load_workload("nexmark-5").inputs(2_000, 3, rate=100, skew=0.8)
    found = queried(spark, "nexmark-5", windows, inputs)
    assert sorted(found) == sorted(references.hot_items(inputs, window))


@pytest.mark.parametrize(("windows", "window", "tumbling"), [("large", 30 * S, 15 * S), ("small", 15 * S, 5 * S)])
def test_selling_prices(spark, windows, window, tumbling):
    inputs = load_workload("nexmark-6").inputs(4_000, 4, rate=80)
    found = queried(spark, "nexmark-6", windows, inputs)
    assert sorted(found) == sorted(references.selling_prices(inputs, window, tumbling))
    assert len(found) > 20


@pytest.mark.parametrize(("windows", "window"), [("large", 10 * S), ("small", S)])
def test_word_counts(spark, windows, window):
    inputs = load_workload("wordcount").inputs(1_000, 5, rate=80)
    assert sorted(queried(spark, "wordcount", windows, inputs)) == references.word_counts(inputs, window)
