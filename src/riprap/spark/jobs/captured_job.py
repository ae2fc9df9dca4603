"""What a PySpark job would do, as data: its queries, what each reads, and where each writes. Nothing has started.

A `CapturedJob` is made of a script (`scripts.py`), of a Declarative Pipeline (`pipelines.py`) or of DataFrames
(`frames.py`). Handles into the session (`frame`, `PlanNode.handle`) live as long as the session.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from riprap.base.errors import UsageError, known

OutputMode = Literal["append", "update", "complete"]


@dataclass(frozen=True)
class PlanColumn:
    """An output column of a plan node. `id` is unique in a session; names may repeat."""

    id: int
    name: str
    type: pa.DataType | None  # None: a type that Arrow does not have
    nullable: bool = True
    delay: int | None = None  # watermark delay in microseconds, of the column with the event time


@dataclass(frozen=True)
class PlanExpression:
    """An expression as Spark SQL, in which `§12` in backquotes is the column with the id 12.

    `parts`: expressions inside it that the translation treats on its own, by their ids: aggregate calls, and Python
    functions.
    """

    text: str
    id: int | None = None  # of the column that it defines or passes on; None: of none, as a condition
    name: str = ""
    line: str = ""  # FILE, line N; "" if Spark does not know
    plain: bool = False  # a column as it is
    parts: tuple["PlanPart", ...] = ()


@dataclass(frozen=True)
class PlanPart:
    """An aggregate call or a Python function inside an expression, which refers to it as `§ID`."""

    id: int
    kind: str  # "aggregate", "python"
    text: str  # Spark SQL of an aggregate call; the name of a Python function
    arguments: tuple[PlanExpression, ...] = ()  # of a Python function
    function: "PythonFunction | None" = field(default=None, compare=False)
    handle: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class PythonFunction:
    """What a plan says about a Python function that it calls."""

    function: Callable[..., Any] | None  # the user's own object; None: it was made before the capture began
    returns: pa.DataType | None  # None: a type that Arrow does not have
    call: str  # as in `riprap.graph.spec_python`, or "pandas batches", "arrow batches"; "" if it gets groups of rows
    deterministic: bool


@dataclass(frozen=True)
class JoinTerm:
    """A part of a join's condition. Where it compares two columns: `left operator right + offset`, in microseconds."""

    expression: PlanExpression
    operator: str = ""  # = <=> < <= > >=; "" for other conditions
    left: int = 0
    right: int = 0
    offset: int = 0


@dataclass(frozen=True)
class PlanNode:
    """A node of an analyzed plan, as frozen data."""

    kind: str  # Spark's name: Project, Filter, Join, …
    children: tuple["PlanNode", ...]
    columns: tuple[PlanColumn, ...]
    expressions: tuple[PlanExpression, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)  # per kind; see `plan_reader`
    identity: int = 0  # equal for one node in the plans of several queries
    streaming: bool = False
    line: str = ""  # FILE, line N
    label: str = ""  # the variable or function that the user gave the result to
    handle: Any = field(default=None, compare=False, repr=False)  # the node in Spark

    def walk(self) -> "list[PlanNode]":
        """This node and all below it, parents first."""
        return [self, *(node for child in self.children for node in child.walk())]


@dataclass(frozen=True)
class StatefulCall:
    """A call of applyInPandasWithState, transformWithStateInPandas or transformWithState, with the user's objects."""

    style: str  # "group state", "pandas", "rows"
    function: Any  # a function, or a StatefulProcessor
    clock: str  # what timers follow: "none", "event", "processing"
    initial: bool = False  # whether state starts with rows of another frame


@dataclass(frozen=True)
class NodeMark:
    """Where the user made a node of a plan, and the Python code that the node calls."""

    line: str = ""
    label: str = ""
    call: StatefulCall | None = None


NO_MARK = NodeMark()


@dataclass(frozen=True)
class CapturedSource:
    """Something that a job reads as a stream."""

    name: str  # unique in the job: the name in --input NAME=PATH
    format: str  # "kafka", "parquet", "rate", "table", …
    options: Mapping[str, str] = field(repr=False)  # may hold credentials: never written to a file
    path: str | None  # files that it reads: its recording unless another is given
    table: str | None
    columns: tuple[PlanColumn, ...]
    line: str
    query: str = ""  # the query of this job that writes it; it needs no recording
    leaves: tuple[PlanNode, ...] = field(default=(), repr=False)  # where it is read, in the plans of all queries

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(c.name, c.type, c.nullable) for c in self.columns if c.type is not None])


@dataclass(frozen=True)
class CapturedSink:
    """Where a query writes. `body`: the function of foreachBatch or foreach, which is opaque."""

    format: str  # "delta", "memory", "console", "foreachBatch", "foreach", "table", …
    target: str | None = None  # a path or a table
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Callable[..., Any] | Any | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class CapturedQuery:
    """One query: a streaming one, or one that writes a batch."""

    name: str  # unique in the job
    frame: Any = field(compare=False, repr=False)  # the DataFrame that it writes
    plan: PlanNode = field(repr=False)
    sink: CapturedSink
    mode: OutputMode
    trigger: str  # as in "processingTime 10 seconds", "availableNow"; "" by default; "batch" for a batch
    line: str  # of start() or of the decorator
    reads: tuple[str, ...]  # names of sources
    checkpoint: str | None = None


@dataclass(frozen=True)
class CapturedJob:
    """All queries of a script, a pipeline or a notebook. The session must stay open while plans are used."""

    name: str
    origin: str  # the file, or "" for DataFrames
    queries: tuple[CapturedQuery, ...]
    sources: tuple[CapturedSource, ...]
    spark: Any = field(compare=False, repr=False)
    notes: tuple[str, ...] = ()  # sentences about what was left out

    def query(self, name: str) -> CapturedQuery:
        for query in self.queries:
            if query.name == name:
                return query
        names = [query.name for query in self.queries]
        raise UsageError(f"{self.origin or self.name} has no query {name}; it has {known(names, name)}")

    def source(self, name: str) -> CapturedSource:
        for source in self.sources:
            if source.name == name:
                return source
        names = [source.name for source in self.sources]
        raise UsageError(f"{self.origin or self.name} has no source {name}; it has {known(names, name)}")

    def only(self, name: str, queries: tuple[str, ...]) -> "CapturedJob":
        """Some of its queries and the sources that they read, under another name."""
        chosen = tuple(query for query in self.queries if query.name in queries)
        read = {source for query in chosen for source in query.reads}
        sources = tuple(source for source in self.sources if source.name in read)
        return CapturedJob(name, self.origin, chosen, sources, self.spark, self.notes)
