"""Nodes without state: filter, select, names, watermark, union."""

from collections.abc import Mapping
from dataclasses import replace

from riprap.spark.jobs.captured_job import PlanColumn, PlanExpression, PlanNode
from riprap.spark.jobs.translate.node_stream import (
    NodeStream,
    Untranslatable,
    WindowOf,
    distinct_names,
    quoted,
    references,
)
from riprap.spark.jobs.translate.python_nodes import with_python
from riprap.spark.jobs.translate.translator import Naming, Translator, supported
from riprap.spark.jobs.translate.window_text import is_window, read_window, read_window_time


def same(translator: Translator, node: PlanNode, naming: Naming) -> NodeStream:
    """A node that adds nothing: an alias, a view, an order of rows, a partitioning."""
    return translator.stream(node.children[0], naming)


def with_definitions(translator: Translator, node: PlanNode, naming: Naming) -> NodeStream:
    translator.definitions(node.details["definitions"])
    return translator.stream(node.children[0], naming)


def reference(translator: Translator, node: PlanNode, naming: Naming) -> NodeStream:
    """A name of a WITH: the definition's columns, by position."""
    definition = translator.definition(node.details["cte"])
    return renamed_ids(translator.stream(definition, naming), definition.columns, node.columns)


def renamed_ids(stream: NodeStream, old: tuple[PlanColumn, ...], new: tuple[PlanColumn, ...]) -> NodeStream:
    ids = {before.id: after.id for before, after in zip(old, new, strict=True)}
    return NodeStream(
        stream.stream,
        {ids[identity]: name for identity, name in stream.columns.items() if identity in ids},
        {ids[identity]: window for identity, window in stream.windows.items() if identity in ids},
        frozenset(ids[identity] for identity in stream.times if identity in ids),
    )


def watermark(translator: Translator, node: PlanNode, naming: Naming) -> NodeStream:
    """The recorded input is in the order of its event time, so a watermark needs no operator."""
    child = translator.stream(node.children[0], naming)
    column = node.details["column"]
    if not translator.event_time(node.children[0], column, child):
        name = next(each.name for each in node.columns if each.id == column)
        raise Untranslatable(
            f"its watermark is on {name}, which is not the time that its source is ordered by: it is computed by "
            "another operator, or another query has another watermark"
        )
    return replace(child, times=child.times | {column})


def filtered(translator: Translator, node: PlanNode, naming: Naming) -> NodeStream:
    (condition,) = node.expressions
    if _of_window(node, condition):
        return translator.stream(node.children[0], naming)
    conditions, below = [condition], node.children[0]
    if not node.line and below.kind == "Filter" and not below.label:  # Spark's own, for NULL in the time of a window
        conditions, below = [*below.expressions, condition], below.children[0]
    child = translator.stream(below, replace(naming, label=""))
    stream, parts = with_python(translator, node, naming, child, conditions)
    text = " AND ".join(stream.text(each, parts) for each in conditions)
    return replace(stream, stream=stream.stream.filter(text, name=translator.name(node, naming, "filter")))


def _of_window(node: PlanNode, condition: PlanExpression) -> bool:
    """Spark's own filter that a sliding window's row is inside, which an app's window needs not."""
    return condition.text.count("precisetimestampconversion") > 0 or (
        node.children[0].kind == "Expand" and ".`start`" in condition.text
    )


def projected(translator: Translator, node: PlanNode, naming: Naming) -> NodeStream:
    windows = {each.id: read_window(each.text) for each in node.expressions if is_window(each.text)}
    if None in windows.values():
        raise Untranslatable("its session has a gap that is computed for each row, or its window is over an expression")
    times = {each.id: read_window_time(each.text) for each in node.expressions}
    times = {identity: window for identity, window in times.items() if window is not None}
    computed = [
        e for e in node.expressions if not e.plain and e.id not in windows and e.id not in times
    ]  # fmt: skip
    makes = bool(computed or times)
    child = translator.stream(node.children[0], replace(naming, label="") if makes else naming)
    added: dict[int | None, WindowOf] = {}
    for identity, window in windows.items():
        assert identity is not None
        assert window is not None
        if not translator.event_time(node.children[0], window.time, child):
            raise Untranslatable("its window is over a column that is not the stream's event time")
        added[identity] = WindowOf(window.window, window.time)
    if times:
        child = _timed(translator, node, naming, child, times)
    out = _selected(translator, node, naming, child, computed) if computed else _renamed(node, child)
    kept = {each.id for each in node.columns}
    passed = {
        e.id: child.windows[source] for e in node.expressions if e.plain and (source := _only(e)) in child.windows
    }
    passed |= {identity: window for identity, window in added.items() if identity is not None}
    event = {e.id for e in node.expressions if e.plain and _only(e) in child.times} | set(times)
    event |= {e.id for e in computed if e.id is not None and _time_again(translator, node, child, e)}
    return NodeStream(
        out.stream,
        out.columns,
        {identity: window for identity, window in passed.items() if identity in kept and identity is not None},
        frozenset(identity for identity in event if identity in kept and identity is not None),
    )


def _time_again(translator: Translator, node: PlanNode, child: NodeStream, expression: PlanExpression) -> bool:
    assert expression.id is not None
    return bool(references(expression.text)) and translator.event_time(node, expression.id, child)


def _only(expression: PlanExpression) -> int:
    """The column that a plain expression passes on."""
    return next(iter(references(expression.text)))


