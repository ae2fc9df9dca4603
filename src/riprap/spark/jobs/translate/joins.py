"""Joins: of two streams with bounds in time, and of a stream with static rows."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from riprap.graph.windows import Window, time, unbounded
from riprap.spark.jobs.captured_job import JoinTerm, PlanNode
from riprap.spark.jobs.translate.node_stream import NodeStream, Untranslatable
from riprap.spark.jobs.translate.translator import Naming, Translator

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<=>": "<=>"}
_MIRRORED = {"left": "right", "right": "left", "inner": "inner", "full": "full"}


def joined(translator: Translator, node: PlanNode, naming: Naming) -> NodeStream:
    left, right = node.children
    if not left.streaming or not right.streaming:
        return _with_table(translator, node, naming)
    here = translator.stream(left, replace(naming, label=""))
    there = translator.stream(right, replace(naming, label=""))
    if here.windows or there.windows:
        raise Untranslatable("it joins columns of windows, whose start and end an app has as two columns")
    terms = [_oriented(term, here) for term in node.details["terms"]]
    on = [(t.left, t.right) for t in terms if t.operator == "=" and t.offset == 0 and _crosses(t, here, there)]
    on = [(a, b) for a, b in on if _type(here, a) == _type(there, b)]
    late = _latest(terms, here, there)
    how: str = node.details["how"]
    there = _renamed(translator, node, naming, here, there)
    both = NodeStream(here.stream, {**here.columns, **there.columns})
    used = {frozenset(pair) for pair in on}
    rest = [t for t in terms if not (t.operator == "=" and t.offset == 0 and frozenset((t.left, t.right)) in used)]
    where = " AND ".join(f"({both.text(term.expression)})" for term in rest) or None
    windows = _windows(late, how)
    made = here.stream.join(
        there.stream,
        on=[(here.columns[a], there.columns[b]) for a, b in on],
        left_window=windows[0],
        right_window=windows[1],
        where=where,
        how=how,
        unmatched="expiry",
        name=translator.name(node, naming, "join"),
    )
    if how in ("left_semi", "left_anti"):
        return replace(here, stream=made, times=frozenset())
    return NodeStream(made, both.columns)


def _oriented(term: JoinTerm, here: NodeStream) -> JoinTerm:
    """A comparison with the left stream's column on its left side: `left operator right + offset`."""
    if not term.operator or term.left in here.columns:
        return term
    return JoinTerm(term.expression, _FLIPPED[term.operator], term.right, term.left, -term.offset)


def _crosses(term: JoinTerm, here: NodeStream, there: NodeStream) -> bool:
    return term.left in here.columns and term.right in there.columns


def _type(stream: NodeStream, identity: int) -> object:
    return stream.stream.schema.field(stream.columns[identity]).type


@dataclass(frozen=True)
class _Latest:
    """By how much, in microseconds, a row of one side may be later than its match; None: without a bound."""

    left: int | None
    right: int | None


def _latest(terms: Iterable[JoinTerm], here: NodeStream, there: NodeStream) -> _Latest:
    left: int | None = None
    right: int | None = None
    for term in terms:
        if term.left not in here.times or term.right not in there.times:
            continue
        if term.operator in ("<", "<=", "="):  # left time - right time <= offset
            left = term.offset if left is None else min(left, term.offset)
        if term.operator in (">", ">=", "="):
            right = -term.offset if right is None else min(right, -term.offset)
    return _Latest(left, right)


def _windows(late: _Latest, how: str) -> tuple[Window, Window]:
    """The windows of both ports: a left row waits for right rows that may be later than it, and the reverse."""
    if how != "inner" and (late.left is None or late.right is None):
        raise Untranslatable(
            f"its {how.replace('_', ' ')} join has no bound in time on both sides, "
            "so nothing says when a row has no match"
        )
    return _window(late.right), _window(late.left)


def _window(later: int | None) -> Window:
    return unbounded() if later is None else time(f"{max(later, 0) + 1}us")


def _renamed(translator: Translator, node: PlanNode, naming: Naming, here: NodeStream, there: NodeStream) -> NodeStream:
    """The right stream without names that the left one has."""
    names: dict[str, str] = {}
    taken = {*here.stream.columns, *there.stream.columns}
    for column in there.stream.columns:
        if column in here.stream.columns:
            number = 2
            while f"{column}_{number}" in taken:
                number += 1
            names[column] = f"{column}_{number}"
            taken.add(names[column])
    if not names:
        return there
    stream = there.stream.rename(names, name=translator.name(node, replace(naming, label=""), "right"))
    return replace(there, stream=stream, columns={i: names.get(name, name) for i, name in there.columns.items()})


def _with_table(translator: Translator, node: PlanNode, naming: Naming) -> NodeStream:
    left, right = node.children
    how: str = node.details["how"]
    if right.streaming:
        left, right, how = right, left, _MIRRORED.get(how, how)
    if how not in ("inner", "left", "left_semi", "left_anti"):
        raise Untranslatable(f"a {how} join keeps rows of the static side, which Spark refuses for a stream")
    here = translator.stream(left, replace(naming, label=""))
    table, columns = translator.table(right, naming)
    clash = {name for name in columns.values() if name in here.stream.columns}
    if clash:
        names = {name: _other(name, [*here.stream.columns, *columns.values()]) for name in clash}
        rows = table.rows
        renamed = rows.rename_columns([names.get(name, name) for name in rows.schema.names])
        table = translator.replaced_table(table.name, renamed)
        columns = {identity: names.get(name, name) for identity, name in columns.items()}
    terms = [_oriented(term, here) for term in node.details["terms"]]
    schema = table.schema
    on = [
        t for t in terms
        if t.operator == "=" and t.offset == 0 and t.left in here.columns and t.right in columns
        and _type(here, t.left) == schema.field(columns[t.right]).type
    ]  # fmt: skip
    both = NodeStream(here.stream, {**here.columns, **columns})
    where = " AND ".join(f"({both.text(t.expression)})" for t in terms if t not in on) or None
    made = here.stream.join_table(
        table,
        on=[(here.columns[t.left], columns[t.right]) for t in on],
        how=how,
        where=where,
        name=translator.name(node, naming, "lookup"),
    )
    kept = here.columns if how in ("left_semi", "left_anti") else both.columns
    return replace(here, stream=made, columns=kept)


def _other(name: str, taken: list[str]) -> str:
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"
