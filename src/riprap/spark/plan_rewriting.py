"""Rewrites Spark's plans for trials: recorded data in place of sources, and faults in front of operators.

Beside its columns every stream carries a hidden one with the *time* of each row, in microseconds, so that an outage is
an interval of times at any operator:

    source            the event time of the row
    window            the end of the window
    other aggregate   the latest time of the group
    join              the later of both
    Python function   a time column of its output, if there is one

A row is in an outage if its (time, hash of its columns) is in [start, end): the hash divides rows of equal time.
Attributes keep their identity, so that nodes above need not change. A batch keeps the earliest of duplicates, where
Spark's keeps any.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from riprap.spark.catalyst import Catalyst, Plan, children, has_type, identity, kind, output, type_name
from riprap.spark.jobs.captured_job import CapturedSource, PlanColumn, PlanNode
from riprap.spark.plan_operators import PlanOperators

_TIME = "_riprap_time_"
_PASSED = frozenset(
    ("Filter", "Generate", "Sort", "LocalLimit", "GlobalLimit", "Sample", "Repartition", "RepartitionByExpression",
     "Window", "DeduplicateWithinWatermark", "EventTimeWatermark", "ResolvedHint", "UpdateEventTimeWatermarkColumn")
)  # fmt: skip
_COLUMN = re.compile(r"§(\d+)")
Leaf = Callable[[CapturedSource], DataFrame]  # recorded rows, with `_ts`


class Place(NamedTuple):
    """A place in the order of an operator's input."""

    time: int
    hash: int


@dataclass(frozen=True)
class PlanFault:
    """A fault in front of the operators `targets`, for the rows in [start, end).

    `restored`: their state is rolled back to before this place, which is at or before `start`: they have not seen the
    rows from there on, and what they emitted before `start` remains.
    """

    targets: tuple[str, ...]
    start: Place
    end: Place
    restored: Place | None = None  # None: state is kept
    twice: bool = False  # delivered twice, else lost
    behind: bool = False  # behind the targets: another replica takes over, and only what leaves them is lost


@dataclass(frozen=True, eq=False)
class PlanPiece:
    """A part of a rewritten plan. `source` and `target`: the operators that it leads from and to, if it joins two."""

    plan: Plan
    below: tuple["PlanPiece", ...] = ()
    time: str | None = None  # the hidden column; None: the rows are not a stream, or have lost their time
    source: str | None = None
    target: str | None = None


