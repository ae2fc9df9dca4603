"""The operator contract: what protocols, replicas, checkpoints and campaigns rely on.

An operator is a deterministic state machine over batches. Between two calls it is at a consistent cut: it has no
threads, reads no clock, draws no random numbers and holds nothing back but the state that it shows. Its output for a
sequence of tuples is the same however the sequence is cut into batches.

Calls, all synchronous:
  process(channel, batch)           rows of one input channel, in order
  late(channel, batch, at)          rows that belong before what it has had: the same, but for windows that are closed
  process_merged(batches, ports)    rows of several ports, interleaved as `ports` says: the same as `process` for each
  run of rows
                                    of one port, in one call
  punctuate(channel, punctuation)   a punctuation between two rows of a channel
  progress(key)                     nothing at or below this key will come on any channel
  end()                             nothing will come on any channel
Markers of protocols are handled around the operator; it never sees them.

State: `snapshot()` is all of it, `delta(since)` what has changed since the version `since`, `restore(parts)` puts a
snapshot and the deltas after it back, in order. `digest()` is a 64-bit hash per key over the logical content: two
operators with the same digest for a key give the same output for the same further input of that key. `split_state` and
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
    """A mark between two tuples of a stream. Its key is that of the tuple before it, if that was not dropped since."""

    key: OrderKey


Event: TypeAlias = pa.RecordBatch | Punctuation


class Late(NamedTuple):
    """Rows or a punctuation that come behind what has passed already: a merge had gone on without them.

    Their keys say who they are, and `at` where they are in the order: behind everything up to that key.
    """

    event: Any  # an Event, or rows as column views
    at: OrderKey
    again: bool = False  # the operators had them in another life, which gave out what they cause


class Emission(NamedTuple):
    """Something an operator gave out. Emissions of a call are in the order of their streams."""

    port: int
    event: Event | Any  # where rows came late, `Late`
    # For each row, the (merged) row of the call's input that caused it, never falling; None: row i by row i, or by a
    # control.
    triggers: np.ndarray | None = None


@dataclass(frozen=True)
class OperatorState:
    """State of one operator at a cut, as Arrow tables and whole numbers.

    A table called `X.keys` has one row per key: the key's columns, `_hash` (uint64), `_head` and `_tail` (range of
    insertion indices in the window) and `_rows` (how many of them follow here). `X.rows` has those rows, key after key,
    oldest first.
    """

    version: int  # rises with every change of the state: input rows, and controls that changed something
    since: int | None = None  # for a delta: the version that it goes on from
    scalars: Mapping[str, int] = field(default_factory=dict)
    tables: Mapping[str, pa.RecordBatch] = field(default_factory=dict)
    blob: bytes = b""  # a user-defined operator's own

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in self.tables.values()) + len(self.blob)


class Digest(NamedTuple):
    """Hashes of keys, ascending, and the digest of each key's state (both uint64). A key without state is not there."""

    keys: np.ndarray
    digests: np.ndarray


@dataclass(frozen=True)
class Setting:
    """What an operator has to know about where it stands in the graph."""

    spec: OperatorSpec
    schemas: tuple[pa.Schema, ...]  # user's columns of each input
    shapes: tuple[KeyShape, ...]  # key shape of each input
    output_schemas: tuple[pa.Schema, ...]
    output_shapes: tuple[KeyShape, ...]
    wanted: tuple[frozenset[str], ...]  # for each output the columns that anything downstream reads


