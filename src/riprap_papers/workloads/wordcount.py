"""WordCount: how often each word occurs, per window and in total.

    Line → Words → Count → Total → Sink

Words splits lines at blanks, Count counts each word in a tumbling window, and Total, in one place, adds the counts up.
"""

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riprap.base.randomness import generator
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.windows import time
from riprap.operators.user import Rows, UserOperator
from riprap_papers.workloads.workload import (
    Carried,
    PublishedWorkload,
    Query,
    Windows,
    Workload,
    moments,
    ranks,
    spelled,
    table,
)

WINDOWS = {"large": "10s", "small": "1s"}
VOCABULARY = 1_000
WORDS_PER_LINE = 8
NATURAL_SKEW = 1.0  # of words in text


class Words(UserOperator):
    """One output per word of the line."""

    stateful = False

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> list[pa.Schema]:
        return [pa.schema([pa.field("word", pa.string(), nullable=False)])]

    def process(self, port: int, batch: pa.RecordBatch) -> list[Rows]:
        lines = batch.column("line")
        text = lines.dictionary_decode() if isinstance(lines, pa.DictionaryArray) else lines
        words = pc.split_pattern(pc.utf8_trim_whitespace(text), " ")
        flat, lengths = words.flatten(), pc.list_value_length(words).to_numpy(zero_copy_only=False)
        rows = np.repeat(np.arange(batch.num_rows), lengths)
        kept = pc.not_equal(flat, "")
        triggers = rows[kept.to_numpy(zero_copy_only=False)]
        return [Rows(pa.record_batch([flat.filter(kept)], names=["word"]), triggers)]


class Total(UserOperator):
    """The running total of each word. It gets one row per word and window: not a hot path."""

    one_per_trigger = True

    def __init__(self) -> None:
        self.totals: dict[str, int] = {}

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> list[pa.Schema]:
        return [pa.schema([*inputs[0], pa.field("total", pa.int64(), nullable=False)])]

    def process(self, port: int, batch: pa.RecordBatch) -> list[Rows]:
        totals = []
        for word, count in zip(batch.column("word").to_pylist(), batch.column("count").to_pylist(), strict=True):
            self.totals[word] = self.totals.get(word, 0) + count
            totals.append(self.totals[word])
        columns = [batch.column("word"), batch.column("count"), pa.array(totals, pa.int64())]
        return [Rows(pa.record_batch(columns, names=["word", "count", "total"]))]

    def save(self) -> bytes:
        return json.dumps(sorted(self.totals.items())).encode()

    def load(self, saved: bytes) -> None:
        self.totals = dict(json.loads(saved))

    def size(self) -> int:
        return len(self.totals)


def build(windows: Windows = "large") -> Graph:
    app = App("wordcount")
    lines = app.source("Line", "line string not null")
    (words,) = lines.apply(Words, name="Words")
    counts = words.aggregate("count(*) AS count", window=time(WINDOWS[windows]), by="word", name="Count")
    (totals,) = counts.apply(Total, name="Total")
    totals.sink("Sink")
    return app.build()


def generate(tuples: int, seed: int, rate: float, skew: float | None) -> dict[str, pa.Table]:
    """Lines of words whose frequencies follow Zipf's law."""
    draws = generator(seed, "wordcount")
    chosen = ranks(draws, tuples * WORDS_PER_LINE, VOCABULARY, NATURAL_SKEW if skew is None else skew)
    words = pa.array([f"word{number}" for number in range(VOCABULARY)])
    lists = pa.ListArray.from_arrays(np.arange(0, len(chosen) + 1, WORDS_PER_LINE), words.take(pa.array(chosen)))
    return {"Line": table({"line": pc.binary_join(lists, " ")}, moments(tuples, rate))}


def query(windows: Windows) -> str:
    return f"""
        SELECT word, count(*) AS count, window.end AS _ts, unix_micros(window.end) AS _seq
        FROM (SELECT _ts, explode(split(line, ' ')) AS word FROM Line) WHERE word <> ''
        GROUP BY window(_ts, '{spelled(WINDOWS[windows])}'), word"""


WORKLOAD = Workload(
    name="wordcount",
    build=build,
    generate=generate,
    published=PublishedWorkload(
        rates={"large": 6_000, "small": 17_000},
        shards={"Line": 8, "Words": 8, "Count": 7, "Total": 1},
        killed="Count",
    ),
    query=Query(query, Carried("total", "word", "count"), closes=True),
    speaks_after={"large": 10.0, "small": 1.0},
)
