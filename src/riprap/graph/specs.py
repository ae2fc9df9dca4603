"""Operator specifications: what each vertex of a graph is, as frozen data, without any code that runs it.

The semantics of each operator, tuple by tuple, are written in its docstring; `riprap.operators` implements just that.
This is the one list of the kinds there are.
"""

from riprap.graph.spec_base import Columns, OperatorSpec, PartitionKey, user_columns
from riprap.graph.spec_scan import Scan
from riprap.graph.spec_stateless import Delay, Functor, Punctor, Sink, Source, Split, Union, UserDefined
from riprap.graph.spec_windowed import Aggregate, Barrier, Join, Sort

__all__ = [
    "Aggregate",
    "Barrier",
    "Columns",
    "Delay",
    "Functor",
    "Join",
    "OperatorSpec",
    "PartitionKey",
    "Punctor",
    "Scan",
    "Sink",
    "Sort",
    "Source",
    "Split",
    "Union",
    "UserDefined",
    "user_columns",
]