class PlanRewriter:
    """Rewrites the queries of a job. `batch`: recorded data is a table, else a stream."""

    def __init__(self, operators: PlanOperators, catalyst: Catalyst, leaf: Leaf, *, batch: bool) -> None:
        self._operators, self._catalyst, self._leaf, self._batch = operators, catalyst, leaf, batch
        self._sources = {leaf.identity: source for source in operators.sources for leaf in source.leaves}
        self._names = {source.name for source in operators.sources}
        self._known: dict[int, PlanPiece] = {}
        self._count = 0

    def query(self, sink: str) -> PlanPiece:
        """The rewritten plan of a query, without faults."""
        node = self._operators.sinks[sink].plan
        return replace(self._piece(node), source=self._leading_from(node), target=sink)

    def with_fault(self, piece: PlanPiece, fault: PlanFault) -> Plan:
        """The plan of a piece with a fault."""
        below = [self.with_fault(part, fault) for part in piece.below]
        unchanged = all(new is old.plan for new, old in zip(below, piece.below, strict=True))
        plan = piece.plan if unchanged else self._catalyst.with_children(piece.plan, below)
        if piece.time is None:
            return plan
        leaves = piece.target is not None and piece.source in fault.targets and piece.target not in fault.targets
        if leaves if fault.behind else self._enters(piece, fault.targets):
            return self._struck(plan, piece.time, fault)
        if leaves and fault.restored is not None and not unchanged:
            return self._remaining(piece, plan, fault.start)
        return plan

    def _remaining(self, piece: PlanPiece, faulty: Plan, start: Place) -> Plan:
        """The output of a piece up to a fault, and then that of the faulty one."""
        at = F.coalesce(F.col(piece.time or ""), F.lit(start.time))
        before = self._catalyst.frame(piece.plan).where(at < start.time)
        return self._catalyst.plan(before.unionAll(self._catalyst.frame(faulty).where(at >= start.time)))

    def entries(self, piece: PlanPiece, targets: Collection[str]) -> list[PlanPiece]:
        """Where rows reach these operators from outside of them."""
        found = [entry for part in piece.below for entry in self.entries(part, targets)]
        return [*found, piece] if self._enters(piece, targets) else found

    def _enters(self, piece: PlanPiece, targets: Collection[str]) -> bool:
        """Whether rows enter the targets here. What a failed source emits is lost in front of all its consumers."""
        inside = piece.source in targets
        return piece.target is not None and (
            (inside and piece.source in self._names) or (not inside and piece.target in targets)
        )

    def places(self, piece: PlanPiece) -> DataFrame | None:
        """The place of every row of a piece: columns `time` and `hash`."""
        if piece.time is None:
            return None
        frame = self._catalyst.frame(piece.plan)
        return frame.select(F.col(piece.time).alias("time"), self._hash(self._catalyst.plan(frame)).alias("hash"))

    def _struck(self, plan: Plan, time: str, fault: PlanFault) -> Plan:
        frame, at, hash_ = self._catalyst.frame(plan), F.col(time), self._hash(plan)
        start, end = fault.restored or fault.start, fault.end
        since = (at > start.time) | ((at == start.time) & (hash_ >= start.hash))
        until = (at < end.time) | ((at == end.time) & (hash_ < end.hash))
        inside = F.coalesce(since & until, F.lit(False))  # one condition: Spark must not move it below a watermark
        if not fault.twice:
            return self._catalyst.plan(frame.filter(~inside))
        copies = F.explode(F.array_repeat(F.lit(0), F.when(inside, 2).otherwise(1))).alias(f"{_TIME}copy")
        return self._catalyst.project(output(plan), self._catalyst.plan(frame.select("*", copies)))

    def _hash(self, plan: Plan) -> Column:
        visible = [attribute for attribute in output(plan) if not attribute.name().startswith(_TIME)]
        return hash_of([canonical(self._catalyst.column(each), type_name(each)) for each in visible])

    # Carrying the time through a plan ---------------------------------------------------------------------------------

    def _piece(self, node: PlanNode) -> PlanPiece:
        if node.identity not in self._known:
            self._known[node.identity] = self._new(node)
        return self._known[node.identity]

    def _new(self, node: PlanNode) -> PlanPiece:
        if node.identity in self._sources:
            return self._recorded(node, self._sources[node.identity])
        parts = self._parts(node)
        if node.identity in self._operators.links:
            return self._renamed(node, parts[0])
        if all(part.time is None for part in parts):
            return self._untimed(node, parts) if parts else PlanPiece(node.handle)
        if node.kind in ("SubqueryAlias", "View", "WithCTE"):
            return replace(parts[0], source=None, target=None)
        if node.kind == "EventTimeWatermark" and self._batch:
            return replace(parts[0], source=None, target=None)
        if node.kind in _PASSED:
            plan = self._catalyst.with_children(node.handle, [part.plan for part in parts])
            return PlanPiece(plan, parts, parts[0].time)
        method = {
            "Project": self._project, "Aggregate": self._aggregate, "Expand": self._expand, "Join": self._join,
            "Union": self._union, "Distinct": self._distinct, "Deduplicate": self._deduplicate,
        }.get(node.kind, self._opaque)  # fmt: skip
        return method(node, parts)

    def _parts(self, node: PlanNode) -> tuple[PlanPiece, ...]:
        """The rewritten children; where another operator begins, they say so."""
        own = self._operators.of_node.get(node.identity)
        operator = self._operators.by_name[own] if own is not None else None
        bottom = operator is not None and operator.nodes[-1].identity == node.identity
        parts = []
        for child in self._operators.inputs(node):
            piece = self._piece(child)
            parts.append(
                replace(piece, source=self._leading_from(child), target=own)
                if bottom
                else replace(piece, source=None, target=None)
            )
        return tuple(parts)

    def _leading_from(self, node: PlanNode) -> str | None:
        """The operator whose output a node passes on."""
        if node.identity in self._sources:
            return self._sources[node.identity].name
        if node.identity in self._operators.of_node:
            return self._operators.of_node[node.identity]
        below = self._operators.inputs(node)
        return self._leading_from(below[0]) if below else None

    def _recorded(self, node: PlanNode, source: CapturedSource) -> PlanPiece:
        frame, time = self._leaf(source), self._fresh()
        columns, attributes = [], output(node.handle)
        for attribute in attributes:
            name = attribute.name()
            value = frame[f"`{name}`"] if name in frame.columns else F.lit(None)
            columns.append(value.cast(attribute.dataType().catalogString()).alias(name))
        found = self._catalyst.expressions(frame, [*columns, F.unix_micros(frame["_ts"]).alias(time)])
        renamed = [self._catalyst.replacing(each.child(), old) for each, old in zip(found, attributes, strict=False)]
        return PlanPiece(self._catalyst.project([*renamed, found[-1]], self._catalyst.plan(frame)), time=time)

    def _fresh(self) -> str:
        self._count += 1
        return f"{_TIME}{self._count}"

    def _attribute(self, plan: Plan, name: str) -> Any:
        return next(attribute for attribute in output(plan) if attribute.name() == name)

    def _visible(self, plan: Plan) -> list[Any]:
        return [attribute for attribute in output(plan) if not attribute.name().startswith(_TIME)]

    def _untimed(self, node: PlanNode, parts: tuple[PlanPiece, ...]) -> PlanPiece:
        plans = [part.plan for part in parts]
        changed = any(plan is not child.handle for plan, child in zip(plans, node.children, strict=False))
        return PlanPiece(self._catalyst.with_children(node.handle, plans) if changed else node.handle, parts)

    def _renamed(self, node: PlanNode, part: PlanPiece) -> PlanPiece:
        """A reference to a WITH has attributes of its own."""
        new = [
            self._catalyst.replacing(value, attribute)
            for value, attribute in zip(self._visible(part.plan), output(node.handle), strict=True)
        ]
        time = [self._attribute(part.plan, part.time)] if part.time else []
        return PlanPiece(self._catalyst.project([*new, *time], part.plan), (part,), part.time)

    def _project(self, node: PlanNode, parts: tuple[PlanPiece, ...]) -> PlanPiece:
        (part,) = parts
        named = [*_items(node.handle.productElement(0)), self._attribute(part.plan, part.time or "")]
        return PlanPiece(self._catalyst.project(named, part.plan), parts, part.time)

    def _aggregate(self, node: PlanNode, parts: tuple[PlanPiece, ...]) -> PlanPiece:
        (part,) = parts
        frame, time = self._catalyst.frame(part.plan), self._fresh()
        windows = [each for each in _items(node.handle.productElement(0)) if _is_window(each)]
        if windows:
            end = F.unix_micros(self._catalyst.column(windows[0]).getField("end")).alias(time)
            extra = self._catalyst.expressions(frame, [end])[0]
        else:
            extra = self._catalyst.aggregates(frame, [F.max(part.time or "").alias(time)])[0]
        named = self._catalyst.sequence([*_items(node.handle.productElement(1)), extra])
        return PlanPiece(self._catalyst.with_parts(node.handle, {1: named, 2: part.plan}), parts, time)

    def _expand(self, node: PlanNode, parts: tuple[PlanPiece, ...]) -> PlanPiece:
        (part,) = parts
        time = self._attribute(part.plan, part.time or "")
        rows = [self._catalyst.sequence([*_items(row), time]) for row in _items(node.handle.productElement(0))]
        names = self._catalyst.sequence([*_items(node.handle.productElement(1)), time])
        new = {0: self._catalyst.sequence(rows), 1: names, 2: part.plan}
        return PlanPiece(self._catalyst.with_parts(node.handle, new), parts, part.time)

    def _join(self, node: PlanNode, parts: tuple[PlanPiece, ...]) -> PlanPiece:
        joined = PlanPiece(self._catalyst.with_children(node.handle, [part.plan for part in parts]), parts)
        if node.details["how"] in ("left_semi", "left_anti"):
            return replace(joined, time=parts[0].time)
        times = [part.time for part in parts if part.time is not None]
        if len(times) == 1:
            return replace(joined, time=times[0])
        later = F.greatest(*times).alias(self._fresh())
        return self._wrapped(joined, later)

    def _wrapped(self, piece: PlanPiece, time: Column) -> PlanPiece:
        """The visible columns, and this time."""
        named = self._catalyst.expressions(self._catalyst.frame(piece.plan), [time])
        plan = self._catalyst.project([*self._visible(piece.plan), *named], piece.plan)
        return PlanPiece(plan, (piece,), named[0].name())

    def _last(self, piece: PlanPiece) -> PlanPiece:
        """The piece with its time as the last column."""
        if piece.time is None:
            return self._wrapped(piece, F.lit(None).cast("bigint").alias(self._fresh()))
        plan = self._catalyst.project([*self._visible(piece.plan), self._attribute(piece.plan, piece.time)], piece.plan)
        return PlanPiece(plan, (piece,), piece.time)

    def _union(self, node: PlanNode, parts: tuple[PlanPiece, ...]) -> PlanPiece:
        ordered = tuple(self._last(part) for part in parts)
        plan = self._catalyst.with_children(node.handle, [part.plan for part in ordered])
        return PlanPiece(plan, ordered, ordered[0].time)

    def _distinct(self, node: PlanNode, parts: tuple[PlanPiece, ...]) -> PlanPiece:
        if not self._batch:
            return self._opaque(node, parts)
        return self._earliest(parts, self._visible(parts[0].plan))

    def _deduplicate(self, node: PlanNode, parts: tuple[PlanPiece, ...]) -> PlanPiece:
        if not self._batch:
            plan = self._catalyst.with_children(node.handle, [part.plan for part in parts])
            return PlanPiece(plan, parts, parts[0].time)
        return self._earliest(parts, _items(node.handle.productElement(0)))

    def _earliest(self, parts: tuple[PlanPiece, ...], keys: list[Any]) -> PlanPiece:
        """The earliest row of each group of equal keys."""
        (part,) = parts
        frame, number = self._catalyst.frame(part.plan), f"{_TIME}number"
        group = Window.partitionBy(*(self._catalyst.column(key) for key in keys))
        ranked = frame.withColumn(number, F.row_number().over(group.orderBy(part.time or "", self._hash(part.plan))))
        kept = [*self._visible(part.plan), self._attribute(part.plan, part.time or "")]
        plan = self._catalyst.project(kept, self._catalyst.plan(ranked.where(F.col(number) == 1)))
        return replace(self._over(plan, part), time=part.time)

    def _over(self, plan: Plan, part: PlanPiece) -> PlanPiece:
        """The nodes that rank the rows of a part: the window, and one below it that computes the order."""
        (child,) = children(plan)
        if kind(plan) == "Window":
            return PlanPiece(plan, (PlanPiece(child, (part,)),))
        return PlanPiece(plan, (self._over(child, part),))

    def _opaque(self, node: PlanNode, parts: tuple[PlanPiece, ...]) -> PlanPiece:
        """A node that must see exactly its own columns; its output may have a time."""
        bare = tuple(
            PlanPiece(self._catalyst.project(self._visible(part.plan), part.plan), (part,)) if part.time else part
            for part in parts
        )
        piece = PlanPiece(self._catalyst.with_children(node.handle, [part.plan for part in bare]), bare)
        chosen = time_column(node)
        if chosen is None:
            return piece
        attribute = next(each for each in output(piece.plan) if identity(each) == chosen.id)
        value = self._catalyst.column(attribute)
        if chosen.type is not None and pa.types.is_struct(chosen.type):
            value = value.getField("end")
        return self._wrapped(piece, F.unix_micros(value.cast("timestamp")).alias(self._fresh()))


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(number) for number in range(sequence.size())]


