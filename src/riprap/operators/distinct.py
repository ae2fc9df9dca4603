"""The operator that drops duplicates. Semantics: `riprap.graph.specs.DropDuplicates`.

The state is one row without columns per key that has passed, stamped with its time where keys are forgotten.
"""

from collections.abc import Mapping
from typing import cast

import numpy as np
import pyarrow as pa

from riprap.graph.specs import DropDuplicates
from riprap.operators.columns import take, times_of
from riprap.operators.contract import Channel, Emission
from riprap.operators.functor import narrowed
from riprap.operators.groups import GroupTable
from riprap.operators.kernels.first_rows import first_rows
from riprap.operators.row_store import RowStore
from riprap.operators.windowed import WindowedOperator

_NONE = np.iinfo(np.int64).min // 2  # before every time, with room to subtract a duration


class DropDuplicatesOperator(WindowedOperator):
    def _fresh(self) -> None:
        self.spec = cast(DropDuplicates, self.setting.spec)
        schema = self.setting.schemas[0]
        self.groups = GroupTable([schema.field(name).type for name in self.spec.by], self.pool)
        self.stores = {0: RowStore(self.groups, [], self.pool, stamped=self.spec.within is not None)}
        self._now = np.full(1, _NONE)  # greatest `_ts` so far

    def process(self, channel: Channel, batch: pa.RecordBatch) -> list[Emission]:
        self.version += batch.num_rows
        if not batch.num_rows:
            return []
        store = self.stores[0]
        groups = self.groups.groups([batch.column(name) for name in self.spec.by])
        store.reserve(groups)
        positions = np.empty(len(groups), np.int64)
        passed = first_rows(
            groups, times_of(batch), store.base, store.cap, store.head, store.tail, store.stamps,
            self.spec.within or 0, self._now, positions,
        )  # fmt: skip
        self.tidy(batch.num_rows)
        return [Emission(0, take(narrowed(batch, self.setting.wanted[0]), passed), passed)] if len(passed) else []

    def settle(self, groups: np.ndarray | None = None) -> None:
        if self.spec.within is not None:
            self.stores[0].forget(int(self._now[0]) - self.spec.within, groups)

    def scalars(self) -> dict[str, int]:
        return {"now": int(self._now[0])}

    def restore_scalars(self, scalars: Mapping[str, int]) -> None:
        self._now[0] = scalars["now"]
