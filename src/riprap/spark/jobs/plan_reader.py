"""Reads Spark's analyzed plans into `PlanNode`s. The only module that uses private APIs of Spark for jobs.

Tried with the versions in `TRIED`; others are read too, and `read_plan` says so if it fails. Calls into the JVM are
what costs: about ten for each node and five for each different column, 0.2 ms each.

`details` by kind of node:

    EventTimeWatermark            column: the id of the event time; delay: microseconds
    Join                          how: inner, left, right, full, left_semi, left_anti; terms: its condition (JoinTerm)
    Aggregate                     grouping: ids or expressions, as in `expressions`
    Deduplicate…                  keys: ids
    Expand                        projections: the first expression of each
    leaves                        format, options, path, table, static
    CTERelationRef                cte: number of the definition; WithCTE: definitions by number
    GlobalLimit, LocalLimit       none: their expression is the number
    FlatMapGroupsInPandasWithState, TransformWithStateInPySpark
                                  given: ids of the columns that the function gets; by: ids of the keys; call: the
                                  user's code (StatefulCall), None where its call was not captured
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyspark
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StructType, _parse_datatype_json_string
from pyspark.util import PythonEvalType

from riprap.base.errors import MissingPrerequisite, UsageError
from riprap.spark.jobs.captured_job import (
    NO_MARK,
    JoinTerm,
    NodeMark,
    PlanColumn,
    PlanExpression,
    PlanNode,
    PlanPart,
    PythonFunction,
)
from riprap.spark.jobs.interval_text import interval_microseconds

TRIED = ("4.3",)  # versions that the tests of this module passed on
_CALL = re.compile(r"\((?P<function>[^,]*),(?P<file>.+):(?P<line>\d+)\)")
STATEFUL = ("FlatMapGroupsInPandasWithState", "TransformWithStateInPySpark")
_JOINS = {
    "INNER": "inner", "CROSS": "inner", "LEFT OUTER": "left", "RIGHT OUTER": "right", "FULL OUTER": "full",
    "LEFT SEMI": "left_semi", "LEFT ANTI": "left_anti",
}  # fmt: skip


def read_plan(
    frame: DataFrame,
    mark_of: Callable[[int], "NodeMark"] = lambda identity: NO_MARK,
    functions: Mapping[int, Callable[..., Any]] = MappingProxyType({}),
) -> PlanNode:
    """The analyzed plan of a DataFrame.

    `mark_of`: where the user made a node with this identity, if known. `functions`: see `python_functions`.
    """
    jdf = getattr(frame, "_jdf", None)
    if jdf is None:
        raise UsageError(
            "this DataFrame belongs to a Spark Connect session, which does not show analyzed plans: "
            "build it in a classic session, or give the script, as in `riprap graph job.py`"
        )
    try:
        return _Reader(frame.sparkSession, mark_of, functions).node(jdf.queryExecution().analyzed())
    except (Py4JError, TypeError, AttributeError) as error:  # TypeError: a method that is not there, called
        raise MissingPrerequisite(
            f"the plans of PySpark {pyspark.__version__} cannot be read ({type(error).__name__}); "
            f"versions that were tried: {', '.join(TRIED)}"
        ) from error


def untried() -> list[str]:
    """A sentence about the installed version of PySpark, if plans were not read with it before."""
    version = pyspark.__version__
    if ".".join(version.split(".")[:2]) in TRIED:
        return []
    return [f"plans of PySpark {version} were not tried; those of {' and '.join(TRIED)} were"]


def identity_of(frame: DataFrame) -> int:
    """The identity of a DataFrame's uppermost node, as in `PlanNode.identity`."""
    plan: Any = frame._jdf.queryExecution().analyzed()
    return int(frame.sparkSession._jvm.java.lang.System.identityHashCode(plan))


def python_functions(spark: Any, made: Iterable[tuple[Any, Callable[..., Any]]]) -> dict[int, Callable[..., Any]]:
    """The user's functions by identities, as plans refer to them. `made`: what is in the JVM, and its function."""
    identity = spark._jvm.java.lang.System.identityHashCode
    return {int(identity(judf.func())): function for judf, function in made}


