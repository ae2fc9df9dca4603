"""Aggregates: over windows of time, sessions, and without a window."""

import re
from dataclasses import replace

from riprap.graph.builder import Stream
from riprap.graph.windows import Session, Sliding, Window, tumbling, unbounded
from riprap.spark.jobs.captured_job import PlanExpression, PlanNode
from riprap.spark.jobs.translate.node_stream import (
    NodeStream,
    Untranslatable,
    WindowOf,
    distinct_names,
    quoted,
    references,
)
from riprap.spark.jobs.translate.translator import Naming, Translator


def aggregated(translator: Translator, node: PlanNode, naming: Naming) -> NodeStream:
    grouping: list[PlanExpression] = node.details["grouping"]
    child = translator.stream(node.children[0], replace(naming, label=""))
    pending = [g for g in grouping if g.plain and _only(g) in child.windows and not child.windows[_only(g)].start]
    if len(pending) > 1:
        raise Untranslatable("it is grouped by two windows")
    child, keys = _keys(translator, node, naming, child, [g for g in grouping if g not in pending])
    window, at = _window(translator, child, grouping, pending)
    names = distinct_names(node.columns)
    calls, direct, computed = _calls(node, child, keys, names)
    bounds: tuple[str, ...] = ()
    if at is not None:
        bounds = tuple(_free(f"window_{part}", [*keys.values(), *names.values()]) for part in ("start", "end"))
        calls += [f"window_{part}() AS {quoted(name)}" for part, name in zip(("start", "end"), bounds, strict=True)]
    if not calls:
        calls = [f"count(*) AS {quoted(_free('rows', [*keys.values(), *names.values()]))}"]  # SELECT DISTINCT k
    by = list(dict.fromkeys(keys.values()))
    kind = "session" if isinstance(window, Session) else "window" if pending else "aggregate"
    made = child.stream.aggregate(*calls, window=window, by=by, name=translator.name(node, naming, kind))
    columns = dict(direct)
    closed = dict(child.windows)
    if at is not None:
        closed[at] = WindowOf(closed[at].window, closed[at].time, *bounds)
    if computed:
        made, columns = _computed(translator, node, naming, NodeStream(made, columns, closed), names, computed)
    kept = [(e.id, _only(e)) for e in node.expressions if e.plain and e.id is not None]
    windows = {identity: closed[of] for identity, of in kept if of in closed}
    return NodeStream(made, columns, windows)


def _only(expression: PlanExpression) -> int:
    return next(iter(references(expression.text)))


def _free(name: str, taken: list[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _keys(
    translator: Translator, node: PlanNode, naming: Naming, child: NodeStream, grouping: list[PlanExpression]
) -> tuple[NodeStream, dict[str, str]]:
    """Columns of the keys, by the text of the grouping; keys that are computed become columns first."""
    keys: dict[str, str] = {}
    computed: dict[str, str] = {}
    for number, key in enumerate(grouping, 1):
        if key.parts:
            raise Untranslatable(f"it is grouped by the Python function {key.parts[0].text}")
        if key.plain and _only(key) in child.windows:  # a window of an aggregate below
            bounds = child.windows[_only(key)]
            keys |= {f"{key.text}.start": bounds.start, f"{key.text}.end": bounds.end}
        elif key.plain:
            keys[key.text] = child.column(_only(key))
        elif references(key.text):
            name = next(
                (e.name for e in node.expressions if e.text == key.text and e.name.isidentifier()), f"key{number}"
            )
            name = _free(name, [*child.stream.columns, *computed])
            computed[name] = f"{child.text(key)} AS {quoted(name)}"
            keys[key.text] = name
    if computed:
        stream = child.stream.map(*computed.values(), name=translator.name(node, replace(naming, label=""), "keys"))
        child = replace(child, stream=stream)
    return child, keys


def _window(
    translator: Translator, child: NodeStream, grouping: list[PlanExpression], pending: list[PlanExpression]
) -> tuple[Window | Sliding, int | None]:
    """The window, and the id of its column."""
    if pending:
        at = _only(pending[0])
        return child.windows[at].window, at
    ends_together = any(g.plain and _only(g) in child.times for g in grouping)  # rows of one group have one time
    if not ends_together:
        closed = [g for g in grouping if g.plain and _only(g) in child.windows]
        ends_together = bool(closed)  # by the window of the aggregate below, which emits it at one time
    return (tumbling("1us") if ends_together else unbounded()), None


def _calls(
    node: PlanNode, child: NodeStream, keys: dict[str, str], names: dict[int, str]
) -> tuple[list[str], dict[int, str], list[PlanExpression]]:
    """The calls of the aggregate; the plan's columns that it has at once; and expressions over them."""
    calls: list[str] = []
    direct: dict[int, str] = {}
    computed: list[PlanExpression] = []
    for expression in node.expressions:
        assert expression.id is not None
        if any(part.kind != "aggregate" for part in expression.parts):
            raise Untranslatable(f"it calls the Python function {expression.parts[0].text}")
        whole = len(expression.parts) == 1 and expression.text == f"`§{expression.parts[0].id}`"
        for part in expression.parts:
            name = names[expression.id] if whole else f"part{-part.id}"
            calls.append(f"{_call(child.text(part.text))} AS {quoted(name)}")
        if whole and names[expression.id] not in keys.values():
            direct[expression.id] = names[expression.id]
        elif expression.text in keys:
            direct[expression.id] = keys[expression.text]
        elif not (expression.plain and _only(expression) in child.windows):
            computed.append(expression)
    return calls, direct, computed


def _call(text: str) -> str:
    """An aggregate call as an app has it: shares of percentiles without Spark's suffixes and casts."""
    if text.startswith("percentile"):
        text = re.sub(r"CAST\(([\d.]+)(?:BD|D)? AS DOUBLE\)", r"\1", text)
        text = re.sub(r", ([\d.]+)(?:BD|D|L)(?=[,)])", r", \1", text)
    return "count(*)" + text[len("count(1)") :] if text.startswith("count(1)") else text


def _computed(
    translator: Translator, node: PlanNode, naming: Naming, base: NodeStream, names: dict[int, str],
    computed: list[PlanExpression],
) -> tuple[Stream, dict[int, str]]:  # fmt: skip
    """Expressions over the results of calls, over keys and over the window."""
    columns = dict(base.columns)
    texts = {columns[identity]: quoted(columns[identity]) for identity in columns}
    for expression in computed:
        assert expression.id is not None
        text = expression.text
        for key, column in ((each.text, columns.get(each.id or 0)) for each in node.expressions if not each.plain):
            if column is not None and key != text and references(key) and "`§-" not in key:
                text = text.replace(key, quoted(column))
        parts = {part.id: quoted(f"part{-part.id}") for part in expression.parts}
        keys = {_only(each): columns[each.id] for each in node.expressions if each.plain and each.id in columns}
        text = replace(base, columns=keys | columns).text(text, parts)
        name = _free(names[expression.id], [*texts])
        texts[name] = f"{text} AS {quoted(name)}"
        columns = {**columns, expression.id: name}
    bounds = sorted({b for window in base.windows.values() if window.start for b in (window.start, window.end)})
    kept = [*texts.values(), *(quoted(bound) for bound in bounds if bound not in texts)]
    made = base.stream.select(*kept, name=translator.name(node, replace(naming, label=""), "results"))
    return made, columns
