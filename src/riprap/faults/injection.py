"""The injection operator: wraps its target and replaces it in the graph.

It has the target's name, ports and streams, so the rewritten graph differs from the original only in the fault: streams
have the same names and therefore the same arrival jitter. It works for any number of ports, because the input of an
operator with several ports is already merged.

A fault that keeps state needs one inner operator. Otherwise there are two: one for before the outage, and one for after
it, which has processed only what a checkpoint would contain.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from riprap.base.errors import UsageError
from riprap.base.randomness import derived_seed
from riprap.faults.alterations import altered, chance_of
from riprap.faults.corrupted_state import corrupt_state
from riprap.faults.models import NOTHING, STRIKES_ONCE, Fault
from riprap.graph.graph import Graph
from riprap.graph.order_keys import KeyShape, OrderKey, just_before
from riprap.graph.specs import Columns, OperatorSpec, PartitionKey, Sink, Source
from riprap.graph.windows import Window
from riprap.operators.build import operator_for, register
from riprap.operators.columns import Keys, keys_of, take
from riprap.operators.contract import Channel, Digest, Emission, Operator, OperatorState, Punctuation, Setting
from riprap.operators.flipping import corrupted
from riprap.operators.groups import GroupTable
from riprap.operators.strings import StringPool

_BEFORE, _DURING, _AFTER = 0, 1, 2


@dataclass(frozen=True, kw_only=True)
class Injected(OperatorSpec):
    """An operator with a fault in front of it."""

    kind = "injected"
    target: OperatorSpec
    fault: Fault

    @property
    def inputs(self) -> int:
        return self.target.inputs

    @property
    def outputs(self) -> int:
        return self.target.outputs

    @property
    def stateful(self) -> tuple[bool, ...]:
        return self.target.stateful

    @property
    def partition_keys(self) -> tuple[PartitionKey, ...]:
        return self.target.partition_keys

    @property
    def windows(self) -> tuple[Window, ...]:
        return self.target.windows

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> tuple[pa.Schema, ...]:
        return self.target.output_schemas(inputs)

    def output_shapes(self, inputs: tuple[KeyShape, ...]) -> tuple[KeyShape, ...]:
        return self.target.output_shapes(inputs)

    def needed(self, inputs: tuple[pa.Schema, ...], wanted: tuple[Columns, ...]) -> tuple[Columns, ...]:
        return self.target.needed(inputs, wanted)


@dataclass(frozen=True, kw_only=True)
class InjectedSource(Source):
    """A source with a fault in front of it."""

    kind = "injected source"
    fault: Fault


Ports = Mapping[str, frozenset[int]]  # input ports by operator; a source counts as one with port 0


def ports_of(graph: Graph, targets: Ports | Iterable[str]) -> Ports:
    """All ports of operators that are given by name."""
    if isinstance(targets, Mapping):
        return targets
    return {name: frozenset(range(max(1, graph[name].inputs))) for name in targets}


def with_fault(graph: Graph, targets: Ports | Iterable[str], fault: Fault) -> Graph:
    """The graph with a fault at these operators or ports at once."""
    for name, struck in ports_of(graph, targets).items():
        spec, fault = graph[name], replace(fault, ports=struck)
        if isinstance(spec, Sink):
            raise UsageError(f"{name} is a sink: inject the fault at its upstream operator")
        check_reorder(graph, name, fault)
        if isinstance(spec, Source):
            graph = graph.with_operator(InjectedSource(**vars(spec), fault=fault))
        else:
            injected = Injected(
                name=name, parallelism=spec.parallelism, annotations=spec.annotations, target=spec, fault=fault
            )
            graph = graph.with_operator(injected)
    return graph


def check_reorder(graph: Graph, name: str, fault: Fault) -> None:
    """Raises `UsageError` if a reorder at this operator would put the input of a later operator out of order."""
    if fault.kind != "reorder" or graph[name].inputs < 2:
        return
    for other in graph.reachable(name) - {name}:
        if graph[other].inputs > 1:
            raise UsageError(
                f"a reorder at {name} would reach {other}, which needs its input in order; inject it at {other}"
            )


class InjectedOperator(Operator):
    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        spec = setting.spec
        assert isinstance(spec, Injected | InjectedSource)
        if isinstance(spec, Injected):
            target = spec.target
        else:
            target = Source(**{name: value for name, value in vars(spec).items() if name != "fault"})
        self._inner = replace(setting, spec=target)
        self._before = operator_for(self._inner)
        self.set_fault(spec.fault)

    def set_fault(self, fault: Fault) -> None:
        """Replaces the fault and clears its progress. The caller restores the state afterwards."""
        setting, self.fault = self.setting, fault
        self._after = self._before if fault.keeps_state else operator_for(self._inner)
        # Tuples of the outage that a reorder holds back, by port; and the order in which ports are released.
        self._held: list[list[pa.RecordBatch]] = [[] for _ in setting.shapes]
        first = derived_seed(self.fault.seed, "reorder") % max(1, len(setting.shapes))
        self._struck = False  # whether a fault of STRIKES_ONCE was injected
        self.moved: list[int] = []  # hashes of the wrong keys that the fault put into tuples
        self._turns = [*range(first, len(setting.shapes)), *range(first)]

    # Rows -------------------------------------------------------------------------------------------------------------

    def process(self, channel: Channel, batch: pa.RecordBatch) -> list[Emission]:
        if self.fault is NOTHING:
            self.version += batch.num_rows
            return self._before.process(channel, batch)
        zones = self._zones(channel.port, keys_of(batch, self.setting.shapes[channel.port]))
        batches = [batch.slice(0, 0) for _ in self.setting.shapes]
        batches[channel.port] = batch
        return self._inject(batches, np.full(batch.num_rows, channel.port, np.int8), zones)

    def process_merged(self, batches: Sequence[pa.RecordBatch], ports: np.ndarray) -> list[Emission]:
        if self.fault is NOTHING:
            self.version += len(ports)
            return self._before.process_merged(batches, ports)
        zones = np.empty(len(ports), np.int8)
        for port, batch in enumerate(batches):
            if batch.num_rows:
                zones[ports == port] = self._zones(port, keys_of(batch, self.setting.shapes[port]))
        return self._inject(list(batches), ports, zones)

    def _zones(self, port: int, keys: Keys) -> np.ndarray:
        """For each row of a port: before, during or after the outage."""
        if not self._strikes(port):
            return np.full(len(keys.ts), _BEFORE, np.int8)
        return np.int8(1) * ~below(keys, self.fault.start) + ~below(keys, self.fault.end)

    def _strikes(self, port: int) -> bool:
        return self.fault.ports is None or port in self.fault.ports

    def _inject(self, batches: list[pa.RecordBatch], ports: np.ndarray, zones: np.ndarray) -> list[Emission]:
        self.version += len(ports)
        if not self.fault.keeps_state:
            return self._around_a_crash(batches, ports, zones)
        during = zones == _DURING
        if self.fault.kind == "reorder" and len(batches) > 1:
            return self._reordered(batches, ports, zones)
        if not during.any() or self.fault.kind == "reorder":
            return self._deliver(self._before, batches, ports, np.arange(len(ports)))
        if self.fault.kind == "loss":
            return self._deliver_rows(self._before, batches, ports, np.flatnonzero(~during))
        if self.fault.kind == "duplicate":
            return self._deliver_rows(self._before, batches, ports, np.repeat(np.arange(len(ports)), 1 + during))
        if self.fault.kind in STRIKES_ONCE:
            if not self._struck:
                self._struck = True
                return self._inject_once(batches, ports, int(np.argmax(during)))
            return self._deliver(self._before, batches, ports, np.arange(len(ports)))
        for port, batch in enumerate(batches):
            own_rows = during[ports == port]
            if own_rows.any():
                batches[port] = altered(batch, self.setting.shapes[port], own_rows, self.fault)
        return self._deliver(self._before, batches, ports, np.arange(len(ports)))

    def _inject_once(self, batches: list[pa.RecordBatch], ports: np.ndarray, first: int) -> list[Emission]:
        """Injects a fault of STRIKES_ONCE at this merged row: into the state for its group, or into the row."""
        port = int(ports[first])
        row = int((ports[:first] == port).sum())
        batch, shape = batches[port], self.setting.shapes[port]
        chance = chance_of(batch, shape, row, self.fault.seed)
        state = self.fault.kind == "corrupt-state" or (self.fault.kind == "sdc" and chance % 2 == 0)
        if state:
            emissions = self._deliver_rows(self._before, batches, ports, np.arange(first))
            if corrupt_state(self._before, port, batch.slice(row, 1), chance // 2):
                return emissions + self._deliver_rows(self._before, batches, ports, np.arange(first, len(ports)))
        batches[port], name = corrupted(batch, row, self.fault.columns, chance // 2)
        if name in self.fault.keys:
            column = batches[port].column(name).slice(row, 1)
            table = GroupTable([column.type], StringPool())
            group = table.groups([column])[0]  # adds the group, so that it has a hash
            self.moved.append(int(table.hashes[group]))
        if state:  # the earlier rows were processed already
            return emissions + self._deliver_rows(self._before, batches, ports, np.arange(first, len(ports)))
        return self._deliver(self._before, batches, ports, np.arange(len(ports)))

    def _around_a_crash(self, batches: list[pa.RecordBatch], ports: np.ndarray, zones: np.ndarray) -> list[Emission]:
        if not self.fault.loses_state:
            restored = np.empty(len(ports), bool)
            for port, batch in enumerate(batches):
                if batch.num_rows:
                    keys = keys_of(batch, self.setting.shapes[port])
                    restored[ports == port] = below(keys, self.fault.restored)
            # Rows that the checkpoint contains; the operator before the crash emits their outputs.
            self._deliver_rows(self._after, batches, ports, np.flatnonzero(restored))
        emissions: list[Emission] = []
        for zone, rows in _runs(zones):
            if zone != _DURING:
                emissions += self._deliver_rows(self._before if zone == _BEFORE else self._after, batches, ports, rows)
        return emissions

    def _reordered(self, batches: list[pa.RecordBatch], ports: np.ndarray, zones: np.ndarray) -> list[Emission]:
        """Holds the tuples of the outage until the first tuple after it arrives."""
        during = zones == _DURING
        for port, batch in enumerate(batches):
            own_rows = np.flatnonzero(during[ports == port])
            if len(own_rows):
                self._held[port].append(take(batch, own_rows))
        over = zones == _AFTER
        first = int(np.argmax(over)) if over.any() else len(ports)
        passing = np.flatnonzero(~during)
        emissions = self._deliver_rows(self._before, batches, ports, passing[passing < first])
        if first < len(ports):
            emissions += self._release()
        return emissions + self._deliver_rows(self._before, batches, ports, passing[passing >= first])

    def _release(self) -> list[Emission]:
        """Releases the tuples that a reorder holds, one port after another."""
        emissions: list[Emission] = []
        for port in self._turns:
            for batch in self._held[port]:
                emissions += self._before.process(Channel(port), batch)
            self._held[port] = []
        return [emission._replace(triggers=None) for emission in emissions]

    def _deliver_rows(
        self, inner: Operator, batches: Sequence[pa.RecordBatch], ports: np.ndarray, rows: np.ndarray
    ) -> list[Emission]:
        """Passes these rows (of the merged order, ascending, with repeats) to the target."""
        if len(rows) == 0:
            return []
        chosen = []
        for port, batch in enumerate(batches):
            within = np.cumsum(ports == port) - 1  # row of the port's batch at each merged row
            chosen.append(take(batch, within[rows[ports[rows] == port]]) if batch.num_rows else batch)
        return self._deliver(inner, chosen, ports[rows], rows)

    def _deliver(
        self, inner: Operator, batches: Sequence[pa.RecordBatch], ports: np.ndarray, rows: np.ndarray
    ) -> list[Emission]:
        single_port = len(batches) == 1
        emissions = inner.process(Channel(0), batches[0]) if single_port else inner.process_merged(batches, ports)
        return [
            emission._replace(triggers=rows if emission.triggers is None else rows[emission.triggers])
            for emission in emissions
        ]

    # Control ----------------------------------------------------------------------------------------------------------

    def punctuate(self, channel: Channel, punctuation: Punctuation) -> list[Emission]:
        lost = self.fault.kind == "loss" and self.fault.start <= punctuation.key < self.fault.end
        if lost and self._strikes(channel.port):
            return []
        inner = self._before if punctuation.key < self.fault.start else self._after
        return inner.punctuate(channel, punctuation)

    def watermark(self, key: OrderKey) -> list[Emission]:
        if self.fault.keeps_state:
            released = self._release() if key >= self.fault.end else []
            return released + self._before.watermark(key)
        emissions = self._before.watermark(key) if key < self.fault.start else []
        return emissions + self._after_restart(self._after.watermark(key))

    def end(self) -> list[Emission]:
        if self.fault.keeps_state:
            return self._release() + self._before.end()
        return self._after_restart(self._after.end())

    def output_watermark(self, key: OrderKey) -> OrderKey:
        promised = self._after.output_watermark(key)
        return min(promised, just_before(self.fault.start)) if self.holding else promised

    def _after_restart(self, emissions: list[Emission]) -> list[Emission]:
        """Drops output for times before the restart."""
        remaining = []
        for emission in emissions:
            if isinstance(emission.event, pa.RecordBatch):
                keys = keys_of(emission.event, self.setting.output_shapes[emission.port])
                rows = np.flatnonzero(~below(keys, self.fault.end))
                if len(rows):
                    remaining.append(Emission(emission.port, take(emission.event, rows)))
            elif emission.event.key >= self.fault.end:
                remaining.append(emission)
        return remaining

    # State: that of the operator after the outage ---------------------------------------------------------------------

    def snapshot(self) -> OperatorState:
        return self._after.snapshot()

    def restore(self, parts: Sequence[OperatorState]) -> None:
        """Starts from a fault-free state of a cut at or before `restored`."""
        self._before.restore(parts)
        if not self.fault.keeps_state and not self.fault.loses_state:
            self._after.restore(parts)
        self.version = parts[-1].version

    def digest(self) -> Digest:
        return self._after.digest()

    def digest_of(self, keys: np.ndarray) -> np.ndarray:
        return self._after.digest_of(keys)

    def image(self) -> Any:
        return self._before.image()

    def put_back(self, image: Any) -> bool:
        put = self.fault.keeps_state and self._before.put_back(image)
        self.version = self._before.version if put else self.version
        return put

    def size(self) -> int:
        return self._after.size()

    @property
    def holding(self) -> bool:
        """Whether a reorder holds tuples back."""
        return any(self._held)


def below(keys: Keys, limit: OrderKey) -> np.ndarray:
    """For each key whether it is below `limit`."""
    result = keys.ts < limit.ts
    tied = keys.ts == limit.ts
    if tied.any():
        in_src = (keys.src < limit.src) | (
            (keys.src == limit.src) & ((keys.seq < limit.seq) | ((keys.seq == limit.seq) & (keys.n < limit.n)))
        )
        result = result | (tied & in_src)
    return np.asarray(result)


def _runs(zones: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    cuts = np.flatnonzero(np.diff(zones)) + 1
    for rows in np.split(np.arange(len(zones)), cuts):
        if len(rows):
            yield int(zones[rows[0]]), rows


register(Injected, InjectedOperator)
register(InjectedSource, InjectedOperator)
