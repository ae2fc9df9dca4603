"""User-defined operators.

    class Running(UserOperator):
        '''The running total of `size` per ticker.'''
        def __init__(self, by): self.by, self.totals = by, {}
        def output_schemas(self, inputs): return [pa.schema([inputs[0].field(self.by), ("total", pa.int64())])]
        def process(self, port, batch): …; return [Rows(pa.record_batch(…))]
        def save(self): return json.dumps(self.totals).encode()
        def load(self, saved): self.totals = json.loads(saved)

    stream.apply(Running, by="ticker", name="Totals")

`riprap.testing.checker.check_operator` checks such a class against the contract: call it in your tests.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
import pyarrow as pa

from riprap.base.errors import DataError
from riprap.graph.order_keys import OrderKey, overlapping
from riprap.graph.specs import UserDefined
from riprap.operators.columns import LATE_N, Numbering, batch_of, key_columns, keys_of, renumbered_watermark
from riprap.operators.contract import Channel, Digest, Emission, Operator, OperatorState, Punctuation, Setting
from riprap.operators.kernels.hashing import hash_bytes


@dataclass(frozen=True)
class Rows:
    """Output of a user's operator: a batch with the declared columns, without an order key."""

    batch: pa.RecordBatch
    triggers: Sequence[int] | np.ndarray | None = (
        None  # input row that caused each row, non-decreasing; None: row i caused row i
    )
    port: int = 0


class UserOperator:
    """Base of user-defined operators: deterministic Python on batches, with state that it can save.

    It has no threads, reads no clock, draws no random numbers, and has no state but what `save` returns.
    """

    outputs: ClassVar[int] = 1
    stateful: ClassVar[bool] = True  # False: every output depends on its trigger alone
    deterministic: ClassVar[bool] = True
    tolerates_loss: ClassVar[bool] = True
    one_per_trigger: ClassVar[bool] = False  # True: at most one output per input tuple, so `_n` is not needed

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> Sequence[pa.Schema]:
        """The columns of each output."""
        raise NotImplementedError(f"{type(self).__name__}.output_schemas")

    def process(self, port: int, batch: pa.RecordBatch) -> Iterable[Rows]:
        """Process rows of an input port (with `_ts` and `_seq`), in order; return what they cause, in order."""
        raise NotImplementedError(f"{type(self).__name__}.process")

    def save(self) -> bytes:
        """All state as bytes. Equal states must give equal bytes."""
        return b""

    def load(self, saved: bytes) -> None:
        """Restore what `save` returned; called on a new object."""

    def size(self) -> int:
        """Tuples in the state, for statistics."""
        return 0


class UserDefinedOperator(Operator):
    """Runs a `UserOperator` as an `Operator`."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.spec = cast(UserDefined, setting.spec)
        self._renumbers = self.spec.renumbers(setting.shapes)
        self._start_over()

    def _start_over(self) -> None:
        self.user: UserOperator = self.spec.factory(**dict(self.spec.options))
        self._numbering = [Numbering() for _ in range(self.spec.outputs)]

    def process(self, channel: Channel, batch: pa.RecordBatch) -> list[Emission]:
        self.version += batch.num_rows
        if batch.num_rows == 0:
            return []
        keys = keys_of(batch, self.setting.shapes[channel.port])
        emissions = []
        for rows in self.user.process(channel.port, batch):
            if rows.batch.num_rows == 0:
                continue
            triggers = self._triggers(rows, batch.num_rows)
            schema = self.setting.output_schemas[rows.port]
            if rows.batch.schema.names != schema.names:
                raise DataError(
                    f"operator {self.spec.name}: {self.spec.factory.__name__} returned columns "
                    f"{rows.batch.schema.names} but declared {schema.names}"
                )
            own = keys.rows(triggers)
            shape = self.setting.output_shapes[rows.port]
            if self._renumbers:
                own = self._numbering[rows.port].number(own)
            columns = {n: rows.batch.column(n) for n in schema.names if n in self.setting.wanted[rows.port]}
            emissions.append(Emission(rows.port, batch_of(columns | key_columns(own, shape)), triggers))
        return emissions

    def late(self, channel: Channel, batch: pa.RecordBatch, at: OrderKey) -> list[Emission]:
        shared = overlapping(list(self.setting.shapes))
        with ExitStack() as apart:
            for numbering in self._numbering:
                apart.enter_context(numbering.apart(LATE_N * (1 + channel.port) if shared else 0))
            return self.process(channel, batch)

    def _triggers(self, rows: Rows, count: int) -> np.ndarray:
        if rows.triggers is None:
            if rows.batch.num_rows != count:
                raise DataError(
                    f"operator {self.spec.name}: {rows.batch.num_rows} rows for {count} inputs; "
                    "specify with triggers= which input caused each"
                )
            return np.arange(count)
        triggers = np.asarray(rows.triggers, np.int64)
        if len(triggers) != rows.batch.num_rows or (np.diff(triggers) < 0).any():
            raise DataError(f"operator {self.spec.name}: triggers= needs one input row per output row, non-decreasing")
        if len(triggers) and (triggers[0] < 0 or triggers[-1] >= count):
            raise DataError(f"operator {self.spec.name}: triggers= names an input row that is not in the batch")
        return triggers

    def punctuate(self, channel: Channel, punctuation: Punctuation) -> list[Emission]:
        if not self._renumbers:
            return super().punctuate(channel, punctuation)
        numbered = enumerate(self._numbering)
        return [Emission(port, Punctuation(numbering.key(punctuation.key))) for port, numbering in numbered]

    def output_watermark(self, key: OrderKey) -> OrderKey:
        return renumbered_watermark(key, self.setting.shapes) if self._renumbers else key

    def snapshot(self) -> OperatorState:
        scalars: dict[str, int] = {}
        for port, numbering in enumerate(self._numbering):
            scalars |= {f"{port}{name}": value for name, value in numbering.scalars().items()}
        return OperatorState(self.version, None, scalars, {}, self._saved())

    def _saved(self) -> bytes:
        saved: object = self.user.save()
        if not isinstance(saved, bytes):
            raise DataError(
                f"operator {self.spec.name}: {self.spec.factory.__name__}.save() returned {type(saved).__name__}; "
                "it must return bytes, as in json.dumps(…).encode()"
            )
        return saved

    def restore(self, parts: Sequence[OperatorState]) -> None:
        super().restore(parts)
        self._start_over()
        last = parts[-1]
        self.user.load(last.blob)
        for port, numbering in enumerate(self._numbering):
            numbering.restore(_of_port(last.scalars, port))

    def digest(self) -> Digest:
        saved = np.frombuffer(self._saved(), np.uint8)
        if not len(saved):
            return super().digest()
        return Digest(np.zeros(1, np.uint64), np.array([hash_bytes(saved, 0, len(saved))], np.uint64))

    def size(self) -> int:
        return self.user.size()


def _of_port(scalars: Mapping[str, int], port: int) -> dict[str, int]:
    prefix = str(port)
    return {name.removeprefix(prefix): value for name, value in scalars.items() if name.startswith(f"{prefix}_")}
