"""The specification of an operator that only Spark can run: a node of the plan of a PySpark job."""

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from riprap.graph.spec_base import OperatorSpec, PartitionKey


@dataclass(frozen=True, kw_only=True)
class SparkStep(OperatorSpec):
    """One node of Spark's plan, or several that belong together, such as a window and its aggregate.

    It is assessed by faults in Spark's own plan. Our engine cannot run it: `reason` says why.
    """

    kind: ClassVar[str] = "Spark operator"
    ports: int = 1
    state: bool = False
    columns: pa.Schema
    does: str = ""
    line: str = ""  # FILE, line N
    reason: str = ""

    @property
    def inputs(self) -> int:
        return self.ports

    @property
    def stateful(self) -> tuple[bool, ...]:
        return (self.state,) * self.ports

    @property
    def partition_keys(self) -> tuple[PartitionKey, ...]:
        return ((),) * self.ports if self.state else (None,) * self.ports

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> tuple[pa.Schema, ...]:
        return (self.columns,)

    def describe(self) -> str:
        return self.does or self.kind