def read_yaml(spark: Any, text: str) -> Any:
    """YAML as plain data, by the parser that comes with Spark; raises `ValueError`."""
    try:
        tree = spark._jvm.com.fasterxml.jackson.dataformat.yaml.YAMLMapper().readTree(text)
    except Py4JJavaError as error:
        raise ValueError(str(error.java_exception.getMessage()).splitlines()[0]) from error
    return json.loads(str(tree.toString()) or "null")


def frame_of(spark: Any, node: PlanNode) -> DataFrame:
    """The DataFrame of a node that is not streaming."""
    jdf = spark._jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, node.handle)
    return DataFrame(jdf, spark)


class _Reader:
    def __init__(self, spark: Any, mark_of: Callable[[int], NodeMark], functions: Mapping[int, Any]) -> None:
        self._jvm = spark._jvm
        self._functions = functions
        self._mark_of = mark_of
        self._none = self._jvm.PythonUtils.toSeq([])
        self._empty = getattr(getattr(self._jvm.scala.collection.immutable, "Map$"), "MODULE$").empty()
        self._read: dict[int, PlanNode] = {}
        self._template: Any = None  # any attribute, to make others of
        self._parts = 0

    def node(self, plan: Any) -> PlanNode:
        identity = self._identity(plan)
        if identity not in self._read:
            self._read[identity] = self._new(plan, identity)
        return self._read[identity]

    def _identity(self, of: Any) -> int:
        return int(self._jvm.java.lang.System.identityHashCode(of))

    def _new(self, plan: Any, identity: int) -> PlanNode:
        kind = str(plan.nodeName())
        children = tuple(self.node(child) for child in _each(plan.children()))
        if kind == "WithCTE":
            return self._with_definitions(plan, identity, children)
        columns = self._columns(plan)
        expressions: tuple[PlanExpression, ...] = ()
        details: dict[str, Any] = {}
        if kind == "Expand":
            details["projections"] = [self._expression(row.apply(0)) for row in _each(plan.projections())]
        elif kind == "Aggregate":
            details["grouping"] = [self._expression(each) for each in _each(plan.groupingExpressions())]
            expressions = tuple(self._expression(each) for each in _each(plan.aggregateExpressions()))
        elif children:
            expressions = tuple(self._expression(each) for each in _each(plan.expressions()))
        if kind == "EventTimeWatermark":
            time = next(column for column in columns if column.id == expressions[0].id)
            details |= {"column": time.id, "delay": time.delay}
        elif kind == "Join":
            how = str(plan.joinType().sql())
            details["how"] = _JOINS.get(how, how.lower())
            condition = plan.condition()
            details["terms"] = self._terms(condition.get()) if condition.isDefined() else ()
        elif kind.startswith("Deduplicate"):
            details["keys"] = [int(key.exprId().id()) for key in _each(plan.keys())]
        elif kind == "Distinct":
            details["keys"] = [column.id for column in columns]
        elif kind == "CTERelationRef":
            details["cte"] = int(plan.cteId())
        elif kind == "CTERelationDef":
            details["cte"] = int(plan.id())
        elif kind == "SubqueryAlias":
            details["alias"] = str(plan.alias())
        elif not children:
            details |= self._leaf(plan)
        mark = self._mark_of(identity)
        if kind in STATEFUL:
            details |= self._stateful(plan, children[0]) | {"call": mark.call}
        line = mark.line or next((each.line for each in expressions if each.line), "")
        streaming = bool(plan.isStreaming())
        return PlanNode(kind, children, columns, expressions, details, identity, streaming, line, mark.label, plan)

    def _with_definitions(self, plan: Any, identity: int, children: tuple[PlanNode, ...]) -> PlanNode:
        """The body of a WITH, in which a reference stands for the definition."""
        definitions = {child.details["cte"]: child.children[0] for child in children if child.kind == "CTERelationDef"}
        body = next(child for child in children if child.kind != "CTERelationDef")
        return PlanNode(
            "WithCTE", (body,), body.columns, details={"definitions": definitions}, identity=identity,
            streaming=body.streaming, line=body.line, label=body.label, handle=plan,
        )  # fmt: skip

    def _stateful(self, plan: Any, child: PlanNode) -> dict[str, Any]:
        given = [int(each.exprId().id()) for each in _each(plan.functionExpr().children())]
        if str(plan.nodeName()) == "FlatMapGroupsInPandasWithState":
            by = [int(each.exprId().id()) for each in _each(plan.groupingAttributes())]
        else:
            by = [column.id for column in child.columns[: int(plan.groupingAttributesLen())]]
        return {"given": given, "by": by}

    # Columns ----------------------------------------------------------------------------------------------------------

    def _columns(self, plan: Any) -> tuple[PlanColumn, ...]:
        output = plan.output()
        fields = StructType.fromJson(json.loads(plan.schema().json())).fields
        texts = str(output.mkString("\x00")).split("\x00") if fields else []
        if fields and self._template is None:
            self._template = next(iter(_each(output)))
        columns = []
        for number, (column, text) in enumerate(zip(fields, texts, strict=False)):
            found = re.search(r"#(\d+)L?(-T\d+ms)?$", text)
            identity = int(found.group(1)) if found else int(output.apply(number).exprId().id())
            delay = column.metadata.get("spark.watermarkDelayMs")
            type_ = arrow_type(column.dataType)
            nullable = bool(column.nullable)
            columns.append(PlanColumn(identity, column.name, type_, nullable, None if delay is None else delay * 1000))
        return tuple(columns)

    # Expressions ------------------------------------------------------------------------------------------------------

    def _expression(self, expression: Any) -> PlanExpression:
        nodes = json.loads(expression.toJSON())
        line = self._line(expression)
        if _class(nodes[0]) == "AttributeReference":
            return PlanExpression(_column(_id(nodes[0])), _id(nodes[0]), nodes[0]["name"], line, plain=True)
        parts: list[PlanPart] = []
        if _class(nodes[0]) != "Alias":
            return PlanExpression(self._text(expression, nodes, parts), line=line, parts=tuple(parts))
        plain = _class(nodes[1]) == "AttributeReference"
        text = self._text(expression.child(), nodes[1:], parts)
        return PlanExpression(text, _id(nodes[0]), nodes[0]["name"], line, plain, tuple(parts))

    def _text(self, expression: Any, nodes: list[Any], parts: list[PlanPart]) -> str:
        """SQL of an expression, with placeholders for columns and for its `parts`."""
        return self._written(expression, self._specials(expression, nodes), parts)

    def _written(self, expression: Any, specials: list[tuple[Any, list[Any]]], parts: list[PlanPart]) -> str:
        """`sql()` leaves out what some expressions mean, as the schema of from_json: `_special` writes those."""
        replaced: dict[str, str] = {}
        mapping = self._empty
        for special, nodes in specials:
            name = f"§s{len(replaced)}"
            replaced[_column(f"s{len(replaced)}")] = self._special(special, nodes, parts)
            mapping = mapping.updated(special, self._named(name))
        for leaf in _each(expression.collectLeaves().distinct()):
            if str(leaf.nodeName()) == "AttributeReference":
                mapping = mapping.updated(leaf, leaf.withName(f"§{leaf.exprId().id()}").withQualifier(self._none))
        text = str(expression.transform(mapping).sql())
        for placeholder, meaning in replaced.items():
            text = text.replace(placeholder, meaning)
        return text

    def _named(self, name: str) -> Any:
        return self._template.withName(name).withQualifier(self._none)

    def _specials(self, expression: Any, nodes: list[Any]) -> list[tuple[Any, list[Any]]]:
        """The uppermost expressions that `_special` writes, each with its part of the JSON."""
        if not any(_is_special(node) for node in nodes):
            return []
        return [(expression, nodes)] if _is_special(nodes[0]) else self._specials_below(expression, nodes)

    def _specials_below(self, expression: Any, nodes: list[Any]) -> list[tuple[Any, list[Any]]]:
        pairs = zip(_each(expression.children()), _divided(nodes), strict=True)
        return [found for child, part in pairs for found in self._specials(child, part)]

    def _special(self, expression: Any, nodes: list[Any], parts: list[PlanPart]) -> str:
        kind = _class(nodes[0])
        if kind in ("AggregateExpression", "PythonUDF"):
            self._parts += 1
            number = -self._parts  # what is inside it takes others
            if kind == "AggregateExpression":
                parts.append(PlanPart(number, "aggregate", self._aggregate(expression, nodes), handle=expression))
            else:
                parts.append(self._python(number, expression, nodes))
            return _column(number)
        if "replacement" in nodes[0]:  # `sql()` shows parameters that are not children
            written = [self._parameter(each, parts) for each in _each(expression.parameters())]
            return str(expression.makeSQLString(self._jvm.PythonUtils.toSeq(written)))
        divided = _divided(nodes)
        texts = [
            self._text(child, part, parts) for child, part in zip(_each(expression.children()), divided, strict=True)
        ]
        if kind == "CreateNamedStruct":  # `sql()` leaves out names
            return f"named_struct({', '.join(texts)})"
        pairs = _dict(expression.options())
        options = ", ".join(f"{_literal(text)}" for pair in pairs.items() for text in pair)
        schema = f", {_literal(str(expression.schema().sql()))}" if kind in _PARSING else ""
        return f"{_SPECIAL[kind]}({texts[0]}{schema}{f', map({options})' if options else ''})"

    def _python(self, number: int, expression: Any, nodes: list[Any]) -> PlanPart:
        arguments = tuple(self._expression(child) for child in _each(expression.children()))
        function = PythonFunction(
            self._functions.get(self._identity(expression.func())),
            arrow_type(_parse_datatype_json_string(str(expression.dataType().json()))),
            _CALLS.get(int(expression.evalType()), ""),
            bool(expression.udfDeterministic()),
        )
        return PlanPart(number, "python", nodes[0]["name"], arguments, function, expression)

    def _parameter(self, expression: Any, parts: list[PlanPart]) -> str:
        return self._text(expression, json.loads(expression.toJSON()), parts)

    def _aggregate(self, expression: Any, nodes: list[Any]) -> str:
        """An aggregate call. `sql()` leaves out that first, last and any_value ignore nulls."""
        parts: list[PlanPart] = []
        text = self._written(expression, self._specials_below(expression, nodes), parts)
        name = {"First": "first", "Last": "last", "AnyValue": "any_value"}.get(_class(nodes[1]))
        if parts:
            raise _Unreadable(f"{text} computes over a Python function; compute the value in a column first")
        if name is None or str(nodes[1].get("ignoreNulls")).lower() != "true":
            return text
        function = expression.aggregateFunction()
        argument = self._text(function.children().apply(0), _divided(_divided(nodes)[0])[0], parts)
        return f"{name}({argument}, true)" + "".join(text.partition(" FILTER (WHERE ")[1:])

    def _terms(self, condition: Any) -> tuple[JoinTerm, ...]:
        """The parts of a condition that AND connects."""
        nodes = json.loads(condition.toJSON())
        if _class(nodes[0]) == "Between":
            value, *bounds = _each(condition.parameters())
            return tuple(self._term(op, value, bound) for op, bound in zip((">=", "<="), bounds, strict=True))
        if _class(nodes[0]) == "And":
            return tuple(term for side in _each(condition.children()) for term in self._terms(side))
        operator = _COMPARISONS.get(_class(nodes[0]), "")
        if operator:
            return (self._term(operator, *_each(condition.children())),)
        parts: list[PlanPart] = []
        return (JoinTerm(PlanExpression(self._text(condition, nodes, parts), parts=tuple(parts))),)

    def _term(self, operator: str, one: Any, other: Any) -> JoinTerm:
        """A comparison; of two columns, perhaps with an interval, it says by how much one may be later."""
        parts: list[PlanPart] = []
        sides = [json.loads(each.toJSON()) for each in (one, other)]
        left, right = (self._text(each, nodes, parts) for each, nodes in zip((one, other), sides, strict=True))
        expression = PlanExpression(f"({left} {operator} {right})", parts=tuple(parts))
        before, after = (_moment(nodes) for nodes in sides)
        if before is None or after is None:
            return JoinTerm(expression)
        return JoinTerm(expression, operator, before[0], after[0], after[1] - before[1])

    def _line(self, expression: Any) -> str:
        found = _CALL.search(str(expression.origin().pysparkErrorContext()))
        return f"{found.group('file')}, line {found.group('line')}" if found else ""

    # Leaves -----------------------------------------------------------------------------------------------------------

    def _leaf(self, plan: Any) -> dict[str, Any]:
        kind = str(plan.getClass().getSimpleName())
        if kind == "StreamingRelation":
            source = plan.dataSource()
            options = _dict(source.options())
            paths = [str(each) for each in _each(source.paths())]
            path = options.get("path") or (paths[0] if paths else None)
            return {"format": str(source.className()), "options": options, "path": path, "table": None}
        if kind == "StreamingRelationV2":
            options = dict(plan.extraOptions())
            table = str(plan.identifier().get().name()) if plan.identifier().isDefined() else None
            return {"format": str(plan.sourceName()), "options": options, "path": options.get("path"), "table": table}
        return {"format": kind, "options": {}, "path": None, "table": None}