def _renamed(node: PlanNode, child: NodeStream) -> NodeStream:
    """No operator: the same columns under other ids."""
    plain = [e for e in node.expressions if e.plain and _only(e) in child.columns]
    columns = {e.id: child.columns[_only(e)] for e in plain if e.id is not None}
    window_times = {c.id: child.columns[c.id] for c in node.columns if c.id in child.columns}
    return replace(child, columns=window_times | columns)


def _timed(
    translator: Translator, node: PlanNode, naming: Naming, child: NodeStream, times: Mapping[int | None, int | None]
) -> NodeStream:
    """window_time(…): the stream goes on with the time of its windows."""
    (identity, window), *others = times.items()
    of = child.windows.get(window or 0)
    if others or of is None or not of.end:
        raise Untranslatable("window_time is of a window that no aggregate right before it is grouped by")
    stream = child.stream.window_time(name=translator.name(node, naming, "window_time"))
    name = "window_time"
    while name in stream.columns:
        name += "_"
    text = f"{quoted(of.end)} - INTERVAL '1' MICROSECOND AS {quoted(name)}"
    stream = stream.map(text, name=translator.name(node, replace(naming, label=""), "time"))
    assert identity is not None
    return replace(child, stream=stream, columns={**child.columns, identity: name}, times=frozenset({identity}))


def _selected(
    translator: Translator, node: PlanNode, naming: Naming, child: NodeStream, computed: list[PlanExpression]
) -> NodeStream:
    """One functor with the node's columns. Windows that an aggregate follows have none; of others start and end."""
    stream, parts = with_python(translator, node, naming, child, computed)
    names = distinct_names(node.columns)
    texts, columns = [], {}
    for column in node.columns:
        expression = next((each for each in node.expressions if each.id == column.id), None)
        if (
            expression is None
            or is_window(expression.text)
            or (expression.plain and _only(expression) in child.windows)
        ):
            continue
        if expression.plain and _only(expression) not in stream.columns and not supported(column):
            continue
        text = quoted(child.columns[column.id]) if column.id in child.columns else stream.text(expression, parts)
        texts.append(f"{text} AS {quoted(names[column.id])}")
        columns[column.id] = names[column.id]
    kept = {_only(e) for e in node.expressions if e.plain}
    windows = [window for identity, window in child.windows.items() if window.start and identity in kept]
    bounds = {bound for window in windows for bound in (window.start, window.end)}
    texts += [quoted(bound) for bound in sorted(bounds) if bound not in columns.values()]
    made = stream.stream.select(*texts, name=translator.name(node, naming, "select"))
    return replace(stream, stream=made, columns=columns)


def united(translator: Translator, node: PlanNode, naming: Naming) -> NodeStream:
    if not all(child.streaming for child in node.children):
        raise Untranslatable("static rows have no order in time, so a union with them has none")
    parts = [translator.stream(child, replace(naming, label="")) for child in node.children]
    names = distinct_names(node.columns)
    shaped = []
    for part, plan in zip(parts, node.children, strict=True):
        wanted = [(part.column(old.id), names[new.id]) for old, new in zip(plan.columns, node.columns, strict=True)]
        shaped.append(translator.shaped(node, naming, part.stream, wanted))
    made = shaped[0].union(*shaped[1:], name=translator.name(node, naming, "union"))
    times = frozenset(
        column.id
        for number, column in enumerate(node.columns)
        if all(plan.columns[number].id in part.times for part, plan in zip(parts, node.children, strict=True))
    )
    return NodeStream(made, {column.id: names[column.id] for column in node.columns}, times=times)


def expanded(translator: Translator, node: PlanNode, naming: Naming) -> NodeStream:
    """Sliding windows: Spark makes a row for each window that a row is in; an app's window needs none."""
    window = read_window(node.details["projections"][0].text)
    child = translator.stream(node.children[0], naming)
    if window is None:
        raise Untranslatable("it makes several rows of each, and not for windows of time")
    if not translator.event_time(node.children[0], window.time, child):
        raise Untranslatable("its window is over a column that is not the stream's event time")
    return replace(child, windows={**child.windows, node.columns[0].id: WindowOf(window.window, window.time)})


def limited(translator: Translator, node: PlanNode, naming: Naming) -> NodeStream:
    """The first rows, in the order of the event time."""
    inner = node.children[0] if node.children[0].kind != "LocalLimit" else node.children[0].children[0]
    child = translator.stream(inner, replace(naming, label=""))
    (number,) = node.expressions
    counter = "rows_so_far"
    while counter in child.stream.columns:
        counter += "_"
    limited = child.stream.scan(
        *(quoted(column) for column in child.stream.columns),
        state={counter: ("0", f"{counter} + 1")},
        where=f"{counter} <= {number.text}",
        name=translator.name(node, naming, "limit"),
    )
    return replace(child, stream=limited)


def without_duplicates(translator: Translator, node: PlanNode, naming: Naming) -> NodeStream:
    child = translator.stream(node.children[0], replace(naming, label=""))
    columns = [child.column(identity) for identity in node.details["keys"]]
    delay = next((column.delay for column in node.columns if column.delay is not None), None)
    within = None if node.kind == "Deduplicate" or delay is None else f"{max(delay, 1)}us"
    made = child.stream.drop_duplicates(*columns, within=within, name=translator.name(node, naming, "distinct"))
    return replace(child, stream=made)
