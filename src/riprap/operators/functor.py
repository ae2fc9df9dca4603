"""Stateless operators: functor, punctor, split, delay. See `riprap.graph.specs` for their semantics."""

from typing import cast

import numpy as np
import pyarrow as pa

from riprap.graph.mark_keys import before_tuple
from riprap.graph.order_keys import KEY_COLUMNS, OrderKey
from riprap.graph.specs import Delay, Functor, Punctor, Split
from riprap.operators.columns import batch_of, key_columns, keys_of, take
from riprap.operators.contract import Channel, Emission, Operator, Punctuation, Setting


def narrowed(batch: pa.RecordBatch, wanted: frozenset[str]) -> pa.RecordBatch:
    """The wanted columns and the order key."""
    names = [name for name in batch.schema.names if name in wanted or name in KEY_COLUMNS]
    return batch if len(names) == batch.num_columns else batch.select(names)


class FunctorOperator(Operator):
    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        spec = cast(Functor, setting.spec)
        self._predicate = spec.bind(spec.predicate, setting.schemas[0]) if spec.predicate is not None else None
        self._projections = [
            (name, spec.bind(expression, setting.schemas[0]))
            for name, expression in spec.projections or ()
            if name in setting.wanted[0]
        ]
        self._keeps_columns = spec.projections is None
        self._needed = setting.wanted[0] if self._keeps_columns else spec.needed(setting.schemas, setting.wanted)[0]

    def process(self, channel: Channel, batch: pa.RecordBatch) -> list[Emission]:
        self.version += batch.num_rows
        rows = None
        if self._predicate is not None:
            rows = self._predicate.selection(batch)
            if len(rows) == 0:
                return []
            batch = take(narrowed(batch, self._needed), rows)
        elif self._keeps_columns:
            batch = narrowed(batch, self._needed)
        if not self._keeps_columns:
            columns = {name: bound.evaluate(batch) for name, bound in self._projections}
            columns |= {name: batch.column(name) for name in KEY_COLUMNS if name in batch.schema.names}
            batch = batch_of(columns)
        return [Emission(0, batch, rows)]


class PunctorOperator(Operator):
    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        spec = cast(Punctor, setting.spec)
        self._predicate = spec.bind(spec.predicate, setting.schemas[0])

    def process(self, channel: Channel, batch: pa.RecordBatch) -> list[Emission]:
        self.version += batch.num_rows
        before = cast(Punctor, self.setting.spec).before
        marks = self._predicate.selection(batch)
        keys = keys_of(batch, self.setting.shapes[0])
        batch = narrowed(batch, self.setting.wanted[0])
        emissions: list[Emission] = []
        start = 0
        for mark in marks.tolist():
            stop = mark if before else mark + 1
            if stop > start:
                emissions.append(Emission(0, batch.slice(start, stop - start), np.arange(start, stop)))
            emissions.append(Emission(0, Punctuation(before_tuple(keys.at(mark)) if before else keys.at(mark))))
            start = stop
        if start < batch.num_rows:
            emissions.append(Emission(0, batch.slice(start), np.arange(start, batch.num_rows)))
        return emissions


class SplitOperator(Operator):
    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        spec = cast(Split, setting.spec)
        self._routes = [spec.bind(route, setting.schemas[0]) for route in spec.routes]

    def process(self, channel: Channel, batch: pa.RecordBatch) -> list[Emission]:
        self.version += batch.num_rows
        route_of = np.full(batch.num_rows, len(self._routes), np.int64)
        for port in range(len(self._routes) - 1, -1, -1):
            route_of[self._routes[port].selection(batch)] = port
        emissions = []
        for port in range(self.setting.spec.outputs):
            rows = np.flatnonzero(route_of == port)
            if len(rows):
                emissions.append(Emission(port, take(narrowed(batch, self.setting.wanted[port]), rows), rows))
        return emissions


class DelayOperator(Operator):
    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._delay = cast(Delay, setting.spec).delay

    def process(self, channel: Channel, batch: pa.RecordBatch) -> list[Emission]:
        self.version += batch.num_rows
        keys = keys_of(batch, self.setting.shapes[0])
        columns = {name: batch.column(name) for name in batch.schema.names if name in self.setting.wanted[0]}
        columns |= key_columns(keys._replace(ts=keys.ts + self._delay), self.setting.output_shapes[0])
        return [Emission(0, batch_of(columns))]

    def punctuate(self, channel: Channel, punctuation: Punctuation) -> list[Emission]:
        return [Emission(0, Punctuation(self._later(punctuation.key)))]

    def output_watermark(self, key: OrderKey) -> OrderKey:
        return self._later(key)

    def _later(self, key: OrderKey) -> OrderKey:
        return key._replace(ts=key.ts + self._delay)
