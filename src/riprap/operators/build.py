"""From a specification to a running operator: the table of which class runs which kind."""

from typing import Any

import pyarrow as pa

from riprap.base.errors import GraphError
from riprap.graph.graph import Graph
from riprap.graph.order_keys import KeyShape
from riprap.graph.specs import (
    Aggregate,
    Barrier,
    Delay,
    DropDuplicates,
    ExpiringJoin,
    Functor,
    Join,
    JoinTable,
    MapBatches,
    MapPython,
    OperatorSpec,
    Punctor,
    Scan,
    Sink,
    Sort,
    Source,
    SparkStep,
    Split,
    StatefulPython,
    Union,
    UserDefined,
)
from riprap.operators.aggregate import AggregateOperator
from riprap.operators.barrier import BarrierOperator
from riprap.operators.contract import Channel, Emission, Operator, Setting
from riprap.operators.distinct import DropDuplicatesOperator
from riprap.operators.expiring_join import ExpiringJoinOperator
from riprap.operators.functor import DelayOperator, FunctorOperator, PunctorOperator, SplitOperator, narrowed
from riprap.operators.join import JoinOperator
from riprap.operators.map_batches import MapBatchesOperator
from riprap.operators.map_python import MapPythonOperator
from riprap.operators.scan import ScanOperator
from riprap.operators.sort import SortOperator
from riprap.operators.stateful import StatefulOperator
from riprap.operators.table_join import TableJoinOperator
from riprap.operators.union import UnionOperator
from riprap.operators.user import UserDefinedOperator


class PassOperator(Operator):
    """Sources and sinks: output equals input."""

    def process(self, channel: Channel, batch: pa.RecordBatch) -> list[Emission]:
        self.version += batch.num_rows
        return [Emission(0, narrowed(batch, self.setting.wanted[0]))]


CLASSES: dict[type[OperatorSpec], type[Operator]] = {
    Source: PassOperator,
    Sink: PassOperator,
    Functor: FunctorOperator,
    Aggregate: AggregateOperator,
    Join: JoinOperator,
    ExpiringJoin: ExpiringJoinOperator,
    JoinTable: TableJoinOperator,
    DropDuplicates: DropDuplicatesOperator,
    MapPython: MapPythonOperator,
    MapBatches: MapBatchesOperator,
    Sort: SortOperator,
    Barrier: BarrierOperator,
    Punctor: PunctorOperator,
    Delay: DelayOperator,
    Scan: ScanOperator,
    Split: SplitOperator,
    StatefulPython: StatefulOperator,
    Union: UnionOperator,
    UserDefined: UserDefinedOperator,
}


def setting_of(graph: Graph, name: str, wanted: tuple[frozenset[str], ...] | None = None) -> Setting:
    """An operator's setting in a graph. Without `wanted`: every column of every output."""
    spec = graph[name]
    schemas: tuple[pa.Schema, ...]
    shapes: tuple[KeyShape, ...]
    output_schemas: tuple[pa.Schema, ...]
    output_shapes: tuple[KeyShape, ...]
    if isinstance(spec, Source):
        schemas, shapes = (spec.schema,), (graph.shape(name),)
    else:
        schemas, shapes = graph.input_schemas(name), graph.input_shapes(name)
    if isinstance(spec, Sink):
        output_schemas, output_shapes = schemas, shapes
    else:
        output_schemas = tuple(graph.schema(name, port) for port in range(spec.outputs))
        output_shapes = tuple(graph.shape(name, port) for port in range(spec.outputs))
    if wanted is None:
        wanted = tuple(frozenset(schema.names) for schema in output_schemas)
    return Setting(spec, schemas, shapes, output_schemas, output_shapes, wanted)


def make_operator(graph: Graph, name: str, wanted: tuple[frozenset[str], ...] | None = None) -> Operator:
    """A new operator."""
    return operator_for(setting_of(graph, name, wanted))


def operator_for(setting: Setting) -> Operator:
    if isinstance(setting.spec, SparkStep):
        raise GraphError(
            f"operator {setting.spec.name} is a part of Spark's own plan, which only Spark runs: the app can be "
            f"assessed and planned, not run{f' ({setting.spec.line})' if setting.spec.line else ''}"
        )
    factory: Any = CLASSES[type(setting.spec)]
    operator: Operator = factory(setting)
    return operator


def register(spec: type[OperatorSpec], operator: type[Operator]) -> None:
    """Let a package that imports this one add a kind of operator (fault injection does)."""
    CLASSES[spec] = operator
