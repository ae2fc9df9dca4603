"""Expressions on one batch of 64k rows: against Arrow's own compute functions, and per row."""

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.harness import Result, at_most, side_by_side
from riprap.base.randomness import generator
from riprap.expressions import bind, parse

ROWS = 65_536
CALLS = 200

# Text of a condition, and the same with Arrow's compute functions.
CONDITIONS: dict[str, Callable[[pa.RecordBatch], pa.Array]] = {
    "price > 100.0": lambda batch: pc.greater(batch["price"], 100.0),
    "vwap > price": lambda batch: pc.greater(batch["vwap"], batch["price"]),
    "type = 'TRADE'": lambda batch: pc.equal(batch["type"], "TRADE"),
}


def market() -> pa.RecordBatch:
    rng = generator(0, "bench_expressions")
    return pa.RecordBatch.from_pydict(
        {
            "price": rng.uniform(50, 150, ROWS),
            "vwap": rng.uniform(50, 150, ROWS),
            "type": pa.DictionaryArray.from_arrays(
                pa.array((rng.random(ROWS) < 0.2).astype(np.int32)), pa.array(["QUOTE", "TRADE"])
            ),
        }
    )


def repeated(run: Callable[[], object]) -> Callable[[], None]:
    def runs() -> None:
        for _ in range(CALLS):
            run()

    return runs


def run() -> Iterable[Result]:
    batch = market()
    for text, arrow in CONDITIONS.items():
        condition = bind(parse(text), batch.schema)
        assert condition.selection(batch).tolist() == pc.indices_nonzero(arrow(batch)).to_pylist()
        taken = side_by_side(
            {
                "ours": repeated(lambda condition=condition: condition.selection(batch)),
                "arrow": repeated(lambda arrow=arrow: pc.indices_nonzero(arrow(batch))),
            }
        )
        per_row = taken["ours"] / CALLS / ROWS * 1e9
        ratio = taken["arrow"] / taken["ours"]
        how = (
            f"selection of `{text}`, one batch of {ROWS:,} rows, one core; {ratio:.1f} times as fast as pyarrow.compute"
        )
        yield at_most(f"expressions: {text}", per_row, 1.5, how, "ns/row")
