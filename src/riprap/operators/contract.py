"""The operator contract: what protocols, replicas, checkpoints and campaigns rely on.

An operator is a deterministic state machine over batches. Between two calls it is at a consistent cut: it has no
threads, reads no clock, draws no random numbers and has no state but what `snapshot` returns. Its output
for a sequence of tuples does not depend on how the sequence is divided into batches.

Calls, all synchronous:
  process(channel, batch)           rows of one input channel, in order
  late(channel, batch, at)          rows that belong before rows already processed; closed windows stay closed
  process_merged(batches, ports)    rows of several ports, interleaved as in `ports`: in one call the
                                    same as `process` for each run of rows of one port
  punctuate(channel, punctuation)   a punctuation between two rows of a channel
  watermark(key)                    no row at or below this key will arrive on any channel
  end()                             no row will arrive on any channel
The engine handles protocol markers; an operator never sees them.

State: `snapshot()` returns all of it, `delta(since)` what changed since the version `since`, and `restore(parts)` loads
a snapshot and the deltas after it, in order. `digest()` returns a 64-bit hash per key over the logical content: two
operators with the same digest for a key emit the same output for the same further input of that key. `split_state` and
`merge_states` divide state by ranges of key hashes, for shards.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from riprap.base.errors import DataError
from riprap.graph.order_keys import KeyShape, OrderKey
from riprap.graph.specs import OperatorSpec
from riprap.operators.columns import Numbering


class Channel(NamedTuple):
    """Where a batch came from: the input port, and the shard of the upstream operator."""

    port: int
    shard: int = 0


@dataclass(frozen=True, slots=True)
class Punctuation:
    """A control message in a stream. Its key is that of the tuple before it, which may have been dropped since."""

    key: OrderKey


Event: TypeAlias = pa.RecordBatch | Punctuation


class Late(NamedTuple):
    """Rows or a punctuation that arrive behind the watermark of a merge.

    Their keys identify them; `at` is their place in the order: behind everything up to that key.
    """

    event: Any  # an Event, or rows as column views
    at: OrderKey
    again: bool = False  # an earlier incarnation processed them and emitted what they cause


class Emission(NamedTuple):
    """One output of an operator. The emissions of a call are in stream order."""

    port: int
    event: Event | Any  # `Late` for late rows
    # For each row the (merged) input row of the call that caused it, non-decreasing. None: row i caused row i, or a
    # control message caused all.
    triggers: np.ndarray | None = None


@dataclass(frozen=True)
class OperatorState:
    """State of one operator at a cut, as Arrow tables and integers.

    A table called `X.keys` has one row per key: the key's columns, `_hash` (uint64), `_head` and `_tail` (range of
    insertion indices in the window) and `_rows` (how many of them `X.rows` contains). `X.rows` has those rows,
    key by key, oldest first.
    """

    version: int  # grows with every input row, and with every control message that changed something
    since: int | None = None  # for a delta: the version that it is based on
    scalars: Mapping[str, int] = field(default_factory=dict)
    tables: Mapping[str, pa.RecordBatch] = field(default_factory=dict)
    blob: bytes = b""  # the state of a user-defined operator

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in self.tables.values()) + len(self.blob)


class Digest(NamedTuple):
    """Hashes of keys, ascending, and the digest of each key's state (both uint64). Keys without state are absent."""

    keys: np.ndarray
    digests: np.ndarray


@dataclass(frozen=True)
class Setting:
    """What an operator knows about its place in the graph."""

    spec: OperatorSpec
    schemas: tuple[pa.Schema, ...]  # user's columns of each input
    shapes: tuple[KeyShape, ...]  # key shape of each input
    output_schemas: tuple[pa.Schema, ...]
    output_shapes: tuple[KeyShape, ...]
    wanted: tuple[frozenset[str], ...]  # for each output the columns that a downstream operator reads