def _is_window(expression: Any) -> bool:
    return kind(expression) == "AttributeReference" and has_type(expression, "spark.timeWindow", "spark.sessionWindow")


def time_column(node: PlanNode) -> PlanColumn | None:
    """The column of a node's output that says when a row happened: with a watermark, a window, or any timestamp."""
    by_rank: dict[int, PlanColumn] = {}
    for column in node.columns:
        type_ = column.type
        if type_ is not None and pa.types.is_timestamp(type_):
            by_rank.setdefault(0 if column.delay is not None else 2, column)
        elif type_ is not None and pa.types.is_struct(type_) and column.name in ("window", "session_window"):
            by_rank.setdefault(1, column)
    return by_rank[min(by_rank)] if by_rank else None


# Hashes ---------------------------------------------------------------------------------------------------------------


def canonical(column: Column, type_: str) -> Column:
    """A value that is equal for equal results: floats lose the digits that depend on the order of a sum."""
    if type_ == "double":
        return column.cast("float")
    if type_.startswith("array<") and not any(part in type_ for part in ("map<", "struct<", "variant")):
        return F.sort_array(column).cast("string")  # collect_list has no order
    if type_.startswith(("map<", "variant", "array<", "interval")):
        return column.cast("string")
    return column


def hash_of(columns: list[Column]) -> Column:
    return F.xxhash64(*columns) if columns else F.lit(0).cast("bigint")


