"""Which nodes of Spark's plans become which operators: the one table of translation."""

from collections.abc import Mapping

from riprap.spark.jobs.translate import aggregate_nodes, joins, python_nodes, stateful_nodes, stateless
from riprap.spark.jobs.translate.translator import Family

FAMILIES: Mapping[str, Family] = {
    "SubqueryAlias": stateless.same,
    "View": stateless.same,
    "Sort": stateless.same,  # the order of rows in a batch of output
    "Repartition": stateless.same,
    "RepartitionByExpression": stateless.same,
    "ResolvedHint": stateless.same,
    "LocalLimit": stateless.same,  # below the limit itself
    "WithCTE": stateless.with_definitions,
    "CTERelationRef": stateless.reference,
    "EventTimeWatermark": stateless.watermark,
    "Filter": stateless.filtered,
    "Project": stateless.projected,
    "Expand": stateless.expanded,
    "Union": stateless.united,
    "GlobalLimit": stateless.limited,
    "Deduplicate": stateless.without_duplicates,
    "DeduplicateWithinWatermark": stateless.without_duplicates,
    "Distinct": stateless.without_duplicates,
    "MapInPandas": python_nodes.mapped_batches,
    "MapInArrow": python_nodes.mapped_batches,
    "PythonMapInArrow": python_nodes.mapped_batches,  # until PySpark 4.0
    "Aggregate": aggregate_nodes.aggregated,
    "Join": joins.joined,
    "FlatMapGroupsInPandasWithState": stateful_nodes.stateful,
    "TransformWithStateInPySpark": stateful_nodes.stateful,
}
