"""Python code with state per key: applyInPandasWithState, transformWithStateInPandas and transformWithState."""

from dataclasses import replace

import pyarrow as pa

from riprap.graph.types import logical_type
from riprap.spark.jobs.captured_job import PlanNode, StatefulCall
from riprap.spark.jobs.translate.node_stream import NodeStream, Untranslatable, distinct_names
from riprap.spark.jobs.translate.translator import Naming, Translator, supported


def stateful(translator: Translator, node: PlanNode, naming: Naming) -> NodeStream:
    call: StatefulCall | None = node.details["call"]
    if call is None:
        raise Untranslatable("its Python code is known only where the call is captured: in a script")
    if call.initial:
        raise Untranslatable("its state starts with rows of another frame, or its output has a time of its own")
    child = translator.stream(node.children[0], replace(naming, label=""))
    below = {column.id: column for column in node.children[0].columns}
    delay = next((column.delay for column in below.values() if column.delay is not None), None)
    if call.clock == "event" and delay is None:
        raise Untranslatable("its timers follow event time, and it has no watermark")
    given, names = node.details["given"], {identity: below[identity].name for identity in node.details["given"]}
    if len(set(names.values())) < len(names):
        raise Untranslatable("two of the columns that its function gets have the same name")
    computed = [identity for identity in node.details["by"] if identity not in names]
    if computed:
        raise Untranslatable("its keys are computed and no columns: add them with withColumn first")
    wanted = [(child.column(identity), names[identity]) for identity in given]
    stream = translator.shaped(node, naming, child.stream, wanted)
    for column in node.columns:
        if not supported(column):
            raise Untranslatable(f"it returns {column.name}, which an app cannot have")
    outputs = distinct_names(node.columns)
    if [outputs[column.id] for column in node.columns] != [column.name for column in node.columns]:
        raise Untranslatable("its columns have names that an app cannot have")
    schema = pa.schema([pa.field(c.name, logical_type(c.type), c.nullable) for c in node.columns])
    made = stream.stateful(
        call.function,
        schema,
        by=[names[identity] for identity in node.details["by"]],
        style=call.style,  # type: ignore[arg-type]
        clock=call.clock,  # type: ignore[arg-type]
        delay=f"{delay or 0}us",
        name=translator.name(node, naming, "state"),
    )
    return NodeStream(made, outputs)
