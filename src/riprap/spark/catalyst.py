"""Spark's private interfaces to logical plans, in one place: everything that may change from version to version.

Classic sessions only. Plans, expressions and attributes are handles of the JVM's objects.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession

Plan = Any  # org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
Attribute = Any  # org.apache.spark.sql.catalyst.expressions.Attribute


class Catalyst:
    """The logical plans of one session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._jvm: Any = spark._jvm
        self._sql = self._jvm.org.apache.spark.sql

    def plan(self, frame: DataFrame) -> Plan:
        """The analyzed plan of a frame. A stream need not be started for it."""
        return frame._jdf.queryExecution().analyzed()

    def frame(self, plan: Plan) -> DataFrame:
        """A frame with this plan, which is analyzed again where it has changed."""
        rows = self._sql.classic.Dataset.ofRows(self.spark._jsparkSession, plan)  # type: ignore[attr-defined]
        return DataFrame(rows, self.spark)

    def column(self, attribute: Attribute) -> Column:
        """The column of one attribute, which a name might not identify."""
        return Column(self._sql.classic.ExpressionUtils.column(attribute))

    def expressions(self, frame: DataFrame, columns: Sequence[Column]) -> list[Any]:
        """Analyzed named expressions over the output of a frame."""
        return items(self.plan(frame.select(*columns)).productElement(0))

    def aggregates(self, frame: DataFrame, columns: Sequence[Column]) -> list[Any]:
        """Analyzed aggregates over the output of a frame."""
        return items(self.plan(frame.agg(*columns)).productElement(1))

    def replacing(self, expression: Any, attribute: Attribute) -> Any:
        """A named expression under the identity of an attribute: what refers to the attribute gets its value."""
        metadata = self._jvm.scala.Option.apply(attribute.metadata())
        return self._sql.catalyst.expressions.Alias(
            expression, attribute.name(), attribute.exprId(), attribute.qualifier(), metadata, self.sequence([])
        )

    def project(self, expressions: Sequence[Any], child: Plan) -> Plan:
        return self._sql.catalyst.plans.logical.Project(self.sequence(expressions), child)

    def with_children(self, plan: Plan, children: Sequence[Plan]) -> Plan:
        return plan.withNewChildren(self.indexed(children))

    def with_parts(self, plan: Plan, parts: Mapping[int, Any]) -> Plan:
        """A copy of a node in which some arguments of its constructor are replaced."""
        count = plan.productArity()
        given = self.spark.sparkContext._gateway.new_array(self._jvm.java.lang.Object, count)
        for number in range(count):
            given[number] = parts[number] if number in parts else plan.productElement(number)
        return plan.makeCopy(given)

    def sequence(self, items: Sequence[Any]) -> Any:
        return self._jvm.PythonUtils.toSeq(list(items))

    def indexed(self, items: Sequence[Any]) -> Any:
        return self.sequence(items).toIndexedSeq()


def items(sequence: Any) -> list[Any]:
    """The elements of a Scala sequence."""
    return [sequence.apply(number) for number in range(sequence.size())]


def children(plan: Plan) -> list[Plan]:
    return items(plan.children())


def output(plan: Plan) -> list[Attribute]:
    return items(plan.output())


def kind(plan: Plan) -> str:
    """The class of a node, as in "Aggregate"."""
    return str(plan.nodeName())


def identity(attribute: Attribute) -> int:
    """What tells an attribute from others of the same name."""
    return int(attribute.exprId().id())


def type_name(attribute: Attribute) -> str:
    return str(attribute.dataType().simpleString())


def has_type(attribute: Attribute, *names: str) -> bool:
    """Whether an attribute's metadata has one of these entries."""
    metadata = attribute.metadata()
    return any(metadata.contains(name) for name in names)


def is_window(attribute: Attribute) -> bool:
    return has_type(attribute, "spark.timeWindow", "spark.sessionWindow")


def is_event_time(attribute: Attribute) -> bool:
    return has_type(attribute, "spark.watermarkDelayMs")
