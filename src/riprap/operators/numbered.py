"""Stateless operators that can emit several rows for one: `_n` counts them."""

from collections.abc import Sequence

import pyarrow as pa

from riprap.graph.order_keys import OrderKey
from riprap.operators.columns import LATE_N, Numbering, renumbered_watermark
from riprap.operators.contract import Channel, Emission, Operator, OperatorState, Punctuation, Setting


class NumberedOperator(Operator):
    """The numbering is the only state; it belongs to no key."""

    renumbers = True  # whether one row can cause several

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.numbering = Numbering()

    def late(self, channel: Channel, batch: pa.RecordBatch, at: OrderKey) -> list[Emission]:
        with self.numbering.apart(LATE_N if self.setting.shapes[0].n else 0):
            return self.process(channel, batch)

    def punctuate(self, channel: Channel, punctuation: Punctuation) -> list[Emission]:
        key = self.numbering.key(punctuation.key) if self.renumbers else punctuation.key
        return [Emission(0, Punctuation(key))]

    def output_watermark(self, key: OrderKey) -> OrderKey:
        return renumbered_watermark(key, self.setting.shapes) if self.renumbers else key

    def snapshot(self) -> OperatorState:
        return OperatorState(self.version, None, self.numbering.scalars())

    def restore(self, parts: Sequence[OperatorState]) -> None:
        super().restore(parts)
        self.numbering.restore(parts[-1].scalars)
