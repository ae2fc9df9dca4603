"""Operator specifications: the vertices of a graph as immutable data, without code that runs them.

The docstring of each operator defines its semantics, tuple by tuple; `riprap.operators` implements exactly that. This
module lists all kinds of operators.
"""

from riprap.graph.spec_base import Columns, OperatorSpec, PartitionKey, user_columns
from riprap.graph.spec_python import MapBatches, MapPython
from riprap.graph.spec_relational import DropDuplicates, ExpiringJoin, JoinTable
from riprap.graph.spec_scan import Scan
from riprap.graph.spec_spark import SparkStep
from riprap.graph.spec_stateful import StatefulPython
from riprap.graph.spec_stateless import Delay, Functor, Punctor, Sink, Source, Split, Union, UserDefined
from riprap.graph.spec_windowed import Aggregate, Barrier, Join, Sort

__all__ = [
    "Aggregate",
    "Barrier",
    "Columns",
    "Delay",
    "DropDuplicates",
    "ExpiringJoin",
    "Functor",
    "Join",
    "JoinTable",
    "MapBatches",
    "MapPython",
    "OperatorSpec",
    "PartitionKey",
    "Punctor",
    "Scan",
    "Sink",
    "Sort",
    "Source",
    "SparkStep",
    "Split",
    "StatefulPython",
    "Union",
    "UserDefined",
    "user_columns",
]