class Operator(ABC):
    """One running operator. Subclasses implement `process`, and state if they have any."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.version = 0  # of the state: input rows taken so far, and controls that changed something

    @abstractmethod
    def process(self, channel: Channel, batch: pa.RecordBatch) -> list[Emission]:
        """Take rows of one channel."""

    def process_merged(self, batches: Sequence[pa.RecordBatch], ports: np.ndarray) -> list[Emission]:
        """Take rows of several ports: `ports[k]` is the port of the k-th row; rows of a port come in its batch's
        order.
        """
        emissions: list[Emission] = []
        taken = [0] * len(batches)
        for start, stop in _runs(ports):
            port = int(ports[start])
            rows = batches[port].slice(taken[port], stop - start)
            taken[port] += stop - start
            for emission in self.process(Channel(port), rows):
                triggers = np.arange(rows.num_rows) if emission.triggers is None else emission.triggers
                emissions.append(emission._replace(triggers=triggers + start))
        return emissions

    def late(self, channel: Channel, batch: pa.RecordBatch, at: OrderKey) -> list[Emission]:
        """Take rows that come late, at a key that `watermark` has told. By default like any others.

        What they cause has their keys. It must not say anything of other rows: windows of time that are closed stay so.
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
        """What progress of the input to `key` means for the outputs: nothing at or below the result will be emitted."""
        return key

    def next_boundary(self) -> int | None:
        """The next time (`_ts`) at which it may speak because of the time alone; None if it has nothing to say."""
        return None

    # State; the defaults are those of an operator without any ------------------------------------------------------

    def snapshot(self) -> OperatorState:
        return OperatorState(self.version)

    def delta(self, since: int) -> OperatorState:
        """What changed since `since`, a version that `snapshot` or `delta` returned; a snapshot if that is too long
        ago.
        """
        return self.snapshot()

    def restore(self, parts: Sequence[OperatorState]) -> None:
        """Replace the state by a snapshot and the deltas that followed it."""
        check_chain(parts)
        self.version = parts[-1].version

    def digest(self) -> Digest:
        return Digest(np.empty(0, np.uint64), np.empty(0, np.uint64))

    def digest_of(self, keys: np.ndarray) -> np.ndarray:
        """The digest of each of these keys (hashes), as in `digest`; 0 where a key has no state."""
        return np.zeros(len(keys), np.uint64)

    def image(self) -> Any:
        """The state as it lies in memory, for `put_back`; None where there is no way but `snapshot`."""
        return None

    def put_back(self, image: Any) -> bool:
        """Be as the image was taken, in far less time than `restore` takes; False where that cannot be."""
        return False

    def size(self) -> int:
        """Tuples in the state."""
        return 0

    def port_size(self, port: int) -> int:
        """Of them, those that came on one input port, as far as the operator tells them apart."""
        return self.size() if port == 0 else 0

    retains = False  # whether `retained` says something: its semantics break if what is in its state is lost

    def retained(self, port: int) -> int:
        """How many of the newest tuples of a port are still in the state of an operator that needs them all."""
        return 0


def _runs(ports: np.ndarray) -> list[tuple[int, int]]:
    """Maximal runs of equal entries, as [start, stop)."""
    if not len(ports):
        return []
    cuts = np.flatnonzero(ports[1:] != ports[:-1]) + 1
    edges = [0, *cuts.tolist(), len(ports)]
    return list(itertools.pairwise(edges))


def check_chain(parts: Sequence[OperatorState]) -> None:
    """A snapshot first, then each delta on top of the version before it."""
    if not parts or parts[0].since is not None:
        raise DataError("a state is restored from a snapshot and the deltas after it; the first part is not a snapshot")
    for before, after in itertools.pairwise(parts):
        if after.since != before.version:
            raise DataError(f"a delta since version {after.since} does not follow a state of version {before.version}")


# State by ranges of key hashes ----------------------------------------------------------------------------------------


def split_state(state: OperatorState, bounds: Sequence[int]) -> list[OperatorState]:
    """Divide by key hash at `bounds` (ascending): below the first, from each to the next, from the last on."""
    if state.blob and bounds:
        raise DataError("the state of a user-defined operator is a whole that cannot be divided by key")
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
    """The state of one operator that has the keys of all of these. No key may be in two of them."""
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
    numbers = {name: newest.scalars[name] for name in Numbering.NAMES if name in scalars}  # of one trigger
    return OperatorState(
        max(state.version for state in states), states[0].since, scalars | numbers, tables, states[0].blob
    )


def _concatenated(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    table = pa.Table.from_batches([_decoded(batch) for batch in batches]).combine_chunks()
    return table.to_batches()[0] if table.num_rows else _decoded(batches[0])


def _decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Without dictionaries, which differ from batch to batch."""
    arrays = [array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array for array in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
