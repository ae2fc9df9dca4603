"""The barrier operator. Semantics: `riprap.graph.specs.Barrier`."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from riprap.operators.columns import Keys, batch_of, key_columns, keys_of, to_words
from riprap.operators.contract import Channel, Emission, Punctuation, Setting
from riprap.operators.groups import GroupTable
from riprap.operators.kernels.rings import insert_all, positions_of
from riprap.operators.row_store import RowStore
from riprap.operators.windowed import WindowedOperator


class BarrierOperator(WindowedOperator):
    def __init__(self, setting: Setting) -> None:
        self._stored = [[name for name in schema.names if name in setting.wanted[0]] for schema in setting.schemas]
        super().__init__(setting)

    def _fresh(self) -> None:
        self.groups = GroupTable((), self.pool)
        self.stores = {
            port: RowStore(self.groups, [(name, schema.field(name).type) for name in self._stored[port]], self.pool)
            for port, schema in enumerate(self.setting.schemas)
        }

    retains = True

    def retained(self, port: int) -> int:
        return self.stores[port].size()

    def process(self, channel: Channel, batch: pa.RecordBatch) -> list[Emission]:
        batches = [batch.slice(0, 0)] * len(self.stores)
        batches[channel.port] = batch
        return self.process_merged(batches, np.full(batch.num_rows, channel.port, np.int8))

    def process_merged(self, batches: Sequence[pa.RecordBatch], ports: np.ndarray) -> list[Emission]:
        self.version += len(ports)
        waiting = [store.size() for store in self.stores.values()]
        for port, store in self.stores.items():
            groups = np.zeros(batches[port].num_rows, np.int64)
            store.reserve(groups)
            positions = insert_all(groups, store.base, store.cap, store.tail)
            for name in self._stored[port]:
                if len(groups):
                    store.write(name, positions, to_words(batches[port].column(name), self.pool))
        sets = min(store.size() for store in self.stores.values())
        emissions = self._emit(sets, waiting, batches, ports) if sets else []
        self.tidy(len(ports))
        return emissions

    def _emit(
        self, sets: int, waiting: list[int], batches: Sequence[pa.RecordBatch], ports: np.ndarray
    ) -> list[Emission]:
        """Emit the next `sets` sets. A set is complete when the last of its tuples arrives: that one is its trigger."""
        completed = np.full(sets, -1, np.int64)  # merged row of the trigger
        trigger = np.zeros(sets, np.int64)  # port of the trigger
        columns: dict[str, pa.Array] = {}
        for port, store in self.stores.items():
            arrived = np.full(sets, -1, np.int64)  # merged row of the tuple; -1: it arrived in an earlier call
            new = np.flatnonzero(ports == port)[: max(0, sets - waiting[port])]
            arrived[waiting[port] : waiting[port] + len(new)] = new
            later = arrived > completed
            completed[later] = arrived[later]
            trigger[later] = port
            one, lo = np.zeros(1, np.int64), store.head[:1].copy()
            at = positions_of(one, lo, lo + sets, store.base, store.cap)
            columns |= {name: store.gather(name, at) for name in self._stored[port]}
            store.head[0] += sets
        parts = Keys(*(np.zeros(sets, np.int64) for _ in range(4)))
        for port in self.stores:
            mine = np.flatnonzero(trigger == port)
            if len(mine):
                rows = np.searchsorted(np.flatnonzero(ports == port), completed[mine])
                own = keys_of(batches[port], self.setting.shapes[port]).rows(rows)
                for part, values in zip(parts, own, strict=True):
                    part[mine] = values
        return [Emission(0, batch_of(columns | key_columns(parts, self.setting.output_shapes[0])), completed)]

    def punctuate(self, channel: Channel, punctuation: Punctuation) -> list[Emission]:
        return []