class Operator(ABC):
    """One running operator. Subclasses implement `process`, and state if they have any."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.version = 0  # of the state: counts input rows and control messages that changed something

    @abstractmethod
    def process(self, channel: Channel, batch: pa.RecordBatch) -> list[Emission]:
        """Process rows of one channel."""

    def process_merged(self, batches: Sequence[pa.RecordBatch], ports: np.ndarray) -> list[Emission]:
        """Process rows of several ports. `ports[k]` is the port of row k; the rows of a port are in the order of its
        batch.
        """
        emissions: list[Emission] = []
        consumed = [0] * len(batches)
        for start, stop in _runs(ports):
            port = int(ports[start])
            rows = batches[port].slice(consumed[port], stop - start)
            consumed[port] += stop - start
            for emission in self.process(Channel(port), rows):
                triggers = np.arange(rows.num_rows) if emission.triggers is None else emission.triggers
                emissions.append(emission._replace(triggers=triggers + start))
        return emissions

    def late(self, channel: Channel, batch: pa.RecordBatch, at: OrderKey) -> list[Emission]:
        """Process rows that arrive late, at a key that `watermark` has announced. By default like other rows.

        What they cause has their keys and concerns them alone: closed time windows stay closed.
        """
        return self.process(channel, batch)

    def punctuate(self, channel: Channel, punctuation: Punctuation) -> list[Emission]:
        """By default a punctuation passes to every output."""
        return [Emission(port, punctuation) for port in range(self.setting.spec.outputs)]

    def watermark(self, key: OrderKey) -> list[Emission]:
        return []

    def end(self) -> list[Emission]:
        return []

    def output_watermark(self, key: OrderKey) -> OrderKey:
        """The output watermark for the input watermark `key`: no output at or below it will follow."""
        return key

    def next_boundary(self) -> int | None:
        """The next time (`_ts`) at which the operator may emit because time passes; None: it has nothing to emit."""
        return None

    # State; the defaults suit a stateless operator -----------------------------------------------------------------

    def snapshot(self) -> OperatorState:
        return OperatorState(self.version)

    def delta(self, since: int) -> OperatorState:
        """What changed since `since`, a version that `snapshot` or `delta` returned; a snapshot if that is too old."""
        return self.snapshot()

    def restore(self, parts: Sequence[OperatorState]) -> None:
        """Replace the state with a snapshot and the deltas that follow it."""
        check_chain(parts)
        self.version = parts[-1].version

    def digest(self) -> Digest:
        return Digest(np.empty(0, np.uint64), np.empty(0, np.uint64))

    def digest_of(self, keys: np.ndarray) -> np.ndarray:
        """The digest of each of these keys (hashes), as in `digest`; 0 where a key has no state."""
        return np.zeros(len(keys), np.uint64)

    def image(self) -> Any:
        """A copy of the state in its memory layout, for `put_back`; None if the operator supports `snapshot` only."""
        return None

    def put_back(self, image: Any) -> bool:
        """Return to the state of an image, far faster than `restore`; False if that is impossible."""
        return False

    def size(self) -> int:
        """Tuples in the state."""
        return 0

    def port_size(self, port: int) -> int:
        """The tuples in the state that arrived on one port, if the operator can tell."""
        return self.size() if port == 0 else 0

    retains = False  # whether `retained` is meaningful: the operator is wrong after losing a tuple of its state

    def retained(self, port: int) -> int:
        """How many of the newest tuples of a port are in the state, for an operator that needs all of them."""
        return 0


def _runs(ports: np.ndarray) -> list[tuple[int, int]]:
    """Maximal runs of equal entries, as [start, stop)."""
    if not len(ports):
        return []
    cuts = np.flatnonzero(ports[1:] != ports[:-1]) + 1
    edges = [0, *cuts.tolist(), len(ports)]
    return list(itertools.pairwise(edges))


def check_chain(parts: Sequence[OperatorState]) -> None:
    """Check that a snapshot comes first, and that each delta is based on the version before it."""
    if not parts or parts[0].since is not None:
        raise DataError("the first part of a state must be a snapshot, followed by deltas; here it is a delta")
    for before, after in itertools.pairwise(parts):
        if after.since != before.version:
            raise DataError(f"a delta since version {after.since} does not follow a state of version {before.version}")


# State by ranges of key hashes ----------------------------------------------------------------------------------------


def split_state(state: OperatorState, bounds: Sequence[int]) -> list[OperatorState]:
    """Divide by key hash at `bounds` (ascending): below the first, from each to the next, from the last upwards."""
    if state.blob and bounds:
        raise DataError("the state of a user-defined operator cannot be divided by key")
    edges = np.array([0, *bounds], np.uint64)
    shards: list[dict[str, pa.RecordBatch]] = [{} for _ in edges]
    for name, keys in state.tables.items():
        if not name.endswith(".keys"):
            continue
        rows_name = name.removesuffix("keys") + "rows"
        rows = state.tables[rows_name]
        shard = np.searchsorted(edges, keys["_hash"].to_numpy(), side="right") - 1
        shard_of_row = np.repeat(shard, keys["_rows"].to_numpy())
        for index, tables in enumerate(shards):
            tables[name] = keys.filter(pa.array(shard == index))
            tables[rows_name] = rows.filter(pa.array(shard_of_row == index))
    return [OperatorState(state.version, state.since, state.scalars, tables, state.blob) for tables in shards]


def merge_states(states: Sequence[OperatorState]) -> OperatorState:
    """The state of one operator that has all these keys. No key may be in two states."""
    tables: dict[str, pa.RecordBatch] = {}
    for name in states[0].tables:
        parts = [state.tables[name] for state in states]
        if name.endswith(".keys"):
            hashes = np.concatenate([part["_hash"].to_numpy() for part in parts])
            if len(np.unique(hashes)) < len(hashes):
                raise DataError("two of the states to merge have the same key; split them by key ranges first")
        tables[name] = _concatenated(parts)
    newest = max(states, key=lambda state: [state.scalars.get(name, 0) for name in Numbering.NAMES])
    scalars = {name: max(state.scalars[name] for state in states) for name in states[0].scalars}
    numbers = {name: newest.scalars[name] for name in Numbering.NAMES if name in scalars}  # all of one trigger
    return OperatorState(
        max(state.version for state in states), states[0].since, scalars | numbers, tables, states[0].blob
    )


def _concatenated(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    table = pa.Table.from_batches([_decoded(batch) for batch in batches]).combine_chunks()
    return table.to_batches()[0] if table.num_rows else _decoded(batches[0])


def _decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Decode dictionaries, which differ between batches."""
    arrays = [array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array for array in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
