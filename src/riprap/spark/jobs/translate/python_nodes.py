"""Python functions of the user: in expressions (`udf`, `pandas_udf`), over batches (`mapInPandas`, `mapInArrow`)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa

from riprap.graph.spec_python import CALLS
from riprap.spark.jobs.captured_job import PlanExpression, PlanNode, PlanPart, PythonFunction
from riprap.spark.jobs.translate.node_stream import NodeStream, Untranslatable, column_name, quoted
from riprap.spark.jobs.translate.translator import Naming, Translator, supported


def with_python(
    translator: Translator, node: PlanNode, naming: Naming, child: NodeStream, expressions: Sequence[PlanExpression]
) -> tuple[NodeStream, dict[int, str]]:
    """The stream with the results of Python functions as columns, and those columns by the ids of the parts."""
    columns: dict[int, str] = {}
    for part in (part for expression in expressions for part in expression.parts if part.kind == "python"):
        function = _function(part)
        if function.call not in CALLS:
            raise Untranslatable(f"it calls the Python function {part.text} on several rows at once")
        child, inner = with_python(translator, node, naming, child, part.arguments)
        if function.returns is None:
            raise Untranslatable(f"the Python function {part.text} returns a type that an app cannot have")
        name = column_name(part.text)
        while name in child.stream.columns:
            name += "_"
        made = child.stream.map_python(
            name,
            cast(Any, function.function),
            *(child.text(argument, inner) for argument in part.arguments),
            returns=function.returns,
            call=function.call,
            deterministic=function.deterministic,
            name=translator.name(node, replace(naming, label=""), "python"),
        )
        child = replace(child, stream=made)
        columns[part.id] = quoted(name)
    return child, columns


def mapped_batches(translator: Translator, node: PlanNode, naming: Naming) -> NodeStream:
    """mapInPandas and mapInArrow: the function gets exactly the columns of the node below."""
    (part,) = (part for expression in node.expressions for part in expression.parts)
    function = _function(part)
    below = node.children[0]
    child = translator.child(node, naming)
    if child.windows.keys() & {column.id for column in below.columns}:
        raise Untranslatable(f"the Python function {part.text} gets a window of time, which an app has as two columns")
    wanted = [(child.column(column.id), column.name) for column in below.columns]
    for column in node.columns:
        if not supported(column):
            raise Untranslatable(f"the Python function {part.text} returns {column.name}, which an app cannot have")
    made = translator.shaped(node, naming, child.stream, wanted).map_batches(
        cast(Any, function.function),
        pa.schema([(column.name, column.type) for column in node.columns]),
        pandas=function.call == "pandas batches",
        deterministic=function.deterministic,
        name=translator.name(node, naming, "python"),
    )
    return NodeStream(made, {column.id: column.name for column in node.columns})


def _function(part: PlanPart) -> PythonFunction:
    assert part.function is not None
    if part.function.function is None:
        raise Untranslatable(f"the Python function {part.text} was made outside of the captured script")
    return part.function