def varying(node: PlanNode, operators: PlanOperators) -> frozenset[int]:
    """Columns whose value may change when input is lost, by id: what aggregates and Python functions compute. The
    others identify a row.
    """
    below = operators.inputs(node)
    inherited = [varying(child, operators) for child in below]
    if node.kind == "Union" or node.identity in operators.links:
        found = set()
        for child, ids in zip(below, inherited, strict=True):
            for mine, own in zip(node.columns, child.columns, strict=False):
                if own.id in ids:
                    found.add(mine.id)
        return frozenset(found)
    known = frozenset().union(*inherited) if inherited else frozenset()
    if node.kind in ("Project", "Aggregate"):
        changed = set()
        for expression in node.expressions:
            referred = {int(number) for number in _COLUMN.findall(expression.text)}
            aggregates = any(part.kind == "aggregate" for part in expression.parts)
            if expression.id is not None and (aggregates or referred & known):
                changed.add(expression.id)
        return frozenset(changed)
    passed = {column.id for child in below for column in child.columns}
    if not below or all(column.id in passed for column in node.columns):
        return known
    names = {column.name for child in below for column in child.columns}
    new = [column for column in node.columns if column.id not in passed]
    kept = [column for column in new if column.name in names or _says_when(column)]
    return known | frozenset(column.id for column in new if column not in kept)


def _says_when(column: PlanColumn) -> bool:
    return column.type is not None and (pa.types.is_timestamp(column.type) or column.name.endswith("window"))
