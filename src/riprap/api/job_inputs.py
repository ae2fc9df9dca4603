"""The inputs of an app that an existing PySpark job became: its recordings, in the order of event time."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riprap.apps.samples import cache_directory
from riprap.graph.graph import Graph


@dataclass(frozen=True)
class PreparedInputs:
    paths: Mapping[str, Path]  # by source
    sentences: tuple[str, ...]  # what the recordings are like


def prepared_inputs(graph: Graph, given: Mapping[str, Path], spark: Any = None) -> PreparedInputs:
    """Sources without a given recording are their own if they read files; else it raises."""
    from riprap.engine.input_check import check_input
    from riprap.spark.jobs.recordings import prepared
    from riprap.spark.plan_operators import SparkGraph
    from riprap.spark.session import session

    paths: dict[str, Path] = {}
    sentences: list[str] = []
    for source in graph.sources:
        assert source.recorded is not None
        paths[source.name], facts = prepared(
            session(spark), source, given.get(source.name), cache_directory() / "recordings"
        )
        sentences += facts.sentences(source.recorded.delay)
        if not isinstance(graph, SparkGraph):  # its rows are Spark's, of any type
            check_input(paths[source.name], source)
    return PreparedInputs(paths, tuple(sentences))
