"""Keeps the Python code that a job gives to Spark's stateful operators: plans have it only as bytes."""

import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.pandas.group_ops import PandasGroupedOpsMixin

from riprap.spark.jobs.captured_job import StatefulCall

_STYLES = {
    "applyInPandasWithState": "group state",
    "transformWithStateInPandas": "pandas",
    "transformWithState": "rows",
}
_CLOCKS = {"eventtimetimeout": "event", "eventtime": "event", "processingtimetimeout": "processing",
           "processingtime": "processing"}  # fmt: skip


@contextmanager
def stateful_calls(calls: list[tuple[Any, StatefulCall]]) -> Iterator[None]:
    """Note every call of these methods with the frame that it makes."""
    with ExitStack() as stack:
        for name, style in _STYLES.items():
            if hasattr(PandasGroupedOpsMixin, name):
                stack.enter_context(patch.object(PandasGroupedOpsMixin, name, _noting(name, style, calls)))
        yield


def _noting(name: str, style: str, calls: list[tuple[Any, StatefulCall]]) -> Any:
    made = getattr(PandasGroupedOpsMixin, name)
    signature = inspect.signature(made)

    def noted(grouped: Any, *arguments: Any, **named: Any) -> DataFrame:
        frame: DataFrame = made(grouped, *arguments, **named)
        given = signature.bind(grouped, *arguments, **named).arguments
        clock = _CLOCKS.get(str(given.get("timeoutConf", given.get("timeMode", ""))).lower(), "none")
        function = given.get("func", given.get("statefulProcessor"))
        initial = given.get("initialState") is not None or bool(given.get("eventTimeColumnName"))
        calls.append((frame, StatefulCall(style, function, clock, initial)))
        return frame

    return noted