_SPECIAL = {
    "AggregateExpression": "", "PythonUDF": "", "JsonToStructs": "from_json", "CsvToStructs": "from_csv",
    "StructsToJson": "to_json", "StructsToCsv": "to_csv",
    "CreateNamedStruct": "named_struct",
}  # fmt: skip
_CALLS = {
    PythonEvalType.SQL_BATCHED_UDF: "rows",
    PythonEvalType.SQL_ARROW_BATCHED_UDF: "rows",
    PythonEvalType.SQL_SCALAR_PANDAS_UDF: "pandas",
    PythonEvalType.SQL_SCALAR_PANDAS_ITER_UDF: "pandas iterator",
    PythonEvalType.SQL_MAP_PANDAS_ITER_UDF: "pandas batches",
    PythonEvalType.SQL_MAP_ARROW_ITER_UDF: "arrow batches",
    getattr(PythonEvalType, "SQL_SCALAR_ARROW_UDF", -1): "arrow",  # since 4.1
    getattr(PythonEvalType, "SQL_SCALAR_ARROW_ITER_UDF", -2): "arrow iterator",
}
_COMPARISONS = {
    "EqualTo": "=", "EqualNullSafe": "<=>", "LessThan": "<", "LessThanOrEqual": "<=", "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}  # fmt: skip


def _is_special(node: Any) -> bool:
    return _class(node) in _SPECIAL or "replacement" in node


_PARSING = ("JsonToStructs", "CsvToStructs")


class _Unreadable(UsageError):
    """An expression that cannot be written as SQL."""


def arrow_type(type_: DataType) -> pa.DataType | None:
    try:
        return to_arrow_type(type_, timezone="UTC")
    except PySparkException:  # intervals, variants, user-defined types
        return None


def _each(seq: Any) -> Iterable[Any]:
    return (seq.apply(number) for number in range(seq.size()))


def _class(node: Any) -> str:
    return str(node["class"]).rpartition(".")[2]


def _id(node: Any) -> int:
    return int(node["exprId"]["id"])


def _column(identity: int | str) -> str:
    return f"`§{identity}`"


def _divided(nodes: list[Any]) -> list[list[Any]]:
    """The JSON nodes of an expression's children: the list is in order, each parent before its children."""
    parts, at = [], 1
    for _ in range(nodes[0]["num-children"]):
        end, open_ = at, 1
        while open_:
            open_ += nodes[end]["num-children"] - 1
            end += 1
        parts.append(nodes[at:end])
        at = end
    return parts


def _moment(nodes: list[Any]) -> tuple[int, int] | None:
    """`column + microseconds`, of an expression with at most one column; None: it is something else."""
    kind = _class(nodes[0])
    if kind == "AttributeReference":
        return _id(nodes[0]), 0
    children = _divided(nodes)
    if (kind == "Cast" and nodes[0]["dataType"] == "timestamp") or kind == "DatetimeSub":  # written out below it
        return _moment(children[0])
    if kind in ("TimestampAddInterval", "TimeAdd", "TimestampAddYMInterval"):
        start, shift = _moment(children[0]), _interval(children[1])
        return None if start is None or shift is None else (start[0], start[1] + shift)
    return None


def _interval(nodes: list[Any]) -> int | None:
    """Microseconds of a literal interval without months."""
    if _class(nodes[0]) == "UnaryMinus":
        shift = _interval(_divided(nodes)[0])
        return None if shift is None else -shift
    if _class(nodes[0]) != "Literal" or not str(nodes[0]["dataType"]).startswith("interval"):
        return None
    value = str(nodes[0]["value"])
    if re.fullmatch(r"-?\d+", value):
        return int(value) if "month" not in nodes[0]["dataType"] and "year" not in nodes[0]["dataType"] else None
    return interval_microseconds(value)


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _dict(options: Any) -> dict[str, str]:
    return {str(pair._1()): str(pair._2()) for pair in _each(options.toSeq())}
