"""The union operator. Semantics: `riprap.graph.specs.Union`."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from riprap.graph.order_keys import OrderKey, overlapping
from riprap.operators.columns import (
    LATE_N,
    Keys,
    Numbering,
    batch_of,
    concatenated,
    key_columns,
    keys_of,
    renumbered_watermark,
)
from riprap.operators.contract import Channel, Emission, Operator, OperatorState, Punctuation, Setting
from riprap.operators.kernels.merging import source_rows


class UnionOperator(Operator):
    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._names = [name for name in setting.output_schemas[0].names if name in setting.wanted[0]]
        self.renumbers = overlapping(list(setting.shapes))
        self.numbering = Numbering()

    def process(self, channel: Channel, batch: pa.RecordBatch) -> list[Emission]:
        self.version += batch.num_rows
        keys = keys_of(batch, self.setting.shapes[channel.port])
        return [self._emission({name: batch.column(name) for name in self._names}, keys)]

    def process_merged(self, batches: Sequence[pa.RecordBatch], ports: np.ndarray) -> list[Emission]:
        self.version += len(ports)
        starts = np.cumsum([0, *(batch.num_rows for batch in batches[:-1])])
        rows = source_rows(ports, starts)
        order = pa.array(rows)
        columns = {name: concatenated([batch.column(name) for batch in batches]).take(order) for name in self._names}
        per_port = [keys_of(batch, shape) for batch, shape in zip(batches, self.setting.shapes, strict=True)]
        counts = [batch.num_rows for batch in batches]
        parts = [
            np.concatenate([np.broadcast_to(keys[part], count) for keys, count in zip(per_port, counts, strict=True)])
            for part in range(4)
        ]
        return [self._emission(columns, Keys(*(part[rows] for part in parts)))]

    def late(self, channel: Channel, batch: pa.RecordBatch, at: OrderKey) -> list[Emission]:
        with self.numbering.apart(LATE_N * (1 + channel.port)):
            return self.process(channel, batch)

    def _emission(self, columns: dict[str, pa.Array], keys: Keys) -> Emission:
        if self.renumbers:
            keys = self.numbering.number(keys)
        return Emission(0, batch_of(columns | key_columns(keys, self.setting.output_shapes[0])))

    def punctuate(self, channel: Channel, punctuation: Punctuation) -> list[Emission]:
        key = self.numbering.key(punctuation.key) if self.renumbers else punctuation.key
        return [Emission(0, Punctuation(key))]

    def output_watermark(self, key: OrderKey) -> OrderKey:
        return renumbered_watermark(key, self.setting.shapes) if self.renumbers else key

    # The numbering is the only state; it belongs to no key.

    def snapshot(self) -> OperatorState:
        return OperatorState(self.version, None, self.numbering.scalars())

    def restore(self, parts: Sequence[OperatorState]) -> None:
        super().restore(parts)
        scalars: Mapping[str, int] = parts[-1].scalars
        self.numbering.restore(scalars)
