"""The output of an app at one sink, as arrays; and the difference of two outputs.

Outputs are matched on the whole order key. Tuples with the same key differ if any of their columns differs.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from riprap.engine.engine import Output
from riprap.faults.recording import Recording
from riprap.faults.scoring import Score
from riprap.graph.graph import Graph
from riprap.graph.order_keys import KEY_COLUMNS, KeyShape
from riprap.operators.columns import ALL_VALID, keys_of, to_words
from riprap.operators.groups import fold_column
from riprap.operators.kernels.hashing import hash_words
from riprap.operators.strings import StringPool


class OutputRows(NamedTuple):
    """Output tuples in the order of emission; all arrays have one entry per tuple."""

    position: np.ndarray  # int64, of the source tuple with its key
    identity: np.ndarray  # uint64, one-to-one with order keys (a 64-bit hash where `_seq` alone is not enough)
    content: np.ndarray  # uint64, a hash over all columns
    value: np.ndarray  # its contribution to the score; float64, or the columns that the score reads

    def rows(self, chosen: np.ndarray) -> "OutputRows":
        return OutputRows(*(column[chosen] for column in self))

    @property
    def size(self) -> int:
        return len(self.position)


def no_rows(score: Score) -> OutputRows:
    return OutputRows(np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0, np.uint64), score.nothing)


def joined(parts: list[OutputRows]) -> OutputRows:
    """Concatenates one or more."""
    return OutputRows(*map(np.concatenate, zip(*parts, strict=True)))


@dataclass(frozen=True)
class SinkReader:
    """Converts the output at one sink to arrays."""

    sink: str
    shape: KeyShape
    schema: pa.Schema
    score: Score
    recording: Recording
    pool: StringPool

    def read(self, outputs: Iterable[Output]) -> OutputRows:
        events = (out.event for out in outputs if out.name == self.sink)
        rows = [self._rows(event) for event in events if isinstance(event, pa.RecordBatch) and event.num_rows]
        return joined([no_rows(self.score), *rows])

    def _rows(self, batch: pa.RecordBatch) -> OutputRows:
        keys = keys_of(batch, self.shape)
        if self.shape.src is not None and self.shape.src >= 0 and not self.shape.n:
            identity = keys.seq.astype(np.uint64)
        else:
            identity = np.zeros(batch.num_rows, np.uint64)
            for part in keys:
                hash_words(np.ascontiguousarray(np.broadcast_to(part, batch.num_rows)), ALL_VALID, identity)
        content = np.zeros(batch.num_rows, np.uint64)
        for field in self.schema:
            if field.name not in KEY_COLUMNS:
                fold_column(to_words(batch.column(field.name), self.pool), field.type, self.pool, content)
        # What time emits after the last tuple belongs to the last section.
        position = np.minimum(self.recording.positions_of(keys), self.recording.tuples - 1)
        return OutputRows(position, identity, content, self.score.values(batch))


def sink_reader(graph: Graph, sink: str, score: Score, recording: Recording) -> SinkReader:
    shape = graph.input_shapes(sink)[0]
    return SinkReader(sink, shape, graph.input_schemas(sink)[0], score, recording, StringPool())


def among(known: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Whether each of `wanted` is in `known`, which is ascending."""
    if not len(known):
        return np.zeros(len(wanted), bool)
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.asarray(known[at] == wanted)


class Difference(NamedTuple):
    """How a faulty output differs from the golden one: golden rows that are missing or different, and added rows."""

    removed: np.ndarray  # int64, rows of the golden output
    added: OutputRows

    def identities(self, golden: OutputRows) -> np.ndarray:
        """Keys that are missing, extra or different; ascending."""
        return np.unique(np.concatenate([golden.identity[self.removed], self.added.identity]))


def difference(golden: OutputRows, among: np.ndarray, faulty: OutputRows) -> Difference:
    """Compare the rows `among` of the golden output (ascending) with a faulty output."""
    expected = golden.identity[among]
    order, number = _numbered(expected)
    others, _ = _numbered(faulty.identity)
    sorted_faulty = faulty.identity[others]
    at = np.searchsorted(sorted_faulty, expected[order]) + number
    present = at < len(sorted_faulty)
    present[present] = sorted_faulty[at[present]] == expected[order][present]
    same = np.zeros(len(expected), bool)
    same[present] = faulty.content[others[at[present]]] == golden.content[among[order[present]]]
    untouched = np.zeros(faulty.size, bool)
    untouched[others[at[same]]] = True
    return Difference(np.sort(among[order[~same]]), faulty.rows(np.flatnonzero(~untouched)))


def _numbered(identities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows by identity, and the index of each among the rows with its identity (duplicates share one)."""
    order = np.argsort(identities, kind="stable")
    ranked = identities[order]
    begins = np.searchsorted(ranked, ranked)
    return order, np.arange(len(ranked)) - begins


def applied(golden: OutputRows, difference: Difference) -> OutputRows:
    """The faulty output, in no particular order."""
    remains = np.ones(golden.size, bool)
    remains[difference.removed] = False
    return joined([golden.rows(np.flatnonzero(remains)), difference.added])
